"""A small model whose every dimension is stated here, and whose sizes divide by nothing."""

VOCAB, HIDDEN, FFN, BLOCKS = 1009, 129, 515, 2


def shapes():
    """Of its parameters, in order: what arithmetic about it starts from."""
    block = [(HIDDEN,), (HIDDEN,), (FFN, HIDDEN), (FFN,), (HIDDEN, FFN), (HIDDEN,)]
    return [(VOCAB, HIDDEN)] + block * BLOCKS + [(VOCAB, HIDDEN)]


def build():
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(HIDDEN)
            self.up = nn.Linear(HIDDEN, FFN)
            self.down = nn.Linear(FFN, HIDDEN)

        def forward(self, x):
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    blocks = [Block() for _ in range(BLOCKS)]
    return nn.Sequential(nn.Embedding(VOCAB, HIDDEN), *blocks, nn.Linear(HIDDEN, VOCAB, bias=False))


def batch():
    import torch

    return torch.randint(VOCAB, (4, 32))


def loss_of(logits, ids):
    from torch.nn import functional

    return functional.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())
