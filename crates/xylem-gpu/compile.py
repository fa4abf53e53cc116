#!/usr/bin/env python3
"""Makes src/blake3.ptx from src/blake3.cu, or with --check compares them. It needs no GPU.

It compiles with NVRTC of one version, so that everyone gets the same text:

    python3 -m pip install --target /tmp/nvrtc nvidia-cuda-nvrtc-cu12==12.0.140
    python3 crates/xylem-gpu/compile.py /tmp/nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12 [--check]

PTX of that version runs on drivers from 525 on; compute_75 is the oldest architecture (Turing) for which the driver
then compiles it.
"""

import ctypes
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / "src" / "blake3.cu"
COMPILED = SOURCE.with_suffix(".ptx")
VERSION = (12, 0)
OPTIONS = [b"-arch=compute_75"]
HEADER = "// Made by compile.py from blake3.cu; do not edit.\n"


def compiled(library: str) -> str:
    """Compiles the source with this libnvrtc."""
    nvrtc = ctypes.CDLL(library)
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    if (major.value, minor.value) != VERSION:
        sys.exit(f"{library} is NVRTC {major.value}.{minor.value}; use {VERSION[0]}.{VERSION[1]}")
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_char_p * len(OPTIONS))(*OPTIONS)
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE.read_bytes(), b"blake3.cu", 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, len(OPTIONS), options)
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        sys.exit(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    # Without comments, and without NVRTC's own table of architectures, which nothing uses.
    lines = (re.sub(r"\s*//.*", "", line).rstrip() for line in ptx.value.decode().splitlines())
    return HEADER + "".join(line + "\n" for line in lines if line and "nv6target" not in line)


def main() -> None:
    """Writes or compares the compiled form."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    text = compiled(arguments[0])
    if "--check" not in sys.argv:
        COMPILED.write_text(text)
    elif text != COMPILED.read_text():
        sys.exit("blake3.ptx is not what blake3.cu compiles to; run this without --check")


main()
