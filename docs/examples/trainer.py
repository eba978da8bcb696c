"""Trains a causal language model on random tokens with the Hugging Face Trainer.

    torchrun --nproc-per-node=2 trainer.py --config CONFIG.json --seq 512 [TrainingArguments ...]
"""

import sys
import tempfile
from dataclasses import dataclass

import torch
from transformers import AutoConfig, AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments, set_seed

# A folder that is there already, and nothing in it: a run leaves nothing behind unless told to.
DEFAULTS = ["--output_dir", tempfile.gettempdir(), "--save_strategy", "no"]


@dataclass
class Options:
    config: str
    seq: int = 512
    dtype: str = "float32"  # of the weights


class RandomTokens(torch.utils.data.Dataset):
    def __init__(self, vocabulary, seq):
        self.vocabulary, self.seq = vocabulary, seq

    def __len__(self):
        return 10_000

    def __getitem__(self, index):
        ids = torch.randint(self.vocabulary, (self.seq,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


def main():
    parser = HfArgumentParser((Options, TrainingArguments))
    options, arguments = parser.parse_args_into_dataclasses([*DEFAULTS, *sys.argv[1:]])
    if arguments.deepspeed:
        import deepspeed

        deepspeed.init_distributed()  # the Trainer does so on GPUs alone, and ZeRO 3 needs it to make a model
    set_seed(arguments.seed)
    config = AutoConfig.from_pretrained(options.config)
    model = AutoModelForCausalLM.from_config(config, dtype=getattr(torch, options.dtype))
    Trainer(model, arguments, train_dataset=RandomTokens(config.vocab_size, options.seq)).train()


if __name__ == "__main__":
    main()
