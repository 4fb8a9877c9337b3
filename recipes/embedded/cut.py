"""Cut an encoder down: some of its layers, some of its pieces, fewer positions, and a new language modelling head.

python cut.py MODEL VOCABULARY LAYERS POSITIONS OUT    (LAYERS such as 0,2,5)
"""

import json
import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM

from acclimate.models.encoder import load_masked_language_model, load_tokenizer, save_model


def cut(model: str, vocabulary: Path, layers: list[int], positions: int) -> BertForMaskedLM:
    """The head's transform starts as the identity, as near as it can: its matrix is one, so that its first guess is the
    token whose embedding is nearest.
    """
    whole = load_masked_language_model(model)
    kept = torch.tensor(json.loads((vocabulary / "kept.json").read_text()))
    config = BertConfig.from_pretrained(model)
    config.num_hidden_layers, config.vocab_size, config.max_position_embeddings = len(layers), len(kept), positions
    config.architectures = ["BertForMaskedLM"]
    torch.manual_seed(0)
    small = BertForMaskedLM(config)
    theirs, own = whole.state_dict(), small.state_dict()
    for name in own:
        if name.startswith("cls."):
            continue
        source = name
        if ".layer." in name:
            head, tail = name.split(".layer.")
            number, rest = tail.split(".", 1)
            source = f"{head}.layer.{layers[int(number)]}.{rest}"
        value = theirs[source]
        if "word_embeddings" in name:
            value = value[kept]
        own[name] = value[:positions] if "position_embeddings" in name else value
    own["cls.predictions.transform.dense.weight"] = torch.eye(config.hidden_size)
    own["cls.predictions.decoder.weight"] = own["bert.embeddings.word_embeddings.weight"]
    small.load_state_dict(own)
    return small.eval()


if __name__ == "__main__":
    model, vocabulary, layers, positions, out = sys.argv[1:]
    made = cut(model, Path(vocabulary), [int(layer) for layer in layers.split(",")], int(positions))
    Path(out).mkdir(parents=True, exist_ok=True)
    save_model(made, load_tokenizer(vocabulary), out)
    print(f"{sum(parameter.numel() for parameter in made.parameters()):,} parameters")
