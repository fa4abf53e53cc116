#!/usr/bin/env python3
"""Tests of bench/all.py: what counts as slower."""

import unittest

import all as bench

OURS = ("hash", "single", "1 MiB", "avx512")
OTHER = ("hash", "single", "1 MiB", "blake3")


class Comparison(unittest.TestCase):
    def slower(self, before, now, key=OURS):
        [(_, _, slower)] = bench.compare({key: before}, {key: now}, 10.0)
        return slower

    def test_every_round_slower_by_more_than_the_limit(self):
        self.assertTrue(self.slower([10, 11, 10], [12, 13, 12]))

    def test_rounds_that_overlap_are_noise(self):
        self.assertFalse(self.slower([10, 14, 10], [13, 13, 12]))

    def test_a_little_slower_is_within_the_limit(self):
        self.assertFalse(self.slower([10.0, 10.1], [10.5, 10.6]))

    def test_the_code_of_others_is_no_change_of_ours(self):
        self.assertFalse(self.slower([10, 10], [20, 20], OTHER))

    def test_the_table_gives_means_and_the_drift_of_others(self):
        rows = bench.compare({OURS: [10], OTHER: [10]}, {OURS: [5], OTHER: [8]}, 10.0)
        self.assertIn("| hash | single | 1 | 2.00 | 2.00 (1 MiB, avx512) | 1.25 |", bench.markdown(rows))


if __name__ == "__main__":
    unittest.main()
