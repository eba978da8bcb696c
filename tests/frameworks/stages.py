"""Trains the model of witness_shape.py, out of torch's own modules as torchtitan's, in stages of
torch.distributed.pipelining on CPU ranks.

    stages.py SCHEDULE CHUNKS SHARDS MICRO_BATCHES STEPS
"""

import sys
import threading

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class
from witness_shape import CONFIG, MICRO_BATCH, SEQ

HIDDEN, HEADS, KV_HEADS = CONFIG["hidden_size"], CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
WIDTH = HIDDEN // HEADS


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def rotated(x, table):
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * table.view(1, x.shape[1], 1, -1)).flatten(3).type_as(x)


class Norm(nn.Module):
    """Keeps what an accelerator's kernel of RMSNorm keeps, which is several operators on a CPU."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return F.layer_norm(x, (HIDDEN,), self.weight)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.wq, self.wk = linear(HIDDEN, HIDDEN), linear(HIDDEN, KV_HEADS * WIDTH)
        self.wv, self.wo = linear(HIDDEN, KV_HEADS * WIDTH), linear(HIDDEN, HIDDEN)

    def forward(self, x, table):
        q, k, v = (each(x).view(*x.shape[:2], -1, WIDTH) for each in (self.wq, self.wk, self.wv))
        q, k = rotated(q, table), rotated(k, table)
        out = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)), is_causal=True, enable_gqa=True)
        return self.wo(out.transpose(1, 2).contiguous().view(*x.shape[:2], -1))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        width = CONFIG["intermediate_size"]
        self.w1, self.w2, self.w3 = linear(HIDDEN, width), linear(width, HIDDEN), linear(HIDDEN, width)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.feed_forward = Attention(), FeedForward()
        self.attention_norm, self.ffn_norm = Norm(), Norm()

    def forward(self, x, table):
        h = x + self.attention(self.attention_norm(x), table)
        return h + self.feed_forward(self.ffn_norm(h))


class Part(nn.Module):
    """Of all stages' chunks, the `number`-th of `count`."""

    def __init__(self, number, count):
        super().__init__()
        first, last = number == 0, number == count - 1
        self.tok_embeddings = nn.Embedding(CONFIG["vocab_size"], HIDDEN) if first else None
        self.layers = nn.ModuleList(Block() for _ in range(CONFIG["num_hidden_layers"] // count))
        self.norm = Norm() if last else None
        self.output = linear(HIDDEN, CONFIG["vocab_size"]) if last else None
        angles = torch.outer(torch.arange(SEQ), 1e-4 ** (torch.arange(0, WIDTH, 2) / WIDTH)).float()
        self.register_buffer("table", torch.polar(torch.ones_like(angles), angles), persistent=False)

    def forward(self, x):
        h = self.tok_embeddings(x) if self.tok_embeddings else x
        for layer in self.layers:
            h = layer(h, self.table)
        return self.output(self.norm(h)) if self.output else h


def sharded(part, mesh):
    how = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32), "reshard_after_forward": False}
    if part.tok_embeddings:
        fully_shard(part.tok_embeddings, **how)
    for layer in part.layers:
        fully_shard(layer, **how)
    if part.output:
        fully_shard([part.norm, part.output], **how)
    fully_shard(part, **how)
    return part


class Sent:
    """NCCL's watchdog lets go of what has been sent, gloo's work holds it as long as it is there."""

    def __init__(self, work):
        self.waiter = threading.Thread(target=work.wait)
        self.waiter.start()

    def wait(self):
        self.waiter.join()


def batch_p2p(operations, desc=None):
    works = dist.batch_isend_irecv(operations) if operations else []
    return [Sent(work) if each.op is dist.isend else work for each, work in zip(operations, works)]


def loss_of(logits, labels):
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(0, 1), reduction="sum")


def main(schedule, chunks, shards, micro_batches, steps):
    dist.init_process_group("gloo")
    schedules._batch_p2p = batch_p2p
    stages = dist.get_world_size() // shards
    mesh = dist.init_device_mesh("cpu", (stages, shards), mesh_dim_names=("pp", "dp"))
    rank, count = mesh["pp"].get_local_rank(), stages * chunks
    parts = [Part(rank + chunk * stages, count) for chunk in range(chunks)]
    if shards > 1:
        parts = [sharded(part, mesh["dp"]) for part in parts]
    cut = [PipelineStage(part, rank + chunk * stages, count, torch.device("cpu"), group=mesh["pp"].get_group())
           for chunk, part in enumerate(parts)]
    kind = get_schedule_class(schedule)
    looped = issubclass(kind, PipelineScheduleMulti)
    pipeline = kind(cut if looped else cut[0], n_microbatches=micro_batches, loss_fn=loss_of, scale_grads=False)
    optimizer = torch.optim.AdamW([each for part in parts for each in part.parameters()], fused=True)
    for _ in range(steps):
        ids = torch.randint(CONFIG["vocab_size"], (MICRO_BATCH * micro_batches, SEQ))
        losses = []
        given = (ids,) if rank == 0 else ()
        last = rank == stages - 1
        pipeline.step(*given, target=ids if last else None, losses=losses if last else None, return_outputs=False)
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
