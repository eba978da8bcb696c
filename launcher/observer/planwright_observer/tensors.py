"""The memory behind tensors: of whatever kind, each piece once."""

import collections

import torch


def parts(tensor):
    """The plain tensors that this rank holds of it: the local part of a DTensor or ShardedTensor, what
    a wrapper subclass wraps, indices and values of a sparse one."""
    if hasattr(tensor, "local_shards"):
        for shard in tensor.local_shards():
            yield from parts(shard.tensor)
    elif hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from parts(getattr(tensor, name))
    elif tensor.is_sparse:
        yield from (tensor._indices(), tensor._values())
    else:
        yield tensor


def within(value):
    """The tensors of nested dictionaries, lists and tuples."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from within(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from within(each)


class Storages:
    """Counts storages by kind of device. One that was counted before is not counted again, so that
    what shares memory belongs to the account that is asked first."""

    def __init__(self):
        self._seen = set()

    def bytes_of(self, tensors):
        total = collections.Counter()
        for tensor in tensors:
            for part in parts(tensor):
                self._add(part, total)
        return dict(total)

    def _add(self, tensor, total):
        if tensor.is_meta or tensor.layout != torch.strided:
            return
        storage = tensor.untyped_storage()
        if storage.device.type == "meta":  # a FakeTensor's
            return
        place = (storage.device, storage.data_ptr())
        if place[1] and place not in self._seen:
            self._seen.add(place)
            total[storage.device.type] += storage.nbytes()
