"""Runs Python with the observer first on its module path, and reads what it left. No torch but the
one of fake_torch."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
OBSERVER = os.environ["PLANWRIGHT_OBSERVER_FOLDER"]
FAKE_TORCH = str(HERE / "fake_torch")


class Observed:
    """What `python -c code` printed and left. `path` comes after the observer on the module path."""

    def __init__(self, code, path=(FAKE_TORCH,), flags=(), **variables):
        with tempfile.TemporaryDirectory() as folder:
            ended = subprocess.run([sys.executable, "-B", *flags, "-c", code], capture_output=True, text=True, timeout=60,
                                   env=environment(folder, path, variables))
            self.code, self.out, self.err = ended.returncode, ended.stdout, ended.stderr
            files = sorted(pathlib.Path(folder).iterdir())
            self.names = [each.name for each in files]
            self.reports = [[json.loads(line) for line in each.read_text().splitlines()] for each in files]

    def kinds(self):
        return [[line["kind"] for line in lines] for lines in self.reports]


def environment(folder, path, variables):
    ours = {name for name in os.environ if name.startswith(("PLANWRIGHT", "PYTHON", "RANK", "WORLD", "LOCAL_RANK", "SLURM"))}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    own = {"PYTHONPATH": ":".join([OBSERVER, *map(str, path)]), "PLANWRIGHT_OBSERVER": folder}
    return {**kept, **own, **variables}
