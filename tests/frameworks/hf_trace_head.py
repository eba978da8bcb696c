"""The traces of heads in tests/data/hf_traces: hf_trace_head.py full|lora. A model without blocks,
whose embedding hands over a tensor that is there."""
import sys

import transformers.models.llama.modeling_llama as modeling

from hf_tracer import Tracer, torch

BATCH, SEQ, HIDDEN = 2, 384, 256

modeling.LlamaRotaryEmbedding.forward = lambda *args, **kwargs: (None, None)
modeling.create_causal_mask = lambda *args, **kwargs: None
modeling.LlamaModel._update_causal_mask = lambda *args, **kwargs: None


class Embedded(torch.nn.Module):
    def __init__(self, made):
        super().__init__()
        self.made = made

    def forward(self, ids):
        return self.made.pop()


with torch.device("meta"):
    torch.set_default_dtype(torch.bfloat16)
    config = modeling.LlamaConfig(
        hidden_size=HIDDEN, intermediate_size=512, num_hidden_layers=0, num_attention_heads=4,
        num_key_value_heads=4, vocab_size=8000, attn_implementation="sdpa")
    model = modeling.LlamaForCausalLM(config).train()
    model.requires_grad_(sys.argv[1] == "full")
    made = [torch.empty(BATCH, SEQ, HIDDEN, requires_grad=True) * 1]
    model.model.embed_tokens = Embedded(made)
    ids = torch.zeros(BATCH, SEQ, dtype=torch.long)
    positions = torch.zeros(1, SEQ, dtype=torch.long)
    tracer = Tracer()
    tracer.known(list(model.parameters()) + list(model.buffers()) + [ids, positions], "constant")
    tracer.known(made, "x")
    with tracer:
        losses = [model(input_ids=ids, labels=ids, use_cache=False, position_ids=positions).loss]
        backward_at = len(tracer.events)
        losses.pop().backward()
    tracer.report(backward_at)
