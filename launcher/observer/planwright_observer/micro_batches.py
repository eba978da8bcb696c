"""Counts backward passes, by one parameter that a gradient is accumulated into once in each."""


from planwright_observer import accounts, deepspeed_parts


class MicroBatches:
    """Where no such parameter can be had nothing is counted and nothing is told. FSDP2 calls the hook
    where it has reduced a gradient."""

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
    """The first that is trained: DeepSpeed's wrappers know it, elsewhere it is the optimizer's own."""
    candidates = [*deepspeed_parts.trained(owners.wrappers), *accounts.stepped(owners, optimizers)]
    return next((each for each in candidates if each.requires_grad and each.is_leaf), None)
