#!/usr/bin/env python3
"""Damages folders on purpose, and checks that the model of `bench/folders.py` detects it. No program runs."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from folders import Drawn, apart_in, arguments, without_member
from folders_model import Impossible, Ledger, Operations, Reader, differences, left_out, touched


class Member:
    """A folder without a running program."""

    def __init__(self, number, top):
        self.number, self.folder, self.reader = number, pathlib.Path(top) / f"m{number}", Reader()
        self.folder.mkdir()
        self.rules, self.rules_are_old, self.reads_only = (), True, False
        self.own_paths, self.holding, self.was_full = set(), set(), False

    def tree(self):
        return self.reader.tree(self.folder)

    def leaves_out(self, path):
        return left_out(path, self.rules)

    def has_left_out(self, path):
        return self.leaves_out(path)

    def apart(self, path):
        return path in self.own_paths


class Model(unittest.TestCase):
    def setUp(self):
        self.top = tempfile.TemporaryDirectory()
        self.addCleanup(self.top.cleanup)
        self.members = [Member(n, self.top.name) for n in range(2)]
        self.ledger, self.number = Ledger(), 0

    def do(self, member, kind, *words):
        self.number += 1
        paths = touched(kind, words, self.number)
        paths += member.reader.other_names(member.folder, paths)
        before = member.reader.at(member.folder, paths)
        try:
            getattr(Operations(member.folder, "test", self.number, self.ledger.wrote), kind)(*words)
        except (OSError, Impossible):
            pass
        self.ledger.named(paths)
        self.ledger.after(member, before, member.reader.at(member.folder, paths), member.tree)

    def wrong(self, trashes=({}, {})):
        return sorted({kind for kind, _ in self.ledger.wrong(self.members, [m.tree() for m in self.members], trashes)})

    def travel(self, path):
        """Copies a change as a synchronization would."""
        to = self.members[1].folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        os.system(f"cp -a '{self.members[0].folder / path}' '{to}'")

    def apart(self):
        return differences(self.members, [m.tree() for m in self.members], {"times", "modes", "directory-modes"})

    def test_what_is_there_is_right(self):
        self.do(self.members[0], "write", "d/a", 100)
        self.travel("d")
        self.assertEqual((self.wrong(), self.apart()), ([], []))

    def test_a_content_that_is_nowhere_is_lost(self):
        self.do(self.members[0], "write", "a", 100)
        self.travel("a")
        os.unlink(self.members[1].folder / "a")
        self.assertEqual(self.wrong(), ["lost"])
        # It is not in the trash, and a full disk is no excuse where it is in another member's folder.
        self.members[1].was_full = True
        self.assertEqual(self.wrong(), ["lost"])
        self.assertEqual(self.wrong(({}, self.members[0].tree())), [])

    def test_what_somebody_has_replaced_may_be_gone(self):
        self.do(self.members[0], "write", "a", 100)
        self.travel("a")
        self.do(self.members[1], "save", "a", 100)
        os.rename(self.members[1].folder / "a", self.members[0].folder / "a")
        os.link(self.members[0].folder / "a", self.members[1].folder / "a")
        self.assertEqual(self.wrong(), [])

    def test_who_has_it_twice_and_removes_one_still_wants_it(self):
        self.do(self.members[0], "write", "a", 100)
        self.do(self.members[0], "copy", "a", "b")
        self.do(self.members[0], "remove", "a")
        self.assertEqual(self.wrong(), ["lost"])
        self.travel("b")
        self.assertEqual(self.wrong(), [])
        os.unlink(self.members[1].folder / "b")
        self.assertEqual(self.wrong(), ["lost"])

    def test_another_name_of_what_was_replaced_elsewhere_may_go_with_it(self):
        self.do(self.members[0], "write", "a", 100)
        self.travel("a")
        self.do(self.members[1], "save", "a", 100)
        self.do(self.members[0], "hard_link", "a", "b")
        self.do(self.members[0], "remove", "b")
        os.unlink(self.members[0].folder / "a")
        os.link(self.members[1].folder / "a", self.members[0].folder / "a")
        self.assertEqual(self.wrong(), [])

    def test_what_came_back_to_its_place_may_have_been_removed_meanwhile(self):
        for new in ("b", "a"):
            self.do(self.members[0], "write", "a", 100)
            self.travel("a")
            self.assertEqual(self.wrong(), [])
            self.do(self.members[1], "remove", "a")
            self.do(self.members[0], "rename", "a", "c")
            self.do(self.members[0], "rename", "c", new)
            os.unlink(self.members[0].folder / new)
            self.assertEqual(self.wrong(), [] if new == "a" else ["lost"])
            self.ledger.entries.clear()

    def test_a_copy_that_only_a_reader_has_is_demanded_of_no_other(self):
        # The writer has it twice and removes one; a reader that had the other moves it; then the writer removes that.
        writer, reader = self.members
        self.do(writer, "write", "a", 100)
        self.do(writer, "copy", "a", "b")
        self.travel("a")
        self.travel("b")
        reader.reads_only = True
        self.do(writer, "remove", "b")
        self.do(reader, "rename", "a", "mine/a")
        (writer.folder / "a").unlink()
        self.assertEqual(self.wrong(), [])
        # Nor does it where the only other copy is one that rules leave out.
        self.do(writer, "write", "c.tmp", 100)
        self.travel("c.tmp")
        writer.rules = ("*.tmp",)
        (writer.folder / "c.tmp").unlink()
        self.assertEqual(self.wrong(), [])
        # What is gone without any of that is lost, though a reader has it.
        self.do(writer, "write", "d", 100)
        self.travel("d")
        (writer.folder / "d").unlink()
        self.assertEqual(self.wrong(), ["lost"])

    def test_what_was_replaced_under_a_rule_goes_when_the_rule_goes(self):
        for uncovers in (False, True):
            self.do(self.members[0], "write", "a.tmp", 100)
            self.travel("a.tmp")
            self.assertEqual(self.wrong(), [])
            self.members[1].rules = ("*.tmp",)
            self.do(self.members[1], "save", "a.tmp", 50)
            self.members[1].rules = ()
            if uncovers:
                self.ledger.rules_changed(self.members[1], self.members[1].tree(), ("*.tmp",))
            os.unlink(self.members[0].folder / "a.tmp")
            os.link(self.members[1].folder / "a.tmp", self.members[0].folder / "a.tmp")
            self.assertEqual("lost" in self.wrong(), not uncovers)
            for member in self.members:
                os.unlink(member.folder / "a.tmp")
            self.ledger.entries.clear()

    def test_what_nobody_wrote_is_told(self):
        self.do(self.members[0], "write", "a", 100)
        self.travel("a")
        (self.members[1].folder / "a").write_bytes(b"torn")
        self.assertEqual(self.wrong(({}, self.members[0].tree())), ["unwritten"])

    def test_a_name_and_a_mode_that_nobody_gave_are_told(self):
        self.do(self.members[0], "write", "a", 100)
        self.travel("a")
        os.link(self.members[1].folder / "a", self.members[1].folder / "left-over")
        self.assertEqual(self.wrong(), ["unwritten"])
        os.chmod(self.members[1].folder / "a", 0o777)
        self.assertEqual(self.wrong(), ["unwritten"])
        self.assertEqual(apart_in([entry for entry in self.apart() if entry[0] == "a"]), "apart in modes")

    def test_what_rules_leave_out_is_one_members_own(self):
        self.members[0].rules = ("*.tmp",)
        self.do(self.members[0], "write", "a.tmp", 100)
        self.assertEqual((self.wrong(), self.apart()), ([], []))
        self.travel("a.tmp")
        self.assertEqual(self.wrong(), ["leaked"])

    def test_what_two_users_made_for_themselves_has_not_leaked(self):
        for member in self.members:
            member.rules = ("*.tmp",)
        self.do(self.members[0], "write", "a.tmp", 100)
        self.travel("a.tmp")
        self.assertEqual(self.wrong(), ["leaked"])
        # Two links to one place.
        self.do(self.members[0], "to_link", "b.tmp", "d1")
        self.do(self.members[1], "to_link", "c.tmp", "d1")
        (self.members[1].folder / "a.tmp").unlink()
        self.assertEqual(self.wrong(), [])

    def test_rules_mean_what_they_do_to_git(self):
        self.assertTrue(left_out("d/x.tmp", ("*.tmp",)))
        self.assertFalse(left_out("d/keep.tmp", ("*.tmp", "!keep.tmp")))
        self.assertTrue(left_out("cache/x/y", ("/cache",)))
        self.assertFalse(left_out("d/cache", ("/cache",)))

    def test_other_contents_kinds_modes_and_times_are_apart(self):
        self.do(self.members[0], "write", "d/a", 100)
        self.travel("d")
        os.utime(self.members[1].folder / "d/a", (1, 1))
        self.assertEqual(apart_in(self.apart()), "apart in times")
        os.chmod(self.members[1].folder / "d", 0o700)
        self.assertEqual(apart_in(self.apart()), "apart in directory modes")
        self.do(self.members[1], "to_link", "d/a", "")
        self.assertEqual(apart_in(self.apart()), "apart")

    def test_a_seed_always_draws_the_same(self):
        sys.argv = ["folders.py", "--seed", "1"]
        options = arguments()
        cases = [Drawn("1.0", options).case(5) for _ in range(2)]
        self.assertEqual(*cases)
        smaller = without_member(cases[0], 0)
        self.assertEqual(smaller["members"], cases[0]["members"] - 1)
        steps = [step for steps in smaller["rounds"] for step in steps if step[0] == "do"]
        self.assertTrue(all(step[1] < smaller["members"] for step in steps))


if __name__ == "__main__":
    unittest.main()
