"""Cut an encoder down: some of its layers, some of its pieces, fewer positions, and a new language modelling head.

python cut.py MODEL VOCABULARY LAYERS POSITIONS OUT    (VOCABULARY: a tokenizer; LAYERS such as 0,2,5)
"""

import sys
from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM

from acclimate.models.encoder import load_masked_language_model, save_model
from acclimate.models.loading import load_tokenizer


def cut(model: str, vocabulary: str, layers: list[int], positions: int) -> BertForMaskedLM:
    """Return the model with these layers and the pieces of the vocabulary.

    layers: numbers of the layers that stay, from 0. Layers, embeddings and norms are copied. The matrix of the language
    modelling head's transform starts as the identity, so its first guess is the token whose embedding is nearest.
    """
    whole = load_masked_language_model(model)
    pieces = load_tokenizer(vocabulary).get_vocab()
    kept = torch.tensor(load_tokenizer(model).convert_tokens_to_ids(sorted(pieces, key=pieces.__getitem__)))
    config = BertConfig.from_pretrained(model)
    config.num_hidden_layers, config.vocab_size, config.max_position_embeddings = len(layers), len(kept), positions
    config.architectures = ["BertForMaskedLM"]
    torch.manual_seed(0)
    small = BertForMaskedLM(config)
    source_weights, weights = whole.state_dict(), small.state_dict()
    for name in weights:
        if name.startswith("cls."):
            continue
        source = name
        if ".layer." in name:
            head, tail = name.split(".layer.")
            number, rest = tail.split(".", 1)
            source = f"{head}.layer.{layers[int(number)]}.{rest}"
        value = source_weights[source]
        if "word_embeddings" in name:
            value = value[kept]
        weights[name] = value[:positions] if "position_embeddings" in name else value
    weights["cls.predictions.transform.dense.weight"] = torch.eye(config.hidden_size)
    weights["cls.predictions.decoder.weight"] = weights["bert.embeddings.word_embeddings.weight"]
    small.load_state_dict(weights)
    return small.eval()


if __name__ == "__main__":
    model, vocabulary, layers, positions, out = sys.argv[1:]
    made = cut(model, vocabulary, [int(layer) for layer in layers.split(",")], int(positions))
    Path(out).mkdir(parents=True, exist_ok=True)
    save_model(made, load_tokenizer(vocabulary), out)
    print(f"{sum(parameter.numel() for parameter in made.parameters()):,} parameters")
