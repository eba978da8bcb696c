"""Starts the ranks of a script as a launcher does, with the observer first on their module path, and
reads what it left."""

import collections
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

Run = collections.namedtuple("Run", "codes reports output")
HERE = pathlib.Path(__file__).parent
TIME_LIMIT_S = 300
LOOK_S = 10  # how often a run is looked at


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(observer, folder, steps, extra):
    """Empty values are taken out."""
    own = {
        "PYTHONPATH": str(pathlib.Path(observer).resolve()),
        "PLANWRIGHT_OBSERVER": str(folder),
        "PLANWRIGHT_OBSERVER_STEPS": str(steps or ""),
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TORCH_EXTENSIONS_DIR": str(pathlib.Path(sys.prefix) / "extensions"),
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "DS_ACCELERATOR": "cpu",
        **extra,
    }
    return {name: value for name, value in {**os.environ, **own}.items() if value}


def run(script, arguments, ranks, observer, steps=None, extra=None):
    """Of ranks that were ended at their limit the code is that of the signal."""
    with tempfile.TemporaryDirectory() as folder:
        port = str(free_port())
        processes = []
        for rank in range(ranks):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            processes.append(start([script, *arguments], environment(observer, folder, steps, {**place, **(extra or {})})))
        limit = Limit(processes)
        output = [finish(each, limit) for each in processes]
        return Run([each.returncode for each in processes], reports_in(folder), output)


def start(arguments, variables):
    return subprocess.Popen([sys.executable, *map(str, arguments)], env=variables, cwd=HERE, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


class Limit:
    """TIME_LIMIT_S for ranks that run together, less what they waited for a processor: a run on a busy machine
    may take longer, one that hangs may not."""

    def __init__(self, processes):
        self.start = time.monotonic()
        self.queued = {each.pid: 0 for each in processes}

    def passed(self):
        for pid in self.queued:
            with contextlib.suppress(OSError):  # it has ended, or the kernel does not say
                self.queued[pid] = queued_s(pid)
        return time.monotonic() - self.start - sum(self.queued.values()) > TIME_LIMIT_S


def queued_s(pid):
    """What the first thread of a process could have run and did not."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def finish(process, limit):
    while True:
        try:
            return process.communicate(timeout=LOOK_S)[0]
        except subprocess.TimeoutExpired:
            if limit.passed():
                process.kill()
                return process.communicate()[0] + f"\nended after {TIME_LIMIT_S} s"


def reports_in(folder):
    """The lines of each file that has steps, by rank; else those of all files."""
    reports = [[json.loads(line) for line in path.read_text().splitlines()] for path in pathlib.Path(folder).glob("*.jsonl")]
    trained = [lines for lines in reports if steps_of(lines)]
    return sorted(trained or reports, key=lambda lines: lines[-1]["rank"])


def steps_of(lines):
    return [line for line in lines if line["kind"] == "step"]
