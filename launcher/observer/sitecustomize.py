"""Starts the observer in a rank whose PYTHONPATH begins with this folder, and then loads the
sitecustomize that Python would have loaded without it."""

import importlib.machinery
import importlib.util
import os
import sys


def observe():
    if not os.environ.get("PLANWRIGHT_OBSERVER"):
        return
    from planwright_observer import torch_import

    torch_import.watch()


def load_the_users_own():
    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


try:
    observe()
except Exception as error:  # A run that cannot be observed still runs.
    print(f"planwright observer: not started: {type(error).__name__}: {error}", file=sys.stderr)
load_the_users_own()
