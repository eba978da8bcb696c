"""What CPU tensors take, to the byte where the counting allocator is there for this very torch, and
else what the process takes."""

import ctypes
import os
import pathlib

PAGE = os.sysconf("SC_PAGE_SIZE")
FUNCTIONS = ("current", "peak", "failures", "failed_bytes", "held_at_failure")


def library_path(torch_version):
    """Its name carries the version: the layout of libtorch's classes is not to be relied on elsewhere."""
    named = os.environ.get("PLANWRIGHT_OBSERVER_ALLOCATOR")
    folder = pathlib.Path(named) if named else pathlib.Path(__file__).parent
    return folder / f"counting_allocator-{torch_version.partition('+')[0]}.so"


class CpuMemory:
    def __init__(self, torch_version, wanted_budget=None):
        """Counts from here on, if it can, and lets tensors have no more bytes than the budget that is
        wanted. `why_not` says why not, and `budget` which one it is."""
        self._count = None
        self.why_not = None
        self.budget = None
        path = library_path(torch_version)
        if not path.exists():
            self.why_not = f"no {path.name} in {path.parent}"
            return
        library = ctypes.CDLL(str(path))
        if not library.planwright_count_cpu_memory(ctypes.c_int64(wanted_budget or 0)):
            self.why_not = "this process's CPU allocator cannot be wrapped"
            return
        self.budget = wanted_budget
        self._count = {name: getattr(library, f"planwright_cpu_{name}") for name in FUNCTIONS}
        for function in self._count.values():
            function.restype = ctypes.c_int64
        self._reset_peak = library.planwright_cpu_reset_peak

    @property
    def source(self):
        return "counting_allocator" if self._count else "process"

    def read(self):
        """Bytes now and at their most since the last reset; of the process's whole life where they
        are the process's."""
        if self._count:
            return {"current": self._count["current"](), "peak": self._count["peak"]()}
        return {"current": resident_bytes(), "peak": most_resident_bytes()}

    def reset_peak(self):
        if self._count:
            self._reset_peak()

    def failures(self):
        return self._count["failures"]() if self._count else 0

    def last_failure(self):
        """What the last allocation that failed asked for, what was held then, and the budget where it
        was that which failed it."""
        if not self.failures():
            return {"requested": None, "allocated": None, "capacity": None}
        requested, allocated = self._count["failed_bytes"](), self._count["held_at_failure"]()
        over_budget = self.budget is not None and allocated + requested > self.budget
        return {"requested": requested, "allocated": allocated, "capacity": self.budget if over_budget else None}


def resident_bytes():
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * PAGE


def most_resident_bytes():
    """Of the whole life of the process."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def proportional_bytes():
    """Resident bytes with shared pages divided among those that share them. Walks the page tables:
    milliseconds for gigabytes."""
    try:
        with open("/proc/self/smaps_rollup") as file:
            for line in file:
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
