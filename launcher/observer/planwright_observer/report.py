"""The lines that the observer leaves: one JSON object each, one write each, never rewritten."""

import json
import os
import sys
import time

ENCODER = json.JSONEncoder(allow_nan=False)
SCHEMA = "planwright.observer/1"
# Of torchrun, Slurm, Open MPI and MPICH, in this order.
RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
WORLD = ("WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
LOCAL_RANK = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")


def number_of(names):
    for name in names:
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return None


def process_group():
    """torch.distributed, where its default group is initialised."""
    distributed = sys.modules.get("torch.distributed")
    if distributed and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def placement_by_launcher():
    rank, world, local_rank = number_of(RANK), number_of(WORLD), number_of(LOCAL_RANK)
    if rank is None:
        return {"rank": 0, "world": 1, "local_rank": None, "rank_source": "none"}
    return {"rank": rank, "world": world, "local_rank": local_rank, "rank_source": "environment"}


class Report:
    """The file of one process, `rank-<rank>-<pid>.jsonl`, under the rank it has at its latest line.
    A process forked from it writes a file of its own, and says `start` again."""

    def __init__(self, folder, start):
        self._folder = folder
        self._start = start
        self._pid = self._place = self._file = None

    def write(self, kind, facts):
        if not self.is_open():
            self.begin()
        self._line(kind, facts)

    def begin(self):
        self._open()
        self._line("start", self._start())

    def is_open(self):
        return self._pid == os.getpid()

    def _open(self):
        self._pid = os.getpid()
        self._place = placement_by_launcher()
        self._file = os.open(self._path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def _path(self):
        return os.path.join(self._folder, f"rank-{self._place['rank']}-{self._pid}.jsonl")

    def _line(self, kind, facts):
        self._ask_process_group()
        line = {"schema": SCHEMA, "kind": kind, "time": time.time(), "pid": self._pid, **self._place, **facts}
        os.write(self._file, (ENCODER.encode(line) + "\n").encode())

    def _ask_process_group(self):
        """It knows the rank better than the launcher's variables, from when it is initialised."""
        distributed = process_group()
        if distributed is None or self._place["rank_source"] == "torch.distributed":
            return
        before = self._path()
        self._place.update(rank=distributed.get_rank(), world=distributed.get_world_size(), rank_source="torch.distributed")
        if self._path() != before:
            os.rename(before, self._path())
