"""Trains the model of model.py as users do, knowing nothing of the observer.

    torchrun train.py ddp|fsdp2|fsdp2-mixed|zero0|zero1|zero1-fp32|zero2|zero3 STEPS MICRO_BATCHES
"""

import sys

import model as the_model
import torch
import torch.distributed as dist

DEEPSPEED = {
    "train_micro_batch_size_per_gpu": 4,
    "bf16": {"enabled": True},
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "zero_allow_untested_optimizer": True,
}


def eager(model, optimizer, steps, micro_batches):
    for _ in range(steps):
        for _ in range(micro_batches):
            ids = the_model.batch()
            (the_model.loss_of(model(ids), ids) / micro_batches).backward()
        optimizer.step()
        optimizer.zero_grad()


def ddp(steps, micro_batches):
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(the_model.build())
    eager(model, torch.optim.AdamW(model.parameters()), steps, micro_batches)


def fsdp2(steps, micro_batches, mixed=False):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if mixed else MixedPrecisionPolicy()
    model = the_model.build()
    for layer in model:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    eager(model, torch.optim.AdamW(model.parameters()), steps, micro_batches)


def zero(stage, steps, micro_batches, more=()):
    import deepspeed

    deepspeed.init_distributed(dist_backend="gloo")
    buckets = {"reduce_bucket_size": 200000, "allgather_bucket_size": 200000}
    if stage == 3:
        buckets = {"reduce_bucket_size": 200000, "stage3_param_persistence_threshold": 1000}
    config = {**DEEPSPEED, "gradient_accumulation_steps": micro_batches, "zero_optimization": {"stage": stage, **buckets},
              **dict(more)}
    model = the_model.build()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    for _ in range(steps * micro_batches):
        ids = the_model.batch()
        engine.backward(the_model.loss_of(engine(ids), ids))
        engine.step()


def main(strategy, steps, micro_batches):
    torch.manual_seed(7)
    count = int(steps), int(micro_batches)
    if strategy.startswith("zero"):
        accumulation = {"data_types": {"grad_accum_dtype": "fp32"}} if strategy.endswith("fp32") else {}
        zero(int(strategy[4]), *count, accumulation)
    elif strategy.startswith("fsdp2"):
        fsdp2(*count, mixed=strategy.endswith("mixed"))
    else:
        ddp(*count)


if __name__ == "__main__":
    main(*sys.argv[1:])
