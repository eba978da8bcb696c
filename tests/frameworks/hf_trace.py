"""The traces of blocks in tests/data/hf_traces: hf_trace.py llama|llama_lora|llama_lora_drop, or
gpt2 [sdpa|eager]."""
import sys

from hf_tracer import Tracer, torch

BATCH, SEQ, HIDDEN = 2, 384, 1024


def report(layer, call, constants):
    made = [torch.empty(BATCH, SEQ, HIDDEN, requires_grad=True) * 1]
    tracer = Tracer()
    tracer.known(list(layer.parameters()) + list(layer.buffers()) + constants, "constant")
    tracer.known(made, "x")

    def forward():
        x = made.pop()
        out = call(layer, x)
        return out[0] if isinstance(out, tuple) else out

    with tracer:
        y = forward()
        backward_at = len(tracer.events)
        gradient = [torch.empty_like(y)]
        y.backward(gradient.pop())
    tracer.report(backward_at)


def with_adapters(layer, dropout):
    from peft.tuners.lora import LoraConfig, LoraModel

    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer
            self.config = {"model_type": "custom"}

    wrapper = Wrapper()
    targets = ["q_proj", "k_proj", "v_proj", "o_proj"]
    LoraModel(wrapper, LoraConfig(r=16, lora_alpha=16, lora_dropout=dropout,
                                  target_modules=targets), "default")
    for name, parameter in wrapper.layer.named_parameters():
        if "lora" in name:
            parameter.data = parameter.data.float()
    return wrapper.layer.train()


def llama(word):
    import transformers.models.llama.modeling_llama as modeling
    config = modeling.LlamaConfig(
        hidden_size=HIDDEN, intermediate_size=2816, num_hidden_layers=3, num_attention_heads=16,
        num_key_value_heads=4, vocab_size=32000, attn_implementation="sdpa")
    layer = modeling.LlamaDecoderLayer(config, 0).train()
    if "lora" in word:
        layer = with_adapters(layer, 0.1 if "drop" in word else 0.0)
    rotary = [torch.empty(1, SEQ, 64), torch.empty(1, SEQ, 64)]
    report(layer, lambda block, x: block(x, attention_mask=None,
                                         position_embeddings=tuple(rotary)), rotary)


def gpt2(attention):
    import transformers.models.gpt2.modeling_gpt2 as modeling
    config = modeling.GPT2Config(n_embd=HIDDEN, n_head=16, attn_implementation=attention)
    layer = modeling.GPT2Block(config, 0).train()
    mask = [torch.empty(1, 1, SEQ, SEQ)] if attention == "eager" else []
    report(layer, lambda block, x: block(x, attention_mask=mask[0] if mask else None), mask)


with torch.device("meta"):
    torch.set_default_dtype(torch.bfloat16)
    if sys.argv[1] == "gpt2":
        gpt2(sys.argv[2] if len(sys.argv) > 2 else "sdpa")
    else:
        llama(sys.argv[1])
