#!/usr/bin/env python3
"""That docs/dependencies.py finds what it is there to find: run by .ci/run."""

import sys; sys.dont_write_bytecode = True
import datetime
import pathlib
import tempfile
import unittest

import dependencies

TODAY = datetime.date(2026, 1, 2)


class Checked(unittest.TestCase):
    """A checkout with two lock files, whose crates were all looked at."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for below in ("docs", "fuzz", "target/package"):
            (self.root / below).mkdir(parents=True)
        self.lock("Cargo.lock", "ring 0.17.14", "bytes 1.12.1")
        self.lock("fuzz/Cargo.lock", "ring 0.17.14", "arbitrary 1.5.0")
        self.lock("target/package/Cargo.lock", "built 1.0.0")
        dependencies.add(self.root, TODAY)
        self.fill_in()

    def lock(self, path: str, *crates: str) -> None:
        """Writes a lock file, with a member of its own workspace."""
        text = '[[package]]\nname = "xylem"\nversion = "0.1.0"\n'
        for name, version in map(str.split, crates):
            text += f'[[package]]\nname = "{name}"\nversion = "{version}"\nsource = "registry"\n'
        (self.root / path).write_text(text)

    def fill_in(self) -> None:
        """Says what was looked at, where the list leaves that open."""
        path = self.root / dependencies.LIST
        path.write_text(path.read_text().replace('at = """\n\n"""', 'at = """\nits source\n"""'))

    def test_what_was_looked_at_passes(self) -> None:
        self.assertEqual(dependencies.wrong(self.root), [])

    def test_a_new_crate_fails_in_whichever_lock_file(self) -> None:
        self.lock("fuzz/Cargo.lock", "ring 0.17.14", "arbitrary 1.5.0", "new 0.1.0")
        self.assertEqual(dependencies.wrong(self.root), ["new 0.1.0: in a Cargo.lock, not in docs/dependencies.toml; review it, then docs/dependencies.py --add"])

    def test_another_version_fails_for_the_new_and_for_the_old(self) -> None:
        self.lock("Cargo.lock", "ring 0.17.14", "bytes 1.12.2")
        expected = [
            "bytes 1.12.2: in a Cargo.lock, not in docs/dependencies.toml; review it, then docs/dependencies.py --add",
            "bytes 1.12.1: in docs/dependencies.toml, in no Cargo.lock; docs/dependencies.py --add removes it",
        ]
        self.assertEqual(dependencies.wrong(self.root), expected)

    def test_adding_alone_is_not_looking(self) -> None:
        self.lock("Cargo.lock", "ring 0.17.14", "bytes 1.12.2")
        dependencies.add(self.root, TODAY)
        said = "docs/dependencies.toml: a section of 2026-01-02 does not state what was reviewed"
        self.assertEqual(dependencies.wrong(self.root), [said])
        self.fill_in()
        self.assertEqual(dependencies.wrong(self.root), [])

    def test_an_empty_list_fails_for_every_crate(self) -> None:
        (self.root / dependencies.LIST).write_text("")
        self.assertEqual(len(dependencies.wrong(self.root)), 3)


if __name__ == "__main__":
    unittest.main()
