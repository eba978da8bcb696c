"""As much of torch as the observer touches when an optimizer steps that owns nothing. With FAKE_CUDA
there is a device too, whose peak is reset as the real one's is."""

import contextlib
import os
import types

__version__ = "0.0.fake"


class OutOfMemoryError(RuntimeError):
    pass


class Module:
    pass


class Cuda:
    statistics = {"allocated_bytes.all.current": 100, "allocated_bytes.all.peak": 700, "reserved_bytes.all.current": 1000,
                  "reserved_bytes.all.peak": 2000, "num_alloc_retries": 1, "num_ooms": 0}

    def is_initialized(self):
        return "FAKE_CUDA" in os.environ

    def memory_stats(self):
        return dict(self.statistics)

    def mem_get_info(self):
        return 3000, 8000

    def reset_peak_memory_stats(self):
        for each in ("allocated_bytes.all", "reserved_bytes.all"):
            self.statistics[each + ".peak"] = self.statistics[each + ".current"]

    def get_device_name(self):
        return "Fake 8000"

    def synchronize(self):
        print("synchronized")


version = types.SimpleNamespace(cuda=None)
cuda = Cuda()
compiler = types.SimpleNamespace(is_compiling=lambda: False)
nn = types.SimpleNamespace(Module=Module)
no_grad = contextlib.nullcontext
Tensor = type("Tensor", (), {})
