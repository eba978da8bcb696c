"""fsdp_settings.json: a model of as many blocks is sharded as the file says, by torch's own fully_shard over a
pretended world, and torch is asked what it has then. Also the example of how a script reads the file."""

import json
import os

from . import common, pretended

KEYS = {"schema", "wrap", "mesh", "reshard_after_forward", "cpu_offload", "storage_dtype", "param_dtype",
        "reduce_dtype", "checkpoint_blocks", "offload_checkpoints", "micro_batch_size",
        "gradient_accumulation_steps", "sequence_length", "optimizer", "attention", "loss", "max_steps"}


def check(path, options):
    import torch
    options.version = torch.__version__
    with open(path, encoding="utf-8") as handle:
        settings = json.load(handle)
    unknown = sorted(set(settings) - KEYS)
    if unknown:
        raise common.Rejected("nobody reads " + ", ".join(k + common.nearest(k, KEYS) for k in unknown))
    if not options.world:
        raise common.Rejected("the number of ranks is not in the file: say --world")
    pretended.world(options.world)
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "OFF"
    # One block more than the last that is checkpointed, and two at least.
    model = build(settings, max(settings["checkpoint_blocks"], default=1) + 2)
    recomputed = checkpoint(model, settings["checkpoint_blocks"])
    away = offload(model, settings["checkpoint_blocks"]) if settings["offload_checkpoints"] else 0
    found = shard(model, settings) if settings["wrap"] == "fully_shard" else replicate(model, settings)
    micro, accumulation = settings["micro_batch_size"], settings["gradient_accumulation_steps"]
    dp = found["dp_replicate"] * found["dp_shard"]
    storage = str(next(model.parameters()).dtype).removeprefix("torch.")
    return common.Report(dict(world=options.world, dp=dp, micro_batch=micro, grad_accum=accumulation,
                              global_batch=micro * accumulation * dp, storage=storage, recomputed_blocks=recomputed,
                              offloaded_blocks=away, **found))


def build(settings, blocks):
    import torch
    layers = [torch.nn.Linear(64, 64) for _ in range(blocks)]
    return torch.nn.Sequential(*layers).to(getattr(torch, settings["storage_dtype"]))


def checkpoint(model, blocks):
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapping
    for index in blocks:
        model[index] = wrapping.checkpoint_wrapper(model[index])
    return sum(isinstance(block, wrapping.CheckpointWrapper) for block in model)


def offload(model, blocks):
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as wrapping
    for index in blocks:
        model[index] = wrapping.offload_wrapper(model[index])
    return sum(isinstance(block, wrapping.OffloadWrapper) for block in model)


def mesh_of(settings):
    from torch.distributed.device_mesh import init_device_mesh
    sizes = settings["mesh"]
    return init_device_mesh("cpu", (sizes["dp_replicate"], sizes["dp_shard"]), mesh_dim_names=("replicate", "shard"))


def shard(model, settings):
    import torch
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
    mesh = mesh_of(settings)
    mesh = mesh if settings["mesh"]["dp_replicate"] > 1 else mesh["shard"]
    policy = MixedPrecisionPolicy(getattr(torch, settings["param_dtype"]), getattr(torch, settings["reduce_dtype"]))
    offload = CPUOffloadPolicy(pin_memory=False) if settings["cpu_offload"] else OffloadPolicy()
    given = dict(mesh=mesh, mp_policy=policy, offload_policy=offload,
                 reshard_after_forward=settings["reshard_after_forward"])
    for block in model:
        fully_shard(block, **given)
    fully_shard(model, **given)
    state = model[0]._get_fsdp_state()._fsdp_param_group
    sizes = state.mesh_info
    local = next(model.parameters()).to_local().numel()
    if local * sizes.shard_mesh_size != 64 * 64:
        raise common.Rejected(f"a rank holds {local} of {64 * 64} elements")
    return dict(dp_replicate=getattr(sizes, "replicate_mesh_size", 1), dp_shard=sizes.shard_mesh_size,
                zero=3 if state.post_forward_mesh_info is not None else 2,
                precision=str(state.mp_policy.param_dtype).removeprefix("torch."),
                offload=isinstance(state.offload_policy, CPUOffloadPolicy))


def replicate(model, settings):
    import torch
    mesh = mesh_of(settings)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, init_sync=False)
    return dict(dp_replicate=wrapped.process_group.size(), dp_shard=mesh["shard"].size(), zero=0,
                precision=settings["param_dtype"], offload=settings["cpu_offload"])
