"""The observer on real torch and real frameworks: what it sees of loops, good and bad.

    PLANWRIGHT_OBSERVER_FOLDER=build/bin/observer python observer_behaviour.py
"""

import os
import pathlib
import tempfile
import time
import unittest

import ranks
import trainer_shape
from ranks import steps_of

OBSERVER = os.environ["PLANWRIGHT_OBSERVER_FOLDER"]
SMALL_MODEL = 31 * 57 + 57 + 57 + 1
TENSORS = 4


def scenario(name, steps=None, world=1, observer=OBSERVER, **variables):
    return ranks.run("scenarios.py", [name], world, observer, steps, variables)


def column(run, name, rank=0):
    return [line[name] for line in steps_of(run.reports[rank])]


def kinds(run, rank=0):
    return [line["kind"] for line in run.reports[rank]]


def graphs(run):
    """That had been compiled after each iteration."""
    return [int(line.split()[1]) for line in run.output[0].splitlines() if line.startswith("graphs")]


class LoopsTest(unittest.TestCase):
    def test_a_step_is_one_of_the_optimizer_over_its_micro_batches(self):
        run = scenario("accumulated")
        self.assertEqual(column(run, "step"), [1, 2, 3, 4, 5, 6])
        self.assertEqual(column(run, "micro_batches"), [None, 3, 3, 3, 3, 3])

    def test_several_optimizers_make_one_step(self):
        run = scenario("two_optimizers", steps=4)
        self.assertEqual((column(run, "step"), run.output[0].count("iteration")), ([1, 2, 3, 4], 4))
        accounts = steps_of(run.reports[0])[-1]["accounts"]
        self.assertEqual(accounts["parameters"], {"cpu": 2 * 4 * SMALL_MODEL})
        self.assertEqual(accounts["gradients"], {"cpu": 2 * 4 * SMALL_MODEL})
        self.assertEqual(accounts["optimizer"], {"cpu": 2 * (8 * SMALL_MODEL + 4 * TENSORS)})

    def test_one_in_an_inner_loop_makes_no_step_of_its_own(self):
        run = scenario("critic_in_an_inner_loop", steps=4)
        self.assertEqual((column(run, "step"), run.output[0].count("iteration")), ([1, 2, 3, 1, 2, 3, 4], 4))
        counted = steps_of(run.reports[0])[3:]
        self.assertEqual([line["micro_batches"] for line in counted], [None, 3, 3, 3])
        self.assertIsNone(counted[0]["time_s"])
        for line in counted[1:]:
            self.assertGreater(line["time_s"], 0.1)
        self.assertEqual(counted[-1]["accounts"]["optimizer"], {"cpu": 2 * (8 * SMALL_MODEL + 4 * TENSORS)})
        self.assertEqual(counted[-1]["accounts"]["gradients"], {"cpu": 4 * SMALL_MODEL})  # the critic's, before its first

    def test_a_run_does_not_end_within_the_inner_loop(self):
        run = scenario("critic_in_an_inner_loop", steps=2)
        self.assertEqual((column(run, "step"), run.output[0].count("iteration")), ([1, 2, 3, 1, 2], 2))
        self.assertEqual(kinds(run)[-1], "end")

    def test_nor_does_it_wait_for_ever_for_another_optimizer(self):
        run = scenario("epochs_beside_one_that_is_never_stepped", steps=2)
        self.assertEqual((column(run, "step"), run.reports[0][-1]["reason"]), (list(range(1, 23)), "steps"))

    def test_in_the_same_order_but_the_same_loop_each_makes_one(self):
        run = scenario("maker_now_and_then", steps=8)
        self.assertEqual((column(run, "step"), run.output[0].count("iteration")), ([1, 2, 3, 4, 5, 6, 7, 8], 8))

    def test_all_ranks_count_anew_at_the_same_one(self):
        run = scenario("critic_in_an_inner_loop", steps=3, world=2)
        self.assertEqual([column(run, "step", rank) for rank in range(2)], [[1, 2, 3, 1, 2, 3]] * 2)

    def test_an_optimizer_per_parameter_makes_one_step(self):
        run = scenario("optimizer_within_backward", steps=4)
        self.assertEqual((column(run, "step"), run.output[0].count("iteration")), ([1, 2, 3, 4], 4))

    def test_a_step_that_the_scaler_leaves_out_is_part_of_the_next(self):
        run = scenario("scaled")
        self.assertEqual(column(run, "micro_batches"), [None, 1, 2, 1, 1])

    def test_one_that_is_empty_within_the_optimizer_is_known(self):
        self.assertEqual(column(scenario("scaled_in_the_optimizer"), "skipped"), [False, False, True, False, False, False])

    def test_losses_that_are_not_numbers_are_no_concern(self):
        run = scenario("not_a_number")
        self.assertEqual((run.codes, column(run, "step")), ([0], [1, 2, 3, 4, 5, 6]))
        self.assertIn("nan", run.output[0])

    def test_the_end_says_whether_training_led_to_numbers(self):
        for name, finite in (("accumulated", True), ("not_a_number", False), ("loss_not_a_number", False),
                             ("partly_never_set", True), ("scaled", True), ("without_order", None)):
            with self.subTest(name):
                self.assertEqual(scenario(name, steps=4).reports[0][-1]["finite"], finite)

    def test_training_without_an_optimizer_is_told_as_no_step(self):
        run = scenario("without_an_optimizer")
        self.assertEqual((kinds(run), run.reports[0][-1]["steps"]), (["start", "end"], 0))

    def test_it_changes_no_number(self):
        observed, alone = scenario("accumulated"), scenario("accumulated", PLANWRIGHT_OBSERVER="")
        self.assertEqual((alone.reports, len(alone.output[0].splitlines())), ([], 18))
        self.assertEqual(observed.output, alone.output)

    def test_it_makes_nothing_compile_again(self):
        observed, alone = scenario("compiled"), scenario("compiled", PLANWRIGHT_OBSERVER="")
        self.assertEqual((graphs(observed), graphs(alone)), ([1] * 6, [1] * 6))
        self.assertEqual(len(steps_of(observed.reports[0])), 6)

    def test_a_step_that_is_itself_compiled_is_left_alone_and_not_seen(self):
        observed, alone = scenario("compiled_step"), scenario("compiled_step", PLANWRIGHT_OBSERVER="")
        self.assertEqual(observed.codes, [0], observed.output[0][-1500:])
        self.assertEqual((graphs(observed), graphs(alone)), ([1] * 6, [1] * 6))
        self.assertEqual(kinds(observed), ["start", "end"])


class MemoryTest(unittest.TestCase):
    def test_a_peak_is_of_its_own_step_and_exact(self):
        run = scenario("spike")
        peaks = [memory["peak"] for memory in column(run, "memory")]
        self.assertEqual([peak - peaks[1] for peak in peaks[1:]], [0, 1000003, 0, 0, 0])
        self.assertEqual(column(run, "memory_source"), ["counting_allocator"] * 6)

    def test_without_the_library_it_tells_of_the_process_and_says_so(self):
        with tempfile.TemporaryDirectory() as empty:
            run = scenario("spike", PLANWRIGHT_OBSERVER_ALLOCATOR=empty)
        self.assertEqual(column(run, "memory_source"), ["process"] * 6)
        self.assertIn("no counting_allocator-", run.reports[0][0]["no_counting_allocator"])
        for memory, rss in zip(column(run, "memory"), column(run, "rss")):
            self.assertGreater(memory["current"], 50 << 20)
            self.assertLess(abs(memory["current"] - rss), 1 << 20)
            self.assertLessEqual(memory["current"], memory["peak"])

    def test_what_could_not_be_had_is_told_to_the_byte(self):
        run = scenario("out_of_memory")
        self.assertEqual((kinds(run), run.codes), (["start", "step", "oom", "end"], [1]))
        oom = run.reports[0][2]
        self.assertEqual((oom["requested"], oom["caught"], oom["step"], oom["device"]), (1 << 50, False, 2, "cpu"))
        self.assertEqual(oom["allocated"], 8000)
        self.assertIn("can't allocate memory", oom["message"])

    def test_also_where_the_script_catches_it_and_goes_on(self):
        run = scenario("out_of_memory_caught")
        self.assertEqual(kinds(run), ["start", "step", "step", "oom", "step", "step", "step", "step", "end"])
        oom = run.reports[0][3]
        self.assertEqual((oom["requested"], oom["caught"], oom["step"]), (1 << 50, True, 3))

    def test_or_catches_it_and_leaves(self):
        run = scenario("out_of_memory_caught_and_left")
        self.assertEqual((kinds(run), run.codes), (["start", "oom", "end"], [1]))
        self.assertEqual(run.reports[0][1]["requested"], 1 << 50)


class BudgetTest(unittest.TestCase):
    """Of the 8000 bytes of a parameter and its gradient, and of what a scenario takes beside them."""

    def test_what_goes_beyond_it_ends_the_run_with_the_figures(self):
        run = scenario("spike", PLANWRIGHT_OBSERVER_BUDGET="1000000")
        self.assertEqual((kinds(run), run.codes), (["start", "step", "step", "oom", "end"], [1]))
        start, _, _, oom, end = run.reports[0]
        self.assertEqual((start["cpu_budget"], end["reason"]), (1000000, "error"))
        self.assertEqual([oom[key] for key in ("step", "caught", "device", "requested", "allocated", "capacity")],
                         [3, False, "cpu", 1000003, 8000, 1000000])
        self.assertEqual(oom["message"], "CPU out of memory. Tried to allocate 1000003 bytes. 8000 bytes are allocated of a "
                                         "budget of 1000000 bytes (PLANWRIGHT_OBSERVER_BUDGET).")
        self.assertIn("torch.OutOfMemoryError: " + oom["message"], run.output[0])

    def test_the_peak_of_a_run_is_the_least_that_it_needs(self):
        peak = max(memory["peak"] for memory in column(scenario("spike"), "memory"))
        self.assertEqual(scenario("spike", PLANWRIGHT_OBSERVER_BUDGET=str(peak)).codes, [0])
        self.assertEqual(scenario("spike", PLANWRIGHT_OBSERVER_BUDGET=str(peak - 1)).codes, [1])

    def test_a_script_that_catches_it_goes_on_and_has_lost_nothing(self):
        run = scenario("out_of_memory_caught", PLANWRIGHT_OBSERVER_BUDGET="1000000")
        self.assertEqual((kinds(run), run.codes),
                         (["start", "step", "step", "oom", "step", "step", "step", "step", "end"], [0]))
        oom = run.reports[0][3]
        self.assertEqual([oom[key] for key in ("step", "caught", "requested", "allocated", "capacity", "message")],
                         [3, True, 1 << 50, 8000, 1000000, None])
        unlimited = scenario("out_of_memory_caught")
        self.assertEqual(column(run, "memory"), column(unlimited, "memory"))
        self.assertEqual([unlimited.reports[0][0]["cpu_budget"], unlimited.reports[0][3]["capacity"]], [None, None])

    def test_threads_that_fill_it_together_get_all_of_it_and_no_more(self):
        run = scenario("filled_by_threads", PLANWRIGHT_OBSERVER_BUDGET="20008999")
        self.assertEqual((run.codes, run.output), ([0], ["pieces 20000\n"]))
        memory = column(run, "memory")
        self.assertEqual(memory[2]["peak"], 20008000)
        self.assertEqual([each["current"] for each in memory], [8000] * 6)

    def test_one_that_is_large_changes_nothing(self):
        limited, alone = scenario("accumulated", PLANWRIGHT_OBSERVER_BUDGET=str(1 << 40)), scenario("accumulated")
        self.assertEqual(limited.output, alone.output)
        self.assertEqual((kinds(limited), column(limited, "memory")), (kinds(alone), column(alone, "memory")))

    def test_ranks_run_full_within_a_backward_pass_too(self):
        run = scenario("unequal_ranks", world=2, PLANWRIGHT_OBSERVER_BUDGET="24000")
        self.assertEqual(run.codes, [1, 1], run.output[0][-1500:])
        for rank in range(2):
            self.assertIn("loss_of(model).backward()", run.output[rank])
            oom = next(line for line in run.reports[rank] if line["kind"] == "oom")
            self.assertEqual((oom["step"], oom["caught"], oom["capacity"]), (1, False, 24000))
            self.assertGreater(oom["requested"] + oom["allocated"], 24000)
            self.assertLessEqual(oom["allocated"], 24000)


class EndTest(unittest.TestCase):
    def test_all_ranks_end_at_the_same_step_and_well(self):
        run = scenario("unequal_ranks", steps=3, world=3)
        self.assertEqual(run.codes, [0, 0, 0])
        for rank in range(3):
            self.assertEqual(column(run, "step", rank), [1, 2, 3])
            end = run.reports[rank][-1]
            self.assertEqual((end["kind"], end["reason"], end["peers"], end["rank"]), ("end", "steps", "met", rank))

    def test_one_whose_peer_has_gone_ends_all_the_same(self):
        run = scenario("lost_peer", steps=3, world=2)
        self.assertEqual(run.codes, [0, 3])
        self.assertEqual((column(run, "step", 0), column(run, "step", 1)), ([1, 2, 3], [1, 2]))
        self.assertRegex(run.reports[0][-1]["peers"], "failed|timed out")

    def test_nothing_of_it_is_left_running(self):
        run = scenario("with_loaders", steps=3)
        self.assertEqual((run.codes, column(run, "step")), ([0], [1, 2, 3]))
        self.assertNotIn("ended after", run.output[0])  # loaders that outlive it keep its output open
        loaders = [int(line.split()[1]) for line in run.output[0].splitlines() if line.startswith("loader")]
        self.assertEqual(len(loaders), 2)
        deadline = time.monotonic() + 5
        while left := [each for each in loaders if pathlib.Path(f"/proc/{each}").exists()]:
            self.assertLess(time.monotonic(), deadline, f"still running: {left}")
            time.sleep(0.1)


class FrameworksTest(unittest.TestCase):
    def test_deepspeed_steps_once_for_all_groups_and_its_own_first_step_is_none(self):
        for stage in (0, 2, 3):
            with self.subTest(stage=stage):
                run = scenario(f"deepspeed_groups_{stage}", steps=4)
                self.assertEqual(run.codes, [0], run.output[0][-1500:])
                self.assertEqual(column(run, "step"), [1, 2, 3, 4])
                self.assertEqual(run.output[0].count("iteration"), 4)
                self.assertEqual(column(run, "micro_batches")[1:], [2, 2, 2])
                self.assertEqual(steps_of(run.reports[0])[0]["versions"]["deepspeed"], "0.19.8")

    def test_the_trainer_over_two_ranks_matches_arithmetic(self):
        with tempfile.TemporaryDirectory() as folder:
            run = ranks.run("trainer.py", [folder], 2, OBSERVER, steps=4)
        self.assertEqual(run.codes, [0, 0], run.output[0][-1500:])
        elements, tensors = trainer_shape.count()
        for rank in range(2):
            last = steps_of(run.reports[rank])[-1]
            self.assertEqual((last["step"], last["micro_batches"], last["world"]), (4, trainer_shape.MICRO_BATCHES, 2))
            self.assertEqual(last["accounts"]["parameters"], {"cpu": 4 * elements})
            self.assertEqual(last["accounts"]["gradients"], {"cpu": 4 * elements})
            self.assertEqual(last["accounts"]["optimizer"], {"cpu": 8 * elements + 4 * tensors})
            self.assertLessEqual({"transformers", "accelerate"}, set(last["versions"]))


if __name__ == "__main__":
    unittest.main()
