"""As much of torch as the observer touches until an optimizer steps; `step` is one that does nothing."""

import contextlib
import types

__version__ = "0.0.fake"


class OutOfMemoryError(RuntimeError):
    pass


class Module:
    pass


version = types.SimpleNamespace(cuda=None)
cuda = types.SimpleNamespace(is_initialized=lambda: False)
compiler = types.SimpleNamespace(is_compiling=lambda: False)
nn = types.SimpleNamespace(Module=Module)
no_grad = contextlib.nullcontext
Tensor = type("Tensor", (), {})
