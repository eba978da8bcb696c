import unittest

from observed import Observed

STEP = "Optimizer().step()"
BEGIN = "import torch; from torch.optim.optimizer import Optimizer; o = Optimizer()\n"
# A torch.distributed in which this process turns out to be rank 3 of 4.
RANK_3 = """
import sys, types
sys.modules["torch.distributed"] = types.SimpleNamespace(
    is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 3, get_world_size=lambda: 4)
"""


class ReportTest(unittest.TestCase):
    def test_each_line_says_which_rank_it_is_of(self):
        run = Observed(BEGIN + "o.step()", RANK="5", WORLD_SIZE="8", LOCAL_RANK="1")
        self.assertTrue(run.names[0].startswith("rank-5-"))
        for line in run.reports[0]:
            self.assertEqual([line[key] for key in ("schema", "rank", "world", "local_rank", "rank_source")],
                             ["planwright.observer/1", 5, 8, 1, "environment"])

    def test_slurm_and_open_mpi_are_understood(self):
        self.assertEqual(Observed(BEGIN, SLURM_PROCID="2", SLURM_NTASKS="4").reports[0][0]["rank"], 2)
        self.assertEqual(Observed(BEGIN, OMPI_COMM_WORLD_RANK="3").reports[0][0]["rank"], 3)

    def test_a_process_of_no_launcher_is_rank_0_of_1_and_says_so(self):
        line = Observed(BEGIN).reports[0][0]
        self.assertEqual((line["rank"], line["world"], line["rank_source"]), (0, 1, "none"))

    def test_the_file_is_named_after_the_rank_that_torch_distributed_gives(self):
        run = Observed(BEGIN + RANK_3 + "o.step()")
        self.assertTrue(run.names[0].startswith("rank-3-"), run.names)
        self.assertEqual([line["rank"] for line in run.reports[0]], [0, 3, 3])

    def test_the_end_says_how_the_process_ended(self):
        self.assertEqual(Observed(BEGIN).reports[0][-1]["reason"], "exit")
        end = Observed(BEGIN + "raise ValueError('no luck')").reports[0][-1]
        self.assertEqual((end["kind"], end["reason"], end["error"]), ("end", "error", "ValueError: no luck"))

    def test_the_wanted_number_of_steps_ends_the_run_with_what_was_printed(self):
        run = Observed(BEGIN + "for i in range(9): print(i); o.step()", PLANWRIGHT_OBSERVER_STEPS="3")
        self.assertEqual((run.code, run.out), (0, "0\n1\n2\n"))
        self.assertEqual(run.kinds(), [["start", "step", "step", "step", "end"]])
        end = run.reports[0][-1]
        self.assertEqual((end["reason"], end["peers"], end["finite"]), ("steps", "alone", None))

    def test_a_killed_process_leaves_what_it_saw(self):
        run = Observed(BEGIN + "o.step(); o.step()\nimport os; os.kill(os.getpid(), 9)")
        self.assertEqual(run.kinds(), [["start", "step", "step"]])

    def test_memory_that_could_not_be_had_is_told_of(self):
        run = Observed(BEGIN + "o.step()\nraise MemoryError('Unable to allocate')")
        self.assertEqual(run.kinds(), [["start", "step", "oom", "end"]])
        oom = run.reports[0][2]
        self.assertEqual((oom["step"], oom["caught"], oom["device"], oom["message"]), (2, False, "cpu", "Unable to allocate"))

    def test_the_figures_of_a_cpu_allocation_are_read_from_its_text(self):
        text = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 12345 bytes. Error code 12"
        oom = Observed(BEGIN + f'raise RuntimeError("{text}")').reports[0][1]
        self.assertEqual((oom["kind"], oom["requested"], oom["device"]), ("oom", 12345, "cpu"))

    def test_on_cuda_a_step_has_the_allocators_figures_and_its_own_peak(self):
        run = Observed(BEGIN + "o.step(); o.step(); o.step()", FAKE_CUDA="1", PLANWRIGHT_OBSERVER_STEPS="3")
        steps = run.reports[0][1:4]
        self.assertEqual([line["memory"]["peak"] for line in steps], [700, 100, 100])
        self.assertEqual(steps[0]["memory"], {"current": 100, "peak": 700, "reserved": 1000, "reserved_peak": 2000,
                                              "device_used": 5000, "device_total": 8000, "retries": 1})
        self.assertEqual([steps[0][key] for key in ("memory_source", "device", "device_name", "synchronized")],
                         ["cuda_caching_allocator", "cuda", "Fake 8000", False])
        self.assertEqual(steps[0]["host_memory_source"], "process")
        self.assertEqual(run.out, "synchronized\n")

    def test_the_figures_of_a_cuda_allocation_are_kept(self):
        text = ("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 7.50 GiB of which 1.00 GiB is free.")
        oom = Observed(BEGIN + f'raise torch.OutOfMemoryError("{text}")', FAKE_CUDA="1").reports[0][1]
        self.assertEqual([oom[key] for key in ("kind", "device", "requested", "allocated", "reserved", "capacity", "caught")],
                         ["oom", "cuda", 5 << 29, 100, 1000, 8000, False])

    def test_a_cpu_over_its_budget_is_not_taken_for_cuda(self):
        text = "CPU out of memory. Tried to allocate 12345 bytes. 8000 bytes are allocated of a budget of 10000 bytes."
        oom = Observed(BEGIN + f'raise torch.OutOfMemoryError("{text}")').reports[0][1]
        self.assertEqual([oom[key] for key in ("kind", "device", "requested", "message")], ["oom", "cpu", 12345, text])

    def test_a_budget_that_nothing_keeps_to_is_told_as_none(self):
        start = Observed(BEGIN, PLANWRIGHT_OBSERVER_BUDGET="12345").reports[0][0]
        self.assertEqual((start["cpu_budget"], start["cpu_memory_source"]), (None, "process"))

    def test_one_that_is_caught_on_cuda_is_known_by_the_allocators_count(self):
        code = "o.step(); torch.cuda.statistics['num_ooms'] = 1; o.step(); o.step()"
        run = Observed(BEGIN + code, FAKE_CUDA="1")
        self.assertEqual(run.kinds(), [["start", "step", "oom", "step", "step", "end"]])
        self.assertEqual([run.reports[0][2][key] for key in ("step", "caught", "requested", "reserved")], [2, True, None, 1000])

    def test_another_error_is_not_taken_for_it(self):
        self.assertEqual(Observed(BEGIN + "raise RuntimeError('shape mismatch')").kinds(), [["start", "end"]])

    def test_the_hook_of_somebody_else_is_still_called(self):
        code = "import sys; sys.excepthook = lambda *a: print('mine', a[1])\n" + BEGIN + "raise ValueError(4)"
        self.assertEqual(Observed(code).out, "mine 4\n")

    def test_a_thread_that_runs_out_of_memory_is_heard(self):
        code = BEGIN + "import threading\ndef f(): raise MemoryError('x')\nt = threading.Thread(target=f); t.start(); t.join()"
        self.assertEqual(Observed(code).kinds(), [["start", "oom", "end"]])

    def test_a_fault_of_the_observer_is_said_and_ends_only_the_observation(self):
        run = Observed(BEGIN + "o.param_groups = 5\no.step(); o.step(); print('done')")
        self.assertEqual((run.code, run.out, run.kinds()), (0, "done\n", [["start"]]))
        self.assertEqual(run.err.count("stopped observing"), 1)


if __name__ == "__main__":
    unittest.main()
