"""Which tensors are parameters, gradients and optimizer state, in any framework that steps a
torch.optim.Optimizer. Two views, because frameworks free gradients as they step."""

import gc

import torch

from planwright_observer import deepspeed_parts
from planwright_observer.tensors import Storages, within


class Owners:
    """What is alive in the process and owns tensors. The scan of Python's objects takes about 0.1 s
    per million."""

    def __init__(self):
        alive = gc.get_objects()
        kinds = {type(each) for each in alive}  # never isinstance: a proxy's __class__ may load something
        self.modules = of_kinds(alive, {kind for kind in kinds if issubclass(kind, torch.nn.Module)})
        self.wrappers = of_kinds(alive, {kind for kind in kinds if deepspeed_parts.is_wrapper(kind)})

    def parameters(self):
        return [each for module in self.modules for each in slots(module, "_parameters")]

    def buffers(self):
        return [each for module in self.modules for each in slots(module, "_buffers")]


def of_kinds(alive, kinds):
    return [each for each in alive if type(each) in kinds]


def slots(module, name):
    """Its own, less those of a lazy module that have no memory yet."""
    own = module.__dict__.get(name, {}).values()
    return [each for each in own if each is not None and not torch.nn.parameter.is_lazy(each)]


def stepped(owners, optimizers):
    own = [each for optimizer in optimizers for group in optimizer.param_groups for each in group["params"]]
    return own + list(deepspeed_parts.masters(owners.wrappers))


def divided(owners, optimizers):
    """(parameters, masters). A master is what is stepped and no module holds: a copy in higher
    precision. Not so a DTensor: while FSDP2 has a module unsharded, the module holds another. Where
    there are no modules, what is stepped are the parameters."""
    parameters = owners.parameters()
    held = {id(each) for each in parameters}
    others = [each for each in stepped(owners, optimizers) if id(each) not in held]
    masters = [each for each in others if parameters and not hasattr(each, "device_mesh")]
    copied = {id(each) for each in masters}
    return parameters + [each for each in others if id(each) not in copied], masters


def gradients(owners, optimizers):
    """Before a step. Those of FSDP and DDP are in `.grad`; DDP's buckets, unless `.grad` is a view of
    them, are its own and not told."""
    parameters, masters = divided(owners, optimizers)
    storages = Storages()
    with torch.no_grad():
        storages.bytes_of(local(parameters + masters))  # where a gradient is a view of these, it is theirs
        own = [each.grad for each in parameters + masters if each.grad is not None]
        own += deepspeed_parts.gradients(owners.wrappers, parameters)
        return {
            "gradients": storages.bytes_of(own),
            "communication": storages.bytes_of(deepspeed_parts.buckets(owners.wrappers)),
        }


def held(owners, optimizers):
    """After a step."""
    parameters, masters = divided(owners, optimizers)
    states = [each for optimizer in optimizers for state in optimizer.state.values() for each in within(state)]
    storages = Storages()
    with torch.no_grad():
        return {
            "parameters": storages.bytes_of(local(parameters)),
            "buffers": storages.bytes_of(owners.buffers()),
            "optimizer": storages.bytes_of(masters + states),
        }


def local(parameters):
    for each in parameters:
        yield each
        yield from deepspeed_parts.partitions(each)


def mesh(optimizers):
    """Names and sizes of the device mesh that the parameters are laid out on, if they are."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for each in group["params"]:
                if hasattr(each, "device_mesh"):
                    return {"names": each.device_mesh.mesh_dim_names, "shape": list(each.device_mesh.shape)}
    return None
