#!/usr/bin/env python3
"""Many files for one parser: check_many.py TARGET, run by the environment's Python.

stdin: a JSON line {"path", "world"} for each file; stdout: the line of check_emitted.py for each. The libraries
are imported once; each file has a process of its own, since they keep global state.
"""

import argparse
import importlib
import json
import os
import pathlib
import sys
import tempfile
import warnings

HERE = pathlib.Path(__file__).resolve().parent
# What takes long to import and may be there before a check arranges its stand-ins.
PRELOAD = {
    "deepspeed": ["deepspeed.runtime.config"],
    "accelerate": ["accelerate.commands.launch", "accelerate.utils.launch"],
    "transformers": ["torch", "accelerate"],
    "torchtitan": ["torch.distributed.fsdp", "torch.distributed.pipelining.schedules"],
    "torchrun": ["torch.distributed.run"],
    "fsdp": ["torch.distributed.fsdp"],
    "megatron": ["torch"],
}


def answer(target, job, out):
    """In a child: what the check says of one file, as a line on `out`."""
    import check_emitted
    given = argparse.Namespace(world=job["world"], sm="9.0", pp=1)
    with tempfile.NamedTemporaryFile("w+", suffix=".log", errors="replace") as log:
        os.environ["PLANWRIGHT_TARGETS_LOG"] = log.name
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        line, _ = check_emitted.one(target, job["path"], given, pathlib.Path(sys.prefix))
    os.write(out, (json.dumps(line, default=str) + "\n").encode())


def main():
    sys.path.insert(0, str(HERE))
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    jobs = [json.loads(line) for line in sys.stdin]
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print at import is no answer
    for name in PRELOAD[sys.argv[1]]:
        importlib.import_module(name)
    for job in jobs:
        child = os.fork()
        if child == 0:
            try:
                answer(sys.argv[1], job, out)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
