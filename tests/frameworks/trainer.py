"""A user's Trainer script: a small model of a config, on generated tokens.

    trainer.py OUTPUT_FOLDER
"""

import sys

import torch
from trainer_shape import CONFIG, MICRO_BATCHES
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

SEQ = 16


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        ids = torch.randint(CONFIG["vocab_size"], (SEQ,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids}


def main(folder):
    arguments = TrainingArguments(
        folder, per_device_train_batch_size=2, gradient_accumulation_steps=MICRO_BATCHES, max_steps=200, use_cpu=True,
        ddp_backend="gloo", save_strategy="no", report_to=[], logging_steps=1, gradient_checkpointing=True)
    Trainer(LlamaForCausalLM(LlamaConfig(**CONFIG)), arguments, train_dataset=Tokens()).train()


if __name__ == "__main__":
    main(*sys.argv[1:])
