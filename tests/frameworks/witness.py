"""Trains the model of witness_shape.py with a real framework as its users do, knowing nothing of the
observer.

    witness.py FRAMEWORK ZERO PRECISION RECOMPUTE MICRO_BATCHES STEPS pretrain|lora
"""

import collections
import contextlib
import sys
import tempfile

import torch
import torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM
from witness_shape import BUCKET, CONFIG, LORA_RANK, MICRO_BATCH, SEQ

Run = collections.namedtuple("Run", "zero precision recompute micro_batches steps lora")


def model_of(run):
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**CONFIG))
    if run.lora:
        from peft import LoraConfig, get_peft_model

        if run.precision == "bf16":
            model.to(torch.bfloat16)
        model = get_peft_model(model, LoraConfig(r=LORA_RANK, target_modules=["q_proj", "v_proj"], lora_dropout=0.0))
    return model


def batch():
    ids = torch.randint(CONFIG["vocab_size"], (MICRO_BATCH, SEQ))
    return {"input_ids": ids, "labels": ids}


def checkpointed(model, run):
    if run.recompute == "full":
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.config.use_cache = False
    return model


def autocast(run, wanted=True):
    narrow = wanted and run.precision == "bf16"
    return torch.autocast("cpu", torch.bfloat16) if narrow else contextlib.nullcontext()


def loop(model, run, autocasts):
    model.train()
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad])
    for _ in range(run.steps):
        for _ in range(run.micro_batches):
            with autocast(run, autocasts):
                loss = model(**batch(), use_cache=False).loss
            loss.backward()
            del loss
        optimizer.step()
        optimizer.zero_grad()


def ddp(run):
    """One rank has no DistributedDataParallel."""
    dist.init_process_group("gloo")
    model = checkpointed(model_of(run), run)
    if dist.get_world_size() > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    loop(model, run, True)


def fsdp2(run):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    dist.init_process_group("gloo")
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    narrow = run.precision == "bf16"
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if narrow else MixedPrecisionPolicy()
    model = checkpointed(model_of(run), run)
    how = {"mesh": mesh, "mp_policy": policy, "reshard_after_forward": run.zero == 3}
    fully_shard(model.model.embed_tokens, **how)
    for layer in model.model.layers:
        fully_shard(layer, **how)
    fully_shard([model.model.norm, model.lm_head], **how)
    fully_shard(model, **how)
    loop(model, run, False)


def fsdp1(run, ahead=False):
    """Wrapped as Accelerate does it: blocks, and all else outside."""
    import functools

    from torch.distributed.fsdp import BackwardPrefetch, FullyShardedDataParallel, MixedPrecision, ShardingStrategy
    from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer

    dist.init_process_group("gloo")
    narrow = run.precision == "bf16"
    model = FullyShardedDataParallel(
        checkpointed(model_of(run), run), device_id=torch.device("cpu"), use_orig_params=True,
        backward_prefetch=BackwardPrefetch.BACKWARD_PRE if ahead else None,
        sharding_strategy=ShardingStrategy.FULL_SHARD if run.zero == 3 else ShardingStrategy.SHARD_GRAD_OP,
        mixed_precision=MixedPrecision(torch.bfloat16, torch.float32, torch.float32) if narrow else None,
        auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer}))
    loop(model, run, False)


def fsdp1_ahead(run):
    fsdp1(run, ahead=True)


def deepspeed_config(run):
    buckets = {"reduce_bucket_size": BUCKET, "allgather_bucket_size": BUCKET} if run.zero < 3 else {
        "reduce_bucket_size": BUCKET, "stage3_param_persistence_threshold": 100000}
    return {"train_micro_batch_size_per_gpu": MICRO_BATCH, "gradient_accumulation_steps": run.micro_batches,
            "bf16": {"enabled": run.precision == "bf16"}, "gradient_clipping": 1.0,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
            "zero_allow_untested_optimizer": True, "zero_optimization": {"stage": run.zero, **buckets}}


def deepspeed(run):
    import deepspeed as framework

    framework.init_distributed(dist_backend="gloo")
    model = checkpointed(model_of(run), run)
    trained = [each for each in model.parameters() if each.requires_grad]
    engine, *_ = framework.initialize(model=model, model_parameters=trained, config=deepspeed_config(run))
    for _ in range(run.steps * run.micro_batches):
        loss = engine(**batch(), use_cache=False).loss
        engine.backward(loss)
        del loss
        engine.step()


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, index):
        ids = torch.randint(CONFIG["vocab_size"], (SEQ,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


def trainer(run, more=()):
    from transformers import Trainer, TrainingArguments

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, per_device_train_batch_size=MICRO_BATCH, gradient_accumulation_steps=run.micro_batches,
            max_steps=run.steps, bf16=run.precision == "bf16", gradient_checkpointing=run.recompute == "full", use_cpu=True,
            ddp_backend="gloo", save_strategy="no", report_to=[], logging_steps=1000, **dict(more))
        Trainer(model_of(run), arguments, train_dataset=Tokens()).train()


def trainer_deepspeed(run):
    config = deepspeed_config(run)
    config["zero_optimization"] = {"stage": run.zero}
    config["optimizer"]["params"]["lr"] = "auto"
    trainer(run, {"deepspeed": config})


def main(framework, zero, precision, recompute, micro_batches, steps, job):
    run = Run(int(zero), precision, recompute, int(micro_batches), int(steps), job == "lora")
    globals()[framework](run)


if __name__ == "__main__":
    main(*sys.argv[1:])
