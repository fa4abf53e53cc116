#!/usr/bin/env python3
"""Times clean release builds of one-line users of BLAKE3 crates, and the speed of the resulting programs.

Usage: bench/compile.py [--rounds N] [--reference FILE] [--dir DIR] [--json]

Each program hashes one file and prints the hash; an empty program is built along with them and its
time subtracted. Sources are fetched before anything is timed. Then every round builds all programs
in turn, each from an empty target directory (`cargo build --release --offline`, the default
profile), so that other load on the machine affects all of them. Then all run in turn on a file of
6.8 MiB, as in the README of blake3-balanced. Figures are medians; sizes are those of the programs.

  --reference FILE   the official reference_impl.rs, which is on no registry; absent without it
  --dir DIR          where the programs are made (default: target/compile)

Exit status: 0 measured (missed targets are marked), 1 two programs print different hashes,
2 wrong usage, 4 a build failed.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILE_BYTES = int(6.8 * (1 << 20))
RUNS = 41

READ = "std::fs::read(std::env::args().nth(1).unwrap()).unwrap()"
HASH = "fn main() { println!(\"{}\", %s::hash(&" + READ + ").to_hex()); }\n"
RAYON = (
    "fn main() { let mut hasher = %s::Hasher::new(); hasher.update_rayon(&" + READ + "); "
    "println!(\"{}\", hasher.finalize().to_hex()); }\n"
)
# The reference implementation has no hexadecimal output.
HEX = "for byte in out { print!(\"{byte:02x}\"); } println!();"
OWN_REFERENCE = (
    "#[allow(dead_code)] mod reference;\n"
    "fn main() { let out = reference::hash(reference::Use::Plain, &" + READ + ", 32); " + HEX + " }\n"
)
OFFICIAL_REFERENCE = (
    "#[allow(dead_code)] mod reference;\n"
    "fn main() { let mut hasher = reference::Hasher::new(); hasher.update(&" + READ + "); "
    "let mut out = [0u8; 32]; hasher.finalize(&mut out); " + HEX + " }\n"
)

EMPTY = "empty program"
OURS = "xylem-hash"
OFFICIAL = "blake3"
OWN = "our reference file"
REFERENCE = "official reference file"


class Program:
    """A package of its own: its dependency, its main.rs, and a module beside it."""

    def __init__(self, name, dependency, main, module=None):
        self.name, self.dependency, self.main, self.module = name, dependency, main, module
        self.builds, self.runs, self.size = [], [], 0

    def write(self, base):
        self.dir = base / re.sub(r"[^a-z0-9]+", "-", self.name)
        (self.dir / "src").mkdir(parents=True, exist_ok=True)
        (self.dir / "Cargo.toml").write_text(
            f'[package]\nname = "user"\nversion = "0.1.0"\nedition = "2021"\n\n'
            f"[dependencies]\n{self.dependency}\n\n[workspace]\n"
        )
        (self.dir / "src/main.rs").write_text(self.main)
        if self.module:
            shutil.copyfile(self.module, self.dir / "src/reference.rs")
        self.binary = self.dir / "target/release" / ("user" + (".exe" if os.name == "nt" else ""))
        cargo(self.dir, "fetch")

    def build(self):
        shutil.rmtree(self.dir / "target", ignore_errors=True)
        start = time.monotonic()
        cargo(self.dir, "build", "--release", "--offline")
        self.builds.append(time.monotonic() - start)
        self.size = self.binary.stat().st_size

    def run(self, file):
        start = time.monotonic()
        done = subprocess.run([self.binary, file], check=True, stdout=subprocess.PIPE)
        self.runs.append(time.monotonic() - start)
        return done.stdout.decode().strip()


def cargo(directory, *arguments):
    # Neither a shared target directory nor a compiler cache may do the work beforehand.
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CARGO_PROFILE") and name not in ("CARGO_TARGET_DIR", "RUSTC_WRAPPER")
    }
    kept["RUSTC_WRAPPER"] = ""
    done = subprocess.run(["cargo", *arguments, "--quiet"], cwd=directory, env=kept)
    if done.returncode != 0:
        print(f"compile.py: cargo {' '.join(arguments)} failed in {directory}", file=sys.stderr)
        sys.exit(4)


def workspace_version(crate):
    """The version in our own lock file, so that tables of one day agree."""
    lock = (ROOT / "Cargo.lock").read_text()
    return re.search(rf'name = "{crate}"\nversion = "([^"]+)"', lock).group(1)


def programs(reference):
    ours = f'path = "{(ROOT / "crates/xylem-hash").as_posix()}"'
    theirs = f'version = "={workspace_version("blake3")}"'
    own = ROOT / "crates/xylem-hash/src/tests/reference.rs"
    made = [
        Program(EMPTY, "", 'fn main() { println!("nothing"); }\n'),
        Program(OURS, f"xylem-hash = {{ {ours} }}", HASH % "xylem_hash"),
        Program(
            f"{OURS}, rayon",
            f'xylem-hash = {{ {ours}, features = ["rayon"] }}',
            RAYON % "xylem_hash",
        ),
        Program(OFFICIAL, f"blake3 = {{ {theirs} }}", HASH % "blake3"),
        Program(
            f"{OFFICIAL}, rayon", f'blake3 = {{ {theirs}, features = ["rayon"] }}', RAYON % "blake3"
        ),
        Program(
            f"{OFFICIAL}, pure", f'blake3 = {{ {theirs}, features = ["pure"] }}', HASH % "blake3"
        ),
        Program(OWN, "", OWN_REFERENCE, own),
    ]
    if reference:
        made.append(Program(REFERENCE, "", OFFICIAL_REFERENCE, reference))
    return made


def measure(made, base, rounds):
    """Builds and runs all programs; exits with 1 if hashes differ."""
    for program in made:
        program.write(base)
    for _ in range(rounds):
        for program in made:
            program.build()
    file = base / "input"
    file.write_bytes(bytes((i * i >> 7) & 0xFF for i in range(4093)) * (FILE_BYTES // 4093 + 1))
    os.truncate(file, FILE_BYTES)
    hashes = set()
    for _ in range(RUNS):
        for program in made:
            said = program.run(file)
            if program.name != EMPTY:
                hashes.add(said)
    if len(hashes) != 1:
        print(f"compile.py: programs differ: {hashes}", file=sys.stderr)
        sys.exit(1)


def results(made):
    """One object a program: medians, without the empty program's time, and ratios."""
    empty = made[0]
    base_build = statistics.median(empty.builds)
    base_run = statistics.median(empty.runs)
    rows = []
    for program in made:
        build, run = statistics.median(program.builds), statistics.median(program.runs)
        rows.append(
            {
                "program": program.name,
                "build_s": build,
                "build_low_s": min(program.builds),
                "build_high_s": max(program.builds),
                "build_net_s": build - base_build,
                "run_net_ms": (run - base_run) * 1000,
                "size_net_kib": (program.size - empty.size) / 1024,
                "build_and_run_net_s": build - base_build + run - base_run,
            }
        )
    net = {row["program"]: row["build_net_s"] for row in rows}
    reference = REFERENCE if REFERENCE in net else OWN
    for row in rows[1:]:
        row["to_blake3"] = row["build_net_s"] / net[OFFICIAL]
        row["to_reference"] = row["build_net_s"] / net[reference]
    return rows, reference


def wanted(rows, reference):
    """The project's targets: a text, and whether each is met."""
    row = {row["program"]: row for row in rows}
    ours = row[OURS]
    best = min(rows[1:], key=lambda row: row["build_and_run_net_s"])
    to_blake3, to_reference = ours["to_blake3"], ours["to_reference"]
    return [
        (f"build time at most 0.25 of {OFFICIAL}'s: {to_blake3:.2f}", to_blake3 <= 0.25),
        (f"build time at most 1.5 of the {reference}'s: {to_reference:.2f}", to_reference <= 1.5),
        (f"build and run together the shortest of all: that is {best['program']}", best is ours),
    ]


def tool(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().strip()


def show(rows, reference, rounds):
    print(f"{tool('rustc', '--version')}, {os.cpu_count()} cores, {platform.machine()}; "
          f"{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC. Medians of {rounds} clean release "
          f"builds and of {RUNS} runs on {FILE_BYTES / (1 << 20):.1f} MiB, all in turn; "
          f"net: less the empty program's {rows[0]['build_s']:.2f} s.\n")
    print("| program | build, s | lowest to highest | net, s | / blake3 | / reference "
          "| run, net, ms | build + run, net, s | size, net, KiB |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        span = f"{row['build_low_s']:.2f} to {row['build_high_s']:.2f}"
        line = f"| {row['program']} | {row['build_s']:.2f} | {span} |"
        if "to_blake3" in row:
            line += (f" {row['build_net_s']:.2f} | {row['to_blake3']:.2f} "
                     f"| {row['to_reference']:.2f} | {row['run_net_ms']:.2f} "
                     f"| {row['build_and_run_net_s']:.3f} | {row['size_net_kib']:.0f} |")
        else:
            line += " | | | | | |"
        print(line)
    if reference == OWN:
        print(f"\nabsent: {REFERENCE} (give it by --reference)")
    print()
    for text, met in wanted(rows, reference):
        print(f"- {text}" if met else f"- MISSED: {text}")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="clean builds of each program")
    parser.add_argument("--reference", type=pathlib.Path, help="the official reference_impl.rs")
    parser.add_argument("--dir", type=pathlib.Path, default=ROOT / "target/compile")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds is at least 1")
    if arguments.reference and not arguments.reference.is_file():
        parser.error(f"no file {arguments.reference}")
    made = programs(arguments.reference)
    measure(made, arguments.dir.resolve(), arguments.rounds)
    rows, reference = results(made)
    if arguments.json:
        verdicts = [{"wanted": text, "met": met} for text, met in wanted(rows, reference)]
        print(json.dumps({"programs": rows, "reference": reference, "wanted": verdicts}))
    else:
        show(rows, reference, arguments.rounds)


if __name__ == "__main__":
    main()
