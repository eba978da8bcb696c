"""Waits for torch to be imported, and starts the observer then. Until then nothing of it runs."""

import sys


def watch():
    if "torch" in sys.modules:
        start()
    else:
        sys.meta_path.insert(0, TorchFinder())


def start():
    try:
        from planwright_observer import observer

        observer.start()
    except Exception as error:  # A run that cannot be observed still runs.
        print(f"planwright observer: not started: {type(error).__name__}: {error}", file=sys.stderr)


class TorchFinder:
    """Finds torch as the other finders do. To look for it, as `importlib.util.find_spec` does, is
    not to import it: only a module that is executed starts the observer."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != "torch":
            return None
        spec = found_by_others(name, path, target)
        if spec is not None and spec.loader is not None:
            start_after(spec.loader)
        return spec


def found_by_others(name, path, target):
    for finder in sys.meta_path:
        if not isinstance(finder, TorchFinder) and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def start_after(loader):
    execute = loader.exec_module

    def exec_module(module):
        execute(module)
        if any(isinstance(each, TorchFinder) for each in sys.meta_path):
            sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, TorchFinder)]
            start()

    try:
        loader.exec_module = exec_module
    except AttributeError:
        print(f"planwright observer: not started: torch is loaded by {loader!r}, which cannot be followed", file=sys.stderr)
