"""The model that trainer.py trains, as numbers."""

CONFIG = {"vocab_size": 211, "hidden_size": 48, "intermediate_size": 101, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": False}
MICRO_BATCHES = 2


def count():
    """Its parameters and their tensors: embedding, head and last norm; q, k, v, o, gate, up, down and
    two norms in each layer."""
    hidden, ffn = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    kv = hidden * CONFIG["num_key_value_heads"] // CONFIG["num_attention_heads"]
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * ffn + 2 * hidden
    layers = CONFIG["num_hidden_layers"]
    return 2 * CONFIG["vocab_size"] * hidden + hidden + layers * layer, 3 + 9 * layers
