"""Storages that operators make and drop, on the meta device."""
import sys
import weakref

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode


class Tracer(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.live = {}
        self.events = []

    def known(self, tensors, name):
        """Storages that are there already; their release is an event, but for parameters."""
        for tensor in tensors:
            storage = tensor.untyped_storage()
            if name == "x":
                self.live[storage._cdata] = (name, storage.nbytes())
                weakref.finalize(storage, self.free, storage._cdata)
            else:
                self.live[storage._cdata] = (name, 0)

    def track(self, tensor, name):
        storage = tensor.untyped_storage()
        if storage._cdata in self.live:
            return
        self.live[storage._cdata] = (name, storage.nbytes())
        self.events.append(("+", storage.nbytes(), name))
        weakref.finalize(storage, self.free, storage._cdata)

    def free(self, key):
        name, size = self.live.pop(key, (None, 0))
        self.events.append(("-", size, name))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in torch.utils._pytree.tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.track(leaf, getattr(func, "__name__", str(func)))
        return out

    def report(self, backward_at):
        for i, (sign, size, name) in enumerate(self.events):
            if i == backward_at:
                print("---")
            if size:
                print(sign, size, name)


def flash(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    return torch.ops.aten._scaled_dot_product_flash_attention(
        q, k, v, dropout_p, True, scale=scale)[0]


def fused_dropout(x, p=0.5, training=True, inplace=False):
    return torch.native_dropout(x, p, training)[0] if p and training else x


F.scaled_dot_product_attention = flash  # as CUDA chooses them
F.dropout = fused_dropout
