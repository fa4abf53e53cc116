#!/usr/bin/env python3
"""Holds every Cargo.lock to docs/dependencies.toml: the crates, each in its version, that were looked at.

Usage: docs/dependencies.py [--check | --add] [--root DIR]

  --check     one line for each crate that is not on the list, or on it and in no Cargo.lock, and
              exit status 1 if there is one
  --add       writes the list anew: what is in no Cargo.lock goes, what is new comes into a section
              of today, whose `at` is for you to fill in: --check refuses an empty one
  --root DIR  another checkout

What is read is the same on every machine and on every day, so CI's verdict is the commit's alone. Whether
an advisory applies to what is on the list is another question, whose answer changes without a commit:
docs/dependencies.md says how to ask it.
"""

import sys; sys.dont_write_bytecode = True
import argparse
import datetime
import os
import pathlib
import tomllib

LIST = "docs/dependencies.toml"
HEAD = """\
# The crates from the registry that any Cargo.lock here names, each in the version that was looked at, and
# in what way. docs/dependencies.py holds the two to each other; docs/dependencies.md says how to add one.
"""


def locked(root: pathlib.Path) -> set[str]:
    """`name version` of every crate that comes from elsewhere, over all lock files."""
    found = set()
    for folder, below, files in os.walk(root):
        # Not what a build leaves (crates as they would be published, for one), nor hidden folders.
        below[:] = [name for name in below if name != "target" and not name.startswith(".")]
        if "Cargo.lock" in files:
            lock = tomllib.loads(pathlib.Path(folder, "Cargo.lock").read_text())
            packages = lock.get("package", [])
            found |= {f"{p['name']} {p['version']}" for p in packages if "source" in p}
    return found


def sections(root: pathlib.Path) -> list[dict[str, object]]:
    """What the list has, its crates as lines."""
    path = root / LIST
    return tomllib.loads(path.read_text()).get("looked", []) if path.exists() else []


def wrong(root: pathlib.Path) -> list[str]:
    """One line for each thing that does not hold."""
    needed, seen, lines = locked(root), set(), []
    for section in sections(root):
        if not str(section.get("at", "")).strip():
            lines.append(f"{LIST}: a section of {section.get('date')} does not state what was reviewed")
        if not isinstance(section.get("date"), datetime.date):
            lines.append(f"{LIST}: a section has no date")
        crates = str(section.get("crates", "")).split("\n")
        for crate in filter(None, map(str.strip, crates)):
            if crate in seen:
                lines.append(f"{LIST}: {crate} is listed twice")
            seen.add(crate)
    lines += [f"{crate}: in a Cargo.lock, not in {LIST}; review it, then docs/dependencies.py --add" for crate in sorted(needed - seen)]
    lines += [f"{crate}: in {LIST}, in no Cargo.lock; docs/dependencies.py --add removes it" for crate in sorted(seen - needed)]
    return lines


def add(root: pathlib.Path, today: datetime.date) -> None:
    """Writes the list anew."""
    left, text = locked(root), HEAD
    found = [(s["date"], str(s["at"]), str(s["crates"]).split("\n")) for s in sections(root)]
    for date, at, crates in [*found, (today, "", sorted(left))]:
        kept = [crate for crate in map(str.strip, crates) if crate in left]
        left -= set(kept)
        if kept:
            listed = "\n".join(kept)
            at = at.strip()
            text += f'\n[[looked]]\ndate = {date}\nat = """\n{at}\n"""\ncrates = """\n{listed}\n"""\n'
    (root / LIST).write_text(text)


def main() -> int:
    """Reads the flags and does what they ask."""
    parser = argparse.ArgumentParser(description="Lists which crates were reviewed.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true")
    what.add_argument("--add", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parents[1])
    args = parser.parse_args()
    root = args.root.resolve()
    if args.add:
        add(root, datetime.date.today())
        print(f"{LIST}: written; state in its new section what you reviewed")
        return 0
    lines = wrong(root)
    print("\n".join(lines or [f"dependencies: all {len(locked(root))} crates are reviewed"]))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
