"""Memory that could not be had: from the exception, or from the allocators' counts where somebody
caught it."""

import re

import torch

from planwright_observer import cuda_memory

TEXTS = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED", re.I)
REQUESTED = re.compile(r"tried to allocate ([\d.]+) (bytes|KiB|MiB|GiB)", re.I)
CAPACITY = re.compile(r"total capacity of ([\d.]+) (bytes|KiB|MiB|GiB)")
# What counting_allocator.cpp says of its budget, in an exception that is otherwise of devices alone.
OVER_CPU_BUDGET = "CPU out of memory"
UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# Its name before torch 2.5.
DeviceOutOfMemory = getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError
LONGEST_MESSAGE = 1000


def out_of_memory(error):
    """The exception among `error` and those that led to it that says so, or None."""
    while error is not None:
        if isinstance(error, (MemoryError, DeviceOutOfMemory)):
            return error
        if isinstance(error, RuntimeError) and TEXTS.search(str(error)):
            return error
        error = error.__cause__ or error.__context__
    return None


def is_of_cuda(error):
    text = str(error)
    return OVER_CPU_BUDGET not in text and (isinstance(error, DeviceOutOfMemory) or "CUDA" in text or "HIP" in text)


def size_in(pattern, text):
    found = pattern.search(text)
    return int(float(found[1]) * UNITS[found[2]]) if found else None


class Failures:
    def __init__(self, cpu_memory):
        self._cpu = cpu_memory
        self._told = 0

    def count(self):
        return self._cpu.failures() + cuda_memory.failures()

    def of_exception(self, error):
        self._told = self.count()
        text = str(error)
        figures = self._of_cuda() if is_of_cuda(error) else self._of_cpu()
        # CUDA's texts round to two decimals; the CPU's allocator knows better.
        figures["requested"] = figures["requested"] or size_in(REQUESTED, text)
        figures["capacity"] = figures["capacity"] or size_in(CAPACITY, text)
        return {"caught": False, **figures, "message": text[:LONGEST_MESSAGE]}

    def since_told(self):
        """What nobody has told of yet, or None."""
        if self.count() == self._told:
            return None
        on_cpu = self._cpu.failures() > 0 and not cuda_memory.failures()
        self._told = self.count()
        figures = self._of_cpu() if on_cpu else self._of_cuda()
        return {"caught": True, **figures, "message": None}

    def _of_cpu(self):
        return {"device": "cpu", **self._cpu.last_failure()}

    def _of_cuda(self):
        memory = cuda_memory.read()
        return {"device": "cuda", "requested": None, "allocated": memory["current"], "allocated_peak": memory["peak"],
                "reserved": memory["reserved"], "capacity": memory["device_total"]}
