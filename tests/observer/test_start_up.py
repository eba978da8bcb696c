import pathlib
import tempfile
import unittest

from observed import FAKE_TORCH, Observed

STEP = "from torch.optim.optimizer import Optimizer; Optimizer().step()"


class StartUpTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def own(self, name, text):
        """The module path with a module of the user's first."""
        pathlib.Path(self.folder.name, name).write_text(text)
        return self.folder.name, FAKE_TORCH

    def test_a_process_that_imports_torch_and_steps_leaves_a_report(self):
        run = Observed(f"import torch; {STEP}; print('done')")
        self.assertEqual((run.code, run.out, run.err), (0, "done\n", ""))
        self.assertEqual(run.kinds(), [["start", "step", "end"]])

    def test_a_process_that_never_imports_torch_leaves_none(self):
        run = Observed("import sys; print('planwright_observer.observer' in sys.modules)")
        self.assertEqual((run.code, run.out, run.reports), (0, "False\n", []))

    def test_to_look_for_torch_is_not_to_import_it(self):
        run = Observed("import importlib.util as u; print(u.find_spec('torch').name)")
        self.assertEqual((run.out, run.reports), ("torch\n", []))

    def test_torch_may_be_imported_late_and_after_a_look(self):
        run = Observed(f"import importlib.util as u; u.find_spec('torch'); import json, torch; {STEP}")
        self.assertEqual(run.kinds(), [["start", "step", "end"]])

    def test_torch_may_be_imported_in_a_subprocess_only(self):
        run = Observed(f'import subprocess, sys; subprocess.run([sys.executable, "-c", "import torch; {STEP}"])')
        self.assertEqual(run.kinds(), [["start", "step", "end"]])

    def test_a_fork_that_trains_has_a_report_of_its_own_with_steps_from_one(self):
        run = Observed(f"import os, torch; {STEP}\npid = os.fork()\n{STEP}\nif pid: os.waitpid(pid, 0)")
        self.assertEqual(sorted(run.kinds()), [["start", "step", "end"], ["start", "step", "step", "end"]])
        self.assertEqual(sorted([line["step"] for line in lines if line["kind"] == "step"] for lines in run.reports),
                         [[1], [1, 2]])

    def test_a_fork_that_does_not_train_has_none(self):
        run = Observed("import os, torch\nif not os.fork(): print('child')\nelse: os.wait()")
        self.assertEqual(run.kinds(), [["start", "end"]])

    def test_no_step_is_told_as_such(self):
        run = Observed("import torch")
        self.assertEqual(run.kinds(), [["start", "end"]])
        self.assertEqual(run.reports[0][-1]["steps"], 0)

    def test_without_the_variable_it_is_off(self):
        run = Observed(f"import torch, sys; {STEP}; print('planwright_observer' in sys.modules)", PLANWRIGHT_OBSERVER="")
        self.assertEqual((run.code, run.out, run.reports), (0, "False\n", []))

    def test_isolated_python_ignores_the_module_path_and_leaves_nothing(self):
        for flag in ("-I", "-E"):
            run = Observed("print('ran')", flags=[flag])
            self.assertEqual((run.code, run.out, run.reports), (0, "ran\n", []))

    def test_the_users_own_sitecustomize_is_loaded_and_is_the_module(self):
        path = self.own("sitecustomize.py", "MARK = 7\nprint('own')\n")
        run = Observed(f"import sitecustomize, torch; print(sitecustomize.MARK); {STEP}", path=path)
        self.assertEqual((run.code, run.out), (0, "own\n7\n"))
        self.assertEqual(run.kinds(), [["start", "step", "end"]])

    def test_it_is_loaded_when_the_observer_is_off_too(self):
        path = self.own("sitecustomize.py", "print('own')\n")
        self.assertEqual(Observed("pass", path=path, PLANWRIGHT_OBSERVER="").out, "own\n")

    def test_one_that_imports_torch_itself_is_observed(self):
        path = self.own("sitecustomize.py", "import torch\n")
        self.assertEqual(Observed(STEP, path=path).kinds(), [["start", "step", "end"]])

    def test_one_that_fails_fails_as_it_would_have_and_the_run_is_observed(self):
        path = self.own("sitecustomize.py", "raise ValueError('mine')\n")
        run = Observed(f"import torch; {STEP}", path=path)
        self.assertEqual((run.code, "ValueError: mine" in run.err), (0, True))
        self.assertEqual(run.kinds(), [["start", "step", "end"]])

    def test_usercustomize_still_works(self):
        home = pathlib.Path(self.folder.name)
        ask = Observed("import site; print(site.getusersitepackages())", PYTHONUSERBASE=str(home))
        site = pathlib.Path(ask.out.strip())
        site.mkdir(parents=True)
        (site / "usercustomize.py").write_text("print('user')\n")
        self.assertEqual(Observed("pass", PYTHONUSERBASE=str(home)).out, "user\n")

    def test_a_report_folder_that_is_not_there_is_said_and_harms_nothing(self):
        run = Observed(f"import torch; {STEP}; print('done')", PLANWRIGHT_OBSERVER="/nowhere/at/all")
        self.assertEqual((run.code, run.out), (0, "done\n"))
        self.assertIn("planwright observer: not started: FileNotFoundError", run.err)
        self.assertIn("/nowhere/at/all", run.err)

    def test_a_number_that_is_none_is_said_and_harms_nothing(self):
        for name, value in (("STEPS", "many"), ("STEPS", "0"), ("BUDGET", "1GiB"), ("BUDGET", "-1"), ("BUDGET", str(1 << 63))):
            run = Observed(f"import torch; {STEP}; print('done')", **{f"PLANWRIGHT_OBSERVER_{name}": value})
            self.assertEqual((run.code, run.out, run.reports), (0, "done\n", []))
            self.assertIn(f"PLANWRIGHT_OBSERVER_{name} = {value}", run.err)


if __name__ == "__main__":
    unittest.main()
