import pathlib
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "frameworks"))
import ranks


class WhatARankIsGiven(unittest.TestCase):
    def test_it_finds_the_observer_from_any_folder(self):
        place = pathlib.Path(ranks.environment("build/bin/observer", "reports", 4, {})["PYTHONPATH"])
        self.assertEqual(place, pathlib.Path.cwd() / "build/bin/observer")


def sleeper():
    return subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class TheLimitOfARun(unittest.TestCase):
    def setUp(self):
        shorter = mock.patch.multiple(ranks, TIME_LIMIT_S=0.3, LOOK_S=0.05)
        shorter.start()
        self.addCleanup(shorter.stop)

    def test_ranks_that_hang_are_ended_together(self):
        processes = [sleeper(), sleeper()]
        limit = ranks.Limit(processes)
        for each in processes:
            self.assertIn("ended after", ranks.finish(each, limit))
        self.assertEqual([each.returncode for each in processes], [-9, -9])

    def test_what_a_rank_waited_for_a_processor_does_not_count(self):
        with mock.patch.object(ranks, "queued_s", return_value=60):
            process = subprocess.Popen(["sleep", "0.6"], stdout=subprocess.PIPE, text=True)
            self.assertEqual(ranks.finish(process, ranks.Limit([process])), "")
        self.assertEqual(process.returncode, 0)

    def test_a_rank_that_has_ended_leaves_the_others_what_it_waited(self):
        with mock.patch.object(ranks, "queued_s", side_effect=[60, OSError]):
            limit = ranks.Limit([mock.Mock(pid=1)])
            self.assertFalse(limit.passed())
            limit.start -= 1
            self.assertFalse(limit.passed())

    def test_a_process_that_sleeps_waits_for_no_processor(self):
        process = sleeper()
        self.assertLess(ranks.queued_s(process.pid), 30)
        process.kill()
        process.communicate()


if __name__ == "__main__":
    unittest.main()
