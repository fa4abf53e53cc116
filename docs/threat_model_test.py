#!/usr/bin/env python3
"""Tests that docs/threat_model.py finds each fault; .ci/run runs them."""

import sys; sys.dont_write_bytecode = True
import pathlib
import subprocess
import tempfile
import unittest

import threat_model

HEAD = "| attacker can | attacker cannot | tests |\n|---|---|---|\n"
GOOD = "| drop | read | [`a_test_of_that`](../../crates/a.rs) |"


class Checked(unittest.TestCase):
    """A checkout with one page and one test."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        subprocess.run(["git", "init", "-q"], cwd=self.root, check=True)
        for below in ("docs/threat-model", "crates"):
            (self.root / below).mkdir(parents=True)
        (self.root / "crates/a.rs").write_text("#[test]\nfn a_test_of_that() {}\n")
        (self.root / "docs/threat-model.md").write_text("[Peer](threat-model/peer.md)\n")
        self.page = self.root / "docs/threat-model/peer.md"

    def found(self, *rows: str, head: str = HEAD) -> str:
        self.page.write_text(head + "\n".join(rows) + "\n")
        return "\n".join(threat_model.broken(self.root, [self.page]))

    def test_a_good_page_has_no_fault(self) -> None:
        self.assertEqual(self.found(GOOD, "| wait | | none: not defended |"), "")

    def test_a_missing_test_is_found(self) -> None:
        self.assertIn("no function a_test_of_this", self.found(GOOD.replace("of_that", "of_this")))

    def test_a_missing_link_is_found_and_added(self) -> None:
        self.assertIn("has no link", self.found("| drop | read | `a_test_of_that` |"))
        threat_model.link(self.root, self.page, threat_model.definitions(self.root))
        self.assertEqual(self.page.read_text(), HEAD + GOOD + "\n")

    def test_a_link_to_another_file_is_found(self) -> None:
        self.assertIn("has no link", self.found(GOOD.replace("a.rs", "b.rs")))

    def test_a_long_row_is_found_and_names_of_tests_do_not_count(self) -> None:
        cell = " ".join(["word"] * 39)
        tests = ", ".join(["[`a_test_of_that`](../../crates/a.rs)"] * 9)
        self.assertEqual(self.found(f"| {cell} | read | {tests} |"), "")
        self.assertIn("41 words", self.found(f"| {cell} | read it | {tests} |"))

    def test_a_row_that_nothing_holds_is_found(self) -> None:
        self.assertIn("names no test", self.found("| drop | read | |"))

    def test_other_columns_are_found(self) -> None:
        self.assertIn("columns", self.found(GOOD, head=HEAD.replace("attacker can |", "can |", 1)))

    def test_a_missing_file_is_found(self) -> None:
        self.assertIn("no file bench/none.py", self.found("| drop | read | `bench/none.py` |"))

    def test_a_page_that_the_entry_does_not_list_is_found(self) -> None:
        (self.root / "docs/threat-model.md").write_text("")
        self.assertIn("no link to docs/threat-model/peer.md", self.found(GOOD))

    def test_no_page_at_all_is_found(self) -> None:
        self.assertEqual(threat_model.broken(self.root, []), ["docs/threat-model: no page"])


if __name__ == "__main__":
    unittest.main()
