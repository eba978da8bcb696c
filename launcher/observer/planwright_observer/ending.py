"""Ends a run that has measured its steps: all ranks at the same one, and none before its peers have
come as far, so that nobody sees a dead connection."""

import os
import sys
import time

from planwright_observer import cuda_memory
from planwright_observer.report import process_group

PATIENCE_S = 30
# Of a rank that has met its peers, for what it still sends them.
GRACE_S = 0.2
POLL_S = 0.002


def meet_peers():
    """What came of it, in a word."""
    distributed = process_group()
    if distributed is None or distributed.get_world_size() == 1:
        return "alone"
    deadline = time.monotonic() + PATIENCE_S
    try:
        work = distributed.barrier(async_op=True)
        while not work.is_completed():
            if time.monotonic() > deadline:
                return "timed out"
            time.sleep(POLL_S)
        work.wait()  # does not wait any more, but raises if a peer was lost
    except Exception as error:
        return f"failed: {type(error).__name__}"
    time.sleep(GRACE_S)
    return "met"


def finish_device_work():
    if cuda_memory.in_use():
        cuda_memory.synchronize()


def leave():
    """At once and without a word: what a framework does at its exit may take minutes (a last
    checkpoint) or fail. Loader processes end with their parent, if not before."""
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.terminate()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(0)
