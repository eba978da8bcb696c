import os
import sys
import unittest

sys.path.insert(0, os.environ["PLANWRIGHT_OBSERVER_FOLDER"])
from planwright_observer.rounds import Rounds


def nowhere():
    """All calls at one place: what is told by their order alone."""
    return ()


def boundaries(calls):
    """Each call of an optimizer's step by its name, with a bar where a training step ends."""
    rounds = Rounds()
    return " ".join(call + "|" if rounds.closes(call, nowhere) else call for call in calls.split())


class RoundsTest(unittest.TestCase):
    def test_one_optimizer_ends_a_step_at_each_call(self):
        self.assertEqual(boundaries("a a a"), "a| a| a|")

    def test_of_several_the_last_does_once_the_round_is_known(self):
        self.assertEqual(boundaries("a b c a b c a b c"), "a| b c a b c| a b c|")

    def test_one_that_steps_now_and_then_is_part_of_the_step_it_falls_in(self):
        self.assertEqual(boundaries("d d d g d d d g d"), "d| d| d| g d| d| d| g d|")

    def test_when_the_one_that_ends_a_step_is_gone_another_takes_its_place(self):
        self.assertEqual(boundaries("a b a b a a a a a"), "a| b a b| a a a| a| a|")

    def test_a_new_optimizer_takes_the_place_of_one_that_is_gone(self):
        self.assertEqual(boundaries("a a b b b b"), "a| a| b b b| b|")

    def test_a_step_opens_with_the_first_of_its_round(self):
        rounds = Rounds()
        opened = []
        for call in "a b a b".split():
            opened.append(rounds.opens(call))
            rounds.closes(call, nowhere)
        self.assertEqual(opened, [True, False, True, False])


if __name__ == "__main__":
    unittest.main()
