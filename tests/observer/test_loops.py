import os
import sys
import threading
import unittest

sys.path.insert(0, os.environ["PLANWRIGHT_OBSERVER_FOLDER"])
import stepping
from planwright_observer.rounds import MOST_PASSES, Rounds


def boundaries(script, *arguments):
    """What the script steps, in order, with a bar where a training step ends and two where the count
    begins anew."""
    rounds, seen = Rounds(), []

    def step(name):
        before = rounds.count
        closes = stepping.step(rounds, name)
        seen.append(name + (("|" if rounds.count > before else "||") if closes else ""))

    alone = threading.Thread(target=script, args=(step, *arguments))  # outside of the loops of unittest
    alone.start()
    alone.join()
    return " ".join(seen)


def inner_loop_first(step, passes, iterations):
    for _ in range(iterations):
        for _ in range(passes):
            step("p")
        step("o")


def inner_loop_last(step):
    for _ in range(3):
        step("o")
        for _ in range(4):
            step("p")


def now_and_then(step):
    for _ in range(2):
        for number in range(1, 5):
            step("p")
            if number % 2 == 0:
                step("o")


def train_critic(step):
    number = 0
    while number < 2:
        step("p")
        number += 1


def within_functions(step):
    for _ in range(3):
        train_critic(step)
        step("o")


def frameworks_step(step, names):
    for name in names:
        step(name)


def within_a_frameworks_loop(step):
    for _ in range(3):
        for _ in range(2):
            frameworks_step(step, ["p"])
        frameworks_step(step, ["o"])


def several_in_an_inner_loop(step):
    for _ in range(3):
        for _ in range(2):
            step("p")
            step("q")
        step("o")


def list_and_now_and_then(step):
    for number in range(1, 7):
        for each in ("a", "b"):
            step(each)
        if number % 2 == 0:
            step("c")


def list_and_one_more(step):
    for _ in range(3):
        for each in ("a", "b"):
            step(each)
        step("c")


def once_before_the_epochs(step):
    step("o")
    for _ in range(2):
        for _ in range(4):
            step("p")


def phases(step):
    for _ in range(2):
        step("o")
    for _ in range(2):
        for _ in range(4):
            step("p")


def gone(step):
    for number in range(MOST_PASSES):
        for _ in range(2):
            step("p")
        if number < 2:
            step("o")


class LoopsTest(unittest.TestCase):
    def test_what_is_stepped_in_an_inner_loop_ends_no_step(self):
        self.assertEqual(boundaries(inner_loop_first, 3, 3), "p| p| p| o|| p p p o| p p p o|")
        self.assertEqual(boundaries(inner_loop_first, 7, 2), " ".join(["p|"] * 7 + ["o||"] + ["p"] * 7 + ["o|"]))

    def test_also_where_it_comes_last(self):
        self.assertEqual(boundaries(inner_loop_last), "o| p p p p o| p p p p o| p p p p")

    def test_also_where_it_is_there_only_once(self):
        self.assertEqual(boundaries(inner_loop_first, 1, 3), "p| o|| p o| p o|")

    def test_the_same_order_without_an_inner_loop_is_a_step_each(self):
        self.assertEqual(boundaries(now_and_then), "p| p| o p| p| o p| p| o p| p| o")

    def test_the_inner_loop_may_be_in_a_function(self):
        self.assertEqual(boundaries(within_functions), "p| p| o|| p p o| p p o|")

    def test_a_frameworks_own_loop_around_each_does_not_count(self):
        self.assertEqual(boundaries(within_a_frameworks_loop), "p| p| o|| p p o| p p o|")

    def test_an_inner_loop_may_step_several(self):
        self.assertEqual(boundaries(several_in_an_inner_loop), "p| q p q| o|| p q p q o| p q p q o|")

    def test_a_loop_over_optimizers_is_none_of_steps(self):
        self.assertEqual(boundaries(list_and_now_and_then), "a| b a b| c a b| a b| c a b| a b| c")
        self.assertEqual(boundaries(list_and_one_more), "a| b c a b c| a b c|")

    def test_loops_that_have_no_loop_around_both_are_phases(self):
        self.assertEqual(boundaries(once_before_the_epochs), "o| p p p| p| p| p| p| p|")
        self.assertEqual(boundaries(phases), "o| o| p p p| p| p| p| p| p|")

    def test_an_epoch_is_no_step(self):
        steps = MOST_PASSES + 1
        self.assertEqual(boundaries(inner_loop_first, steps, 2), " ".join((["p|"] * steps + ["o"]) * 2))

    def test_when_the_outer_one_is_gone_the_inner_one_takes_its_place_in_the_end(self):
        seen = boundaries(gone).split()
        self.assertEqual(seen[:6], "p| p| o|| p p o|".split())
        self.assertEqual(seen[6:], ["p"] * MOST_PASSES + ["p|"] * (len(seen) - 6 - MOST_PASSES))

    def test_a_script_whose_text_is_gone_is_told_by_the_order_alone(self):
        names = {}
        exec("def f(step):\n for _ in range(2):\n  for _ in range(2):\n   step('p')\n  step('o')", names)
        self.assertEqual(boundaries(names["f"]), "p| p| o p| p| o")


if __name__ == "__main__":
    unittest.main()
