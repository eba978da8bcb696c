"""Trains a causal language model on random tokens with DeepSpeed.

    torchrun --nproc-per-node=2 deepspeed_train.py --config CONFIG.json --seq 512 --deepspeed --deepspeed_config DS.json
"""

import argparse

import deepspeed
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True, help="a Hugging Face config.json")
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--checkpoint", action="store_true", help="compute each layer's activations again in backward")
    return deepspeed.add_config_arguments(parser).parse_args()


def make_engine(options):
    deepspeed.init_distributed()
    under_zero_3 = HfDeepSpeedConfig(options.deepspeed_config)  # while it lives, models are made in parts
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(options.config))
    if options.checkpoint:
        model.gradient_checkpointing_enable()
    return deepspeed.initialize(args=options, model=model, model_parameters=model.parameters())[0]


def main():
    options = parse()
    engine = make_engine(options)
    shape = engine.train_micro_batch_size_per_gpu(), options.seq
    torch.manual_seed(engine.global_rank)
    for _ in range(options.steps * engine.gradient_accumulation_steps()):
        ids = torch.randint(engine.module.config.vocab_size, shape, device=engine.device)
        loss = engine(input_ids=ids, labels=ids, use_cache=False).loss
        engine.backward(loss)
        engine.step()


if __name__ == "__main__":
    main()
