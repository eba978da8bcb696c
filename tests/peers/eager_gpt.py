"""The built-in runtime's training step as one writes it in PyTorch eager.

    python eager_gpt.py REQUEST.json 0

Stands in for the worker on one rank: takes its request (probes/protocol/probe_request.h), trains the
same weights on the same tokens in the same types, and writes a report of losses and seconds per step
(probe_report.h). Modules, autograd, F.scaled_dot_product_attention, fused AdamW.

Tokens are made before the clock starts; the worker makes its own within the step.
"""

import json
import os
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {"fp64": torch.float64, "fp32": torch.float32, "bf16": torch.bfloat16}
ADAMW = {"lr": 1e-3, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}  # optimizer.h
DEVIATION = 0.02  # model_state.cpp
# Seconds that pass, or those that this process takes of the CPUs.
CLOCK = time.process_time if os.environ.get("PEER_CLOCK") == "cpu" else time.perf_counter


def signed(x):
    """The 64 bits of x as torch keeps them."""
    x %= 1 << 64
    return x - (1 << 64) if x >> 63 else x


def shifted(x, bits):
    """x >> bits, filled with zeros."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def counter_hash(stream, index):
    """tokens.h, for each element of `index`."""
    x = signed(stream) + (index + 1) * signed(0x9E3779B97F4A7C15)
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


def hash_one(stream, index):
    return counter_hash(stream, torch.tensor([signed(index)])).item()


def tokens(seed, sample, count, vocab):
    hashes = counter_hash(hash_one(seed, sample), torch.arange(count))
    return [each % (1 << 64) % vocab for each in hashes.tolist()]


def stream_of(seed, name):
    fnv = 0xCBF29CE484222325
    for byte in name.encode():
        fnv = (fnv ^ byte) * 0x100000001B3 % (1 << 64)
    return hash_one(seed, fnv)


@torch.no_grad()
def initialize(model, seed):
    for name, weight in model.named_parameters():
        if name.endswith(".bias"):
            weight.zero_()
        elif weight.dim() == 1:
            weight.fill_(1)
        else:
            bits = shifted(counter_hash(stream_of(seed, name), torch.arange(weight.numel())), 11)
            uniform = bits.double() * 2.0**-53 - 0.5
            weight.copy_((uniform * (12**0.5 * DEVIATION)).view(weight.shape))


def norm(model, block):
    kind = nn.LayerNorm if block["norm"] == "layer_norm" else nn.RMSNorm
    return kind(model["hidden"], eps=model["norm_eps"])


class Rotary:
    def __init__(self, model, seq, dtype):
        dim = model["runs"][0]["block"]["head_dim"]
        frequency = model["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angle = torch.outer(torch.arange(seq, dtype=torch.float64), frequency).repeat(1, 2)
        self.cos, self.sin = angle.cos().to(dtype), angle.sin().to(dtype)

    def __call__(self, x):
        low, high = x.chunk(2, dim=-1)
        return x * self.cos + torch.cat((-high, low), dim=-1) * self.sin


class Block(nn.Module):
    def __init__(self, model, block):
        super().__init__()
        hidden, dim = model["hidden"], block["head_dim"]
        self.heads = [block["heads"], block["kv_heads"], block["kv_heads"]]
        self.gated = block["mlp"] == "gated"
        self.activation = block["activation"]
        self.norm1 = norm(model, block)
        self.qkv = nn.Linear(hidden, sum(self.heads) * dim, bias=block["qkv_bias"])
        self.out = nn.Linear(block["heads"] * dim, hidden, bias=block["out_bias"])
        self.norm2 = norm(model, block)
        up = nn.Linear(hidden, (2 if self.gated else 1) * block["ffn"], bias=block["mlp_bias"])
        self.add_module("gate_up" if self.gated else "up", up)
        self.down = nn.Linear(block["ffn"], hidden, bias=block["mlp_bias"])

    def attention(self, x, rotary):
        batch, seq, _ = x.shape
        heads = self.qkv(x).view(batch, seq, sum(self.heads), -1).transpose(1, 2)
        q, k, v = heads.split(self.heads, dim=1)
        if rotary:
            q, k = rotary(q), rotary(k)
        grouped = self.heads[0] != self.heads[1]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.out(y.transpose(1, 2).reshape(batch, seq, -1))

    def activate(self, x):
        return F.silu(x) if self.activation == "silu" else F.gelu(x, approximate="tanh")

    def mlp(self, x):
        if not self.gated:
            return self.down(self.activate(self.up(x)))
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(self.activate(gate) * up)

    def forward(self, x, rotary):
        x = x + self.attention(self.norm1(x), rotary)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, model, seq, dtype):
        super().__init__()
        hidden, vocab = model["hidden"], model["vocab"]
        blocks = [run["block"] for run in model["runs"] for _ in range(run["count"])]
        self.embedding = nn.Parameter(torch.empty(vocab, hidden))
        self.rotary = self.positions = None
        if model["positions"] == "learned":
            self.positions = nn.Parameter(torch.empty(model["max_positions"], hidden))
        else:
            self.rotary = Rotary(model, seq, dtype)
        self.blocks = nn.ModuleList(Block(model, block) for block in blocks)
        self.final_norm = norm(model, blocks[-1])
        self.head = None if model["tied_embeddings"] else nn.Linear(hidden, vocab, bias=False)

    def forward(self, ids):
        x = F.embedding(ids, self.embedding)
        if self.positions is not None:
            x = x + self.positions[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.rotary)
        return F.linear(self.final_norm(x), self.embedding if self.head is None else self.head.weight)


class Training:
    """Weights, gradients that stay where they are, and optimizer, in the recipe's types."""

    def __init__(self, job):
        self.work = work = job["problem"]["workload"]
        self.micro_batch = job["candidate"]["micro_batch"]
        self.vocab = job["problem"]["model"]["vocab"]
        self.seed = job["seed"]
        recipe = work["recipe"]
        storage, gradient = DTYPES[recipe["storage"]], DTYPES[recipe["gradient"]]
        self.model = Transformer(job["problem"]["model"], work["seq"], storage).to(storage)
        initialize(self.model, self.seed)
        self.weights = list(self.model.parameters())
        self.masters = self.weights
        if recipe["master"]:
            master = DTYPES[recipe["master"]]
            self.masters = [nn.Parameter(w.detach().to(master)) for w in self.weights]
        for weight, updated in zip(self.weights, self.masters):
            updated.grad = torch.zeros_like(weight, dtype=gradient)
            if updated is not weight:
                weight.register_post_accumulate_grad_hook(add_to(updated.grad))
        self.optimizer = torch.optim.AdamW(self.masters, fused=True, **ADAMW)

    def batches(self, step):
        """(ids, targets) of each micro-batch."""
        seq, first = self.work["seq"], step * self.work["global_batch"]
        rows = [tokens(self.seed, first + i, seq + 1, self.vocab) for i in range(self.work["global_batch"])]
        return [(part[:, :-1], part[:, 1:]) for part in torch.tensor(rows).split(self.micro_batch)]

    def step(self, batches):
        self.optimizer.zero_grad(set_to_none=False)
        scale = 1 / (self.work["global_batch"] * self.work["seq"])
        total = 0.0
        for ids, targets in batches:
            logits = self.model(ids).flatten(0, 1)
            if logits.dtype == torch.bfloat16:
                logits = logits.float()
            loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") * scale
            loss.backward()
            total += loss.item()
        self.optimizer.step()
        if self.masters is not self.weights:
            with torch.no_grad():
                torch._foreach_copy_(self.weights, self.masters)
        return total


def add_to(gradient):
    """A hook: a weight's narrow gradient is added to the wide one as soon as it is made."""

    def hook(weight):
        gradient.add_(weight.grad)
        weight.grad = None

    return hook


def run(job, alive):
    training, scope = Training(job), job["scope"]
    losses, steps_s = [], []
    for number in range(scope["warmup"] + scope["steps"]):
        alive(number)
        batches = training.batches(number)
        begin = CLOCK()
        losses.append(training.step(batches))
        if number >= scope["warmup"]:
            steps_s.append(CLOCK() - begin)
    return {"end": "ok", "losses": losses, "measurement": {"steps_s": steps_s}}


def main(request_path, rank):
    with open(request_path) as file:
        request = json.load(file)
    torch.set_num_threads(request["threads"])
    alive = lambda number: os.write(3, f"step {number}\n".encode())  # kProgressDescriptor
    report = {"rank": int(rank), "jobs": [run(job, alive) for job in request["train"]]}
    with open(f"{request['report_prefix']}.{rank}.json", "w") as file:
        json.dump(report, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
