"""Runs the link's cases alone: python -m link XYLEM [ONLY]. Exit code 1 when one failed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

from programs import Programs
from report import FAILED, PASSED, Report

from .cases import cases


def main() -> None:
    report = Report(sys.argv[2] if len(sys.argv) > 2 else None)
    with tempfile.TemporaryDirectory(prefix="xi-", dir="/tmp") as folder:
        tools = SimpleNamespace(xylem=Path(sys.argv[1]).resolve(), ndnts="")
        programs = Programs(folder, tools)
        (programs.folder / "home").mkdir()
        try:
            cases(report, programs)
        finally:
            programs.stop_all()
    print(f"interop: {report.count(PASSED)} passed, {report.count(FAILED)} failed")
    sys.exit(1 if report.count(FAILED) else 0)


main()
