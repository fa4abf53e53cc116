"""Runs the link's cases alone. Exit code 1 when one failed.

    python -m link XYLEM         those of interop/run
    python -m link XYLEM TEXT    those with a key that contains the text
    python -m link XYLEM --long  the one that takes more than two minutes
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from programs import Programs
from report import FAILED, PASSED, Report

from .cases import cases, long_cases


def main() -> None:
    long = sys.argv[2:] == ["--long"]
    report = Report(sys.argv[2] if len(sys.argv) > 2 and not long else None)
    with tempfile.TemporaryDirectory(prefix="xi-", dir="/tmp") as folder:
        tools = SimpleNamespace(xylem=Path(sys.argv[1]).resolve(), ndnts="")
        programs = Programs(folder, tools)
        (programs.folder / "home").mkdir()
        try:
            (long_cases if long else cases)(report, programs)
        finally:
            programs.stop_all()
    print(f"interop: {report.count(PASSED)} passed, {report.count(FAILED)} failed")
    sys.exit(1 if report.count(FAILED) else 0)


main()
