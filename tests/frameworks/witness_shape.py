"""The model that the witnesses train: its rows divide by no number of ranks. tests/launcher/witness_test.cpp
has it and what it is trained with, too."""

import json
import pathlib

MODEL = pathlib.Path(__file__).parent.parent / "data/witness_model/config.json"
CONFIG = json.loads(MODEL.read_text())
SEQ = 256
MICRO_BATCH = 4
LORA_RANK = 8
BUCKET = 50000000  # elements in which DeepSpeed reduces
