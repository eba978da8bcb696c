"""Counts backward passes, by one parameter that a gradient is accumulated into once in each."""


from planwright_observer import accounts


class MicroBatches:
    """Where no such parameter can be had, as FSDP2 has none in its optimizer, nothing is counted and
    nothing is told."""

    def __init__(self):
        self._count = 0
        self._handle = None

    def count_by(self, parameter):
        if self._handle is None and parameter is not None:
            self._handle = parameter.register_post_accumulate_grad_hook(self._one_more)

    def take(self):
        count, self._count = self._count, 0
        return count or None

    def _one_more(self, _):
        self._count += 1


def counting_parameter(owners, optimizers):
    """One that is trained, and stepped directly if there is any."""
    candidates = [each for each in owners.parameters() if each.requires_grad and each.is_leaf]
    own = {id(each) for each in accounts.stepped(owners, optimizers)}
    direct = [each for each in candidates if id(each) in own]
    return next(iter(direct + candidates), None)
