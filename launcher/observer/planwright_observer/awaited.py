"""Optimizers that a script has made and not stepped yet."""

import gc
import weakref

from torch.optim import optimizer as torch_optimizer

from planwright_observer.finiteness import parameters


def awaited(stepped):
    """Those of parameters that none of `stepped` has: what wraps one of them is not waited for. What is
    garbage is cleared first, or it would depend on the rank."""
    gc.collect()
    taken = {id(each) for optimizer in stepped for each in parameters(optimizer)}
    alive = [each for each in gc.get_objects() if issubclass(type(each), torch_optimizer.Optimizer)]
    return weakref.WeakSet(each for each in alive if taken and is_apart(each, taken))


def is_apart(optimizer, taken):
    own = parameters(optimizer)
    return any(each.requires_grad for each in own) and taken.isdisjoint(map(id, own))
