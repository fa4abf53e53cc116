#!/usr/bin/env python3
"""Tests of docs/book.py: run by .ci/run."""

import sys; sys.dont_write_bytecode = True
import pathlib
import stat
import subprocess
import tempfile
import unittest

import book

PROGRAM = """#!/bin/sh
if [ "$1 $2" = 'man --list' ]; then
    printf 'share\\nget\\nndn node\\n'
else
    printf 'Usage: xylem %s\\n' "$*"
fi
"""


class Book(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "checkout"
        (self.root / "docs").mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def test_right_links_are_not_reported(self) -> None:
        self.write("README.md", "# Name\n\n[guide](docs/guide.md#two-words) and [here](#name), [web](https://example.org/x)\n")
        self.write("docs/guide.md", "# Guide\n## Two `words`\n[up](../README.md)\n")
        self.assertEqual(book.broken(self.root), [])

    def test_missing_files_and_headings_are_reported_with_their_line(self) -> None:
        self.write("README.md", "# Name\n\n[a](docs/none.md)\n[b](docs/guide.md#none)\n[c](#none)\n")
        self.write("docs/guide.md", "# Guide\n")
        self.assertEqual(
            book.broken(self.root),
            ["README.md:3: no file docs/none.md", "README.md:4: no heading #none in docs/guide.md", "README.md:5: no heading #none in README.md"],
        )

    def test_links_within_code_are_not_read(self) -> None:
        self.write("README.md", "# Name\n`[a](none.md)`\n```\n[b](none.md)\n```\n")
        self.assertEqual(book.broken(self.root), [])

    def test_a_heading_that_stands_twice_has_a_number(self) -> None:
        self.assertEqual(book.anchors("# A b\n## A b\n"), {"a-b", "a-b-1"})

    def test_the_site_has_commands_and_jobs_and_no_links_out(self) -> None:
        self.write("README.md", "# Name\n[guide](docs/guide.md), [source](docs/x.py), [formats](docs/spec/)\n")
        self.write("docs/guide.md", "# Jobs\n## 1. Send a file\ntext\n")
        self.write("docs/x.py", "")
        self.write("docs/spec/README.md", "# Formats\n[up](../../README.md#name)\n")
        self.write("crates/xylem-python/README.md", "# For Python\n")
        program = self.root.parent / "program"
        program.write_text(PROGRAM)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        into = self.root.parent / "book"
        book.sources(self.root, str(program), into)
        summary = (into / "src/SUMMARY.md").read_text()
        for line in ("- [Name](README.md)", "- [Formats](docs/spec/README.md)", "- [For Python](crates/xylem-python/README.md)", "- [xylem get](commands/get.md)", "- [xylem ndn node](commands/ndn-node.md)", "  - [Send a file](docs/guide-send-a-file.md)"):
            self.assertIn(line, summary)
        self.assertIn("Usage: xylem ndn node --help", (into / "src/commands/ndn-node.md").read_text())
        self.assertEqual((into / "src/README.md").read_text(), "# Name\n[guide](docs/guide.md), source, [formats](docs/spec/index.md)\n")
        self.assertEqual((into / "src/docs/spec/README.md").read_text(), "# Formats\n[up](../../index.md#name)\n")

    def test_a_forgotten_document_fails_the_build(self) -> None:
        self.write("docs/other.md", "# Other\n")
        with self.assertRaisesRegex(SystemExit, "docs/other.md"):
            book.sources(self.root, "true", self.root.parent / "book")


if __name__ == "__main__":
    unittest.main()
