#!/usr/bin/env python3
"""Checks the pages of the threat model against the code, and links their tests.

Usage: docs/threat_model.py (--check | --link | --count) [--root DIR]

  --check     one line for each broken rule, and exit status 1 if there is one
  --link      turns each test that a table names into a link to the file that defines it, where the link is missing or
              wrong; a test that moved to another file needs no other edit
  --count     rows and tests of each page
  --root DIR  another checkout

The rules, for each page docs/threat-model/*.md:

  - docs/threat-model.md links to it;
  - every table has the columns COLUMNS, and every row has at most WORDS words without the names of its tests;
  - the last cell of a row names what holds it, a test, a file or a measurement, or states that there is none: it
    contains one of NONE;
  - a test in backticks is a function that a Rust or Python file defines, and the link around it leads to such a file;
  - a path in backticks exists.

A test is a name in snake_case with two underscores or more. docs/book.py checks that all links lead somewhere.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys

ENTRY = "docs/threat-model.md"
PAGES = "docs/threat-model"
COLUMNS = ["attacker can", "attacker cannot", "tests"]
WORDS = 40
NONE = ["none", "no test", "not measured"]
# A name in backticks, and the link around it if there is one.
CODE = re.compile(r"\[`([^`]+)`\]\(([^()\s]+)\)|`([^`]+)`")
LINK = re.compile(r"\[([^\]]*)\]\([^()\s]+\)")
DEFINED = re.compile(r"\b(?:fn|def) ([a-z0-9_]+)\s*[(<]")


def definitions(root: pathlib.Path) -> dict[str, list[str]]:
    """Files that define each function of the tracked Rust and Python files, as paths below the root."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.py"]
    for path in subprocess.run(listed, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines():
        if (root / path).is_file():
            for name in DEFINED.findall((root / path).read_text(errors="replace")):
                found[name].add(path)
    return {name: sorted(paths) for name, paths in found.items()}


def is_test(name: str) -> bool:
    return name.count("_") > 1 and re.fullmatch(r"[a-z0-9_]+", name) is not None


def rows(text: str) -> list[tuple[int, bool, list[str]]]:
    """Each row of the tables: the number of its line, whether it is a table's heading, its cells."""
    found = []
    lines = text.split("\n")
    for number, (line, after) in enumerate(zip(lines, [*lines[1:], ""]), 1):
        if line.startswith("|") and not line.startswith("|---"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            found.append((number, after.startswith("|---"), cells))
    return found


def words(cells: list[str]) -> int:
    """Words of a row. In the last cell only what is neither a name in backticks nor a link counts."""
    read = " ".join(LINK.sub(r"\1", cell) for cell in cells[:-1])
    named = LINK.sub(" ", CODE.sub(" ", cells[-1]))
    return sum(any(c.isalnum() for c in word) for word in f"{read} {named}".split())


def names(cells: list[str]) -> list[tuple[str, str]]:
    """Names in backticks of the last cell, each with the target of its link or an empty text."""
    return [(match[1] or match[3], match[2] or "") for match in CODE.finditer(cells[-1])]


def linked(root: pathlib.Path, page: pathlib.Path, target: str) -> str:
    """The path below the root that a relative link of a page leads to."""
    return os.path.relpath(os.path.normpath(page.parent / target), root)


def wrong_row(root: pathlib.Path, page: pathlib.Path, cells: list[str], code: dict[str, list[str]]) -> list[str]:
    """What is wrong with one row."""
    if len(cells) != len(COLUMNS):
        return [f"{len(cells)} cells instead of {len(COLUMNS)}"]
    bad = []
    if words(cells) > WORDS:
        bad.append(f"{words(cells)} words, more than {WORDS}: split the row")
    if not CODE.search(cells[-1]) and not LINK.search(cells[-1]) and not any(word in cells[-1] for word in NONE):
        bad.append(f"the last cell names no test, and has none of: {', '.join(NONE)}")
    for name, target in names(cells):
        if is_test(name):
            if name not in code:
                bad.append(f"no function {name}")
            elif not target or linked(root, page, target) not in code[name]:
                bad.append(f"{name} has no link to its file: docs/threat_model.py --link adds it")
        elif "/" in name and not name.startswith("/") and not (root / name).exists():
            bad.append(f"no file {name}")
    return bad


def broken(root: pathlib.Path, pages: list[pathlib.Path]) -> list[str]:
    """A line for each rule that is broken."""
    entry = (root / ENTRY).read_text()
    code = definitions(root)
    bad = [] if pages else [f"{PAGES}: no page"]
    for page in pages:
        where = page.relative_to(root).as_posix()
        if f"]({page.parent.name}/{page.name})" not in entry:
            bad.append(f"{ENTRY}: no link to {where}")
        text = page.read_text()
        for number, is_heading, cells in rows(text):
            if is_heading and cells != COLUMNS:
                bad.append(f"{where}:{number}: the columns are not {' | '.join(COLUMNS)}")
            elif not is_heading:
                bad += [f"{where}:{number}: {wrong}" for wrong in wrong_row(root, page, cells, code)]
        prose = "\n".join(line for line in text.split("\n") if not line.startswith("|"))
        for name, target, _ in CODE.findall(prose):
            if target and is_test(name) and linked(root, page, target) not in code.get(name, []):
                bad.append(f"{where}: {name} is not in the file of its link")
    return bad


def link(root: pathlib.Path, page: pathlib.Path, code: dict[str, list[str]]) -> None:
    """Links each test of a page to the first file that defines it, unless its link leads to one already."""

    def replaced(match: re.Match[str]) -> str:
        name, target = match[1] or match[3], match[2] or ""
        if not is_test(name) or name not in code or (target and linked(root, page, target) in code[name]):
            return match[0]
        return f"[`{name}`]({os.path.relpath(root / code[name][0], page.parent)})"

    page.write_text(CODE.sub(replaced, page.read_text()))


def count(root: pathlib.Path, pages: list[pathlib.Path]) -> None:
    """Prints rows and different tests of each page, and of all."""
    every: set[str] = set()
    total = 0
    for page in pages:
        body = [cells for _, is_heading, cells in rows(page.read_text()) if not is_heading]
        tests = {name for cells in body for name, _ in names(cells) if is_test(name)}
        print(f"{page.name:24}{len(body):5} rows{len(tests):5} tests")
        every |= tests
        total += len(body)
    print(f"{'all':24}{total:5} rows{len(every):5} tests")


def main() -> int:
    """Reads the flags and does what they ask."""
    parser = argparse.ArgumentParser(description="The threat model's pages, checked against the code.")
    for flag in ("--check", "--link", "--count"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    args = parser.parse_args()
    if not (args.check or args.link or args.count):
        parser.error("give --check, --link or --count")
    root = args.root.resolve()
    pages = sorted((root / PAGES).glob("*.md"))
    if args.link:
        code = definitions(root)
        for page in pages:
            link(root, page, code)
    if args.count:
        count(root, pages)
    if args.check:
        wrong = broken(root, pages)
        print("\n".join(wrong or [f"threat model: every rule holds on {len(pages)} pages"]))
        return 1 if wrong else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
