"""Whether training has led to numbers: an infinite or undefined loss is one of the parameters after the
next step. Gradients are not looked at, for a scaler leaves out steps with such."""

import weakref

import torch

from planwright_observer.tensors import parts


def parameters(optimizer):
    return [each for group in optimizer.param_groups for each in group["params"]]


def is_finite(parameter):
    """By its least and its greatest element, which takes no memory to speak of."""
    return all(is_finite_part(each) for each in parts(parameter.detach()))


def is_finite_part(tensor):
    if tensor.is_meta or tensor.layout != torch.strided or not tensor.is_floating_point() or not tensor.numel():
        return True
    ends = torch.stack(torch.aminmax(tensor))
    return bool(torch.isfinite(ends).all())


class Finiteness:
    """Of parameters that were finite before they were first stepped: a partition may end in elements that
    nobody has set."""

    def __init__(self):
        self._begun = set()
        self._finite = {}
        self._unknown = False

    def begins(self, key):
        return key not in self._begun

    def begin(self, key, optimizer):
        self._begun.add(key)
        for each in self._asked(lambda: [each for each in parameters(optimizer) if is_finite(each)]) or []:
            self._finite[id(each)] = weakref.ref(each)

    def lasts(self, optimizers):
        """None where it is not known."""
        judged = [each for optimizer in optimizers for each in parameters(optimizer) if self._was_finite(each)]
        finite = self._asked(lambda: all(is_finite(each) for each in judged))
        return None if self._unknown or not judged else finite

    def _was_finite(self, parameter):
        known = self._finite.get(id(parameter))
        return known is not None and known() is parameter

    def _asked(self, question):
        """A kind of number that has no order ends the asking, and not the observation."""
        try:
            with torch.no_grad():
                return None if self._unknown else question()
        except (RuntimeError, NotImplementedError, TypeError):
            self._unknown = True
            return None
