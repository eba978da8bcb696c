"""Trains a small decoder on random tokens with torch's fully_shard.

    torchrun --nproc-per-node=2 fully_shard.py --micro-batch 2 --accumulate 4
"""

import argparse
import os

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

VOCABULARY = 1024


class Decoder(nn.Module):
    def __init__(self, layers, hidden, checkpointed):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, hidden)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(hidden, hidden // 32, 4 * hidden, dropout=0, batch_first=True, norm_first=True)
            for _ in range(layers))
        self.head = nn.Linear(hidden, VOCABULARY)
        self.checkpointed = checkpointed

    def forward(self, ids):
        x = self.embedding(ids)
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        for layer in self.layers:
            x = checkpoint(layer, x, mask, use_reentrant=False) if self.checkpointed else layer(x, mask)
        return self.head(x)


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--micro-batch", type=int, default=1)
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches per step")
    parser.add_argument("--no-reshard", action="store_true", help="keep layers whole from forward to backward")
    parser.add_argument("--checkpoint", action="store_true", help="compute each layer's activations again in backward")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=192)
    return parser.parse_args()


def main():
    options = parse()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mesh = init_device_mesh(device, (int(os.environ["WORLD_SIZE"]),))
    torch.set_default_device(device)
    torch.manual_seed(0)
    model = Decoder(options.layers, options.hidden, options.checkpoint)
    for each in (*model.layers, model):
        fully_shard(each, mesh=mesh, reshard_after_forward=not options.no_reshard)
    optimizer = torch.optim.AdamW(model.parameters())

    torch.manual_seed(mesh.get_rank())
    for step in range(options.steps):
        for _ in range(options.accumulate):
            ids = torch.randint(VOCABULARY, (options.micro_batch, options.seq + 1))
            logits = model(ids[:, :-1])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            (loss / options.accumulate).backward()
        optimizer.step()
        optimizer.zero_grad()
        if mesh.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    destroy_process_group()


if __name__ == "__main__":
    main()
