"""Trains a causal language model on random tokens as the settings of target fsdp say.

    torchrun --nproc-per-node=2 fsdp_settings.py --settings fsdp_settings.json --config CONFIG.json
"""

import argparse
import json
from contextlib import nullcontext

import torch
from torch.autograd.graph import save_on_cpu
from torch.distributed import destroy_process_group, get_rank, init_device_mesh, init_process_group
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from transformers import AutoConfig, AutoModelForCausalLM

OPTIMIZERS = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
KERNELS = {"flash": "sdpa", "eager": "eager"}


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", required=True, help="what planwright wrote")
    parser.add_argument("--config", required=True, help="a Hugging Face config.json")
    parser.add_argument("--steps", type=int, default=100)
    return parser.parse_args()


def checkpointed(block, offloads):
    plain = block.forward

    def forward(*args, **named):
        with save_on_cpu(pin_memory=True) if offloads else nullcontext():
            return checkpoint(plain, *args, use_reentrant=False, **named)

    block.forward = forward


def make_model(settings, config):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(config), dtype=settings["dtypes"][0],
                                             attn_implementation=KERNELS[settings["attention"]])
    for index in settings["checkpoint_blocks"]:
        checkpointed(model.model.layers[index], settings["offload_checkpoints"])
    return model


def wrapped(model, settings, device):
    if settings["wrap"] == "ddp":
        return DistributedDataParallel(model.to(device))
    sizes = settings["mesh"]
    replicas, shards = sizes["dp_replicate"], sizes["dp_shard"]
    mesh = (init_device_mesh(device, (replicas, shards), mesh_dim_names=("dp_replicate", "dp_shard"))
            if replicas > 1 else init_device_mesh(device, (shards,)))
    _, compute, reduced = settings["dtypes"]
    options = {
        "mesh": mesh,
        "reshard_after_forward": settings["reshard_after_forward"],
        "mp_policy": MixedPrecisionPolicy(param_dtype=compute, reduce_dtype=reduced),
        "offload_policy": CPUOffloadPolicy() if settings["cpu_offload"] else OffloadPolicy(),
    }
    units = [model.model.embed_tokens, *model.model.layers, [model.model.norm, model.lm_head]]
    for unit in (*units, model):
        fully_shard(unit, **options)
    return model


def read(path):
    with open(path) as file:
        settings = json.load(file)
    if settings["loss"] != "plain":
        raise SystemExit(f"loss {settings['loss']} is not in this script")
    names = ("storage_dtype", "param_dtype", "reduce_dtype")
    settings["dtypes"] = [getattr(torch, settings[name]) for name in names]
    return settings


def main():
    options = parse()
    settings = read(options.settings)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    init_process_group("nccl" if device == "cuda" else "gloo")
    if device == "cuda":
        torch.cuda.set_device(get_rank() % torch.cuda.device_count())
    model = wrapped(make_model(settings, options.config), settings, device)
    optimizer = OPTIMIZERS[settings["optimizer"]](model.parameters())
    storage, compute, _ = settings["dtypes"]
    autocast = torch.autocast(device, compute, enabled=settings["wrap"] == "ddp" and compute != storage)

    torch.manual_seed(get_rank())
    accumulation = settings["gradient_accumulation_steps"]
    shape = settings["micro_batch_size"], settings["sequence_length"]
    vocabulary = AutoConfig.from_pretrained(options.config).vocab_size
    for step in range(settings.get("max_steps", options.steps)):
        for _ in range(accumulation):  # each backward reduces, as the estimate has it
            ids = torch.randint(vocabulary, shape, device=device)
            with autocast:
                loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            (loss / accumulation).backward()
        optimizer.step()
        optimizer.zero_grad()
        if get_rank() == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    destroy_process_group()


if __name__ == "__main__":
    main()
