"""Starts the ranks of a script as a launcher does, with the observer first on their module path, and
reads what it left."""

import collections
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

Run = collections.namedtuple("Run", "codes reports output")
HERE = pathlib.Path(__file__).parent
TIME_LIMIT_S = 300


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(observer, folder, steps, extra):
    """Empty values are taken out."""
    own = {
        "PYTHONPATH": str(observer),
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
    """Of ranks that were ended after TIME_LIMIT_S the code is None."""
    with tempfile.TemporaryDirectory() as folder:
        port = str(free_port())
        processes = []
        for rank in range(ranks):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks),
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            processes.append(start([script, *arguments], environment(observer, folder, steps, {**place, **(extra or {})})))
        output = [finish(each) for each in processes]
        return Run([each.returncode for each in processes], reports_in(folder), output)


def start(arguments, variables):
    return subprocess.Popen([sys.executable, *map(str, arguments)], env=variables, cwd=HERE, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def finish(process):
    try:
        return process.communicate(timeout=TIME_LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0] + f"\nended after {TIME_LIMIT_S} s"


def reports_in(folder):
    """The lines of each file that has steps, by rank; else those of all files."""
    reports = [[json.loads(line) for line in path.read_text().splitlines()] for path in pathlib.Path(folder).glob("*.jsonl")]
    trained = [lines for lines in reports if steps_of(lines)]
    return sorted(trained or reports, key=lambda lines: lines[-1]["rank"])


def steps_of(lines):
    return [line for line in lines if line["kind"] == "step"]
