"""A stand-in for the package sentence-transformers, which is not installed: it reads a model's files as that does.

`Sentences(directory).vectors(texts)` is `SentenceTransformer(directory).encode(texts)`, and `configuration` is what the
package reads beside the weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer

LENGTHS = [f"sentence_{family}_config.json" for family in ("bert", "roberta", "distilbert", "xlm-roberta", "mpnet")]
POOLED = {"cls": "cls_token", "mean": "mean_tokens", "max": "max_tokens"}  # new spelling -> old spelling


def read(path: Path) -> Any:
    return json.loads(path.read_text())


class Sentences:
    def __init__(self, directory: Path) -> None:
        self.modules = read(directory / "modules.json")
        kinds = [module["type"].rpartition(".")[2] for module in self.modules]
        assert kinds[0] == "Transformer"
        encoder = directory / self.modules[0]["path"]
        self.model = AutoModel.from_pretrained(encoder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(encoder)
        self.length = next((read(encoder / name) for name in LENGTHS if (encoder / name).exists()), {})
        settings = directory / "config_sentence_transformers.json"
        self.settings = read(settings) if settings.exists() else {}
        self.steps: list[tuple[str, Any, dict[str, Tensor]]] = []
        for kind, module in zip(kinds[1:], self.modules[1:], strict=True):
            folder = directory / module["path"]
            config = read(folder / "config.json") if (folder / "config.json").exists() else {}
            weights = load_file(folder / "model.safetensors") if (folder / "model.safetensors").exists() else {}
            self.steps.append((kind, config, weights))

    @property
    def configuration(self) -> Any:
        """Everything but the encoder's weights: the same before and after adapting. Paths of folders may differ."""
        kinds = [module["type"] for module in self.modules]
        steps = [
            (kind, config, {name: value.tolist() for name, value in held.items()}) for kind, config, held in self.steps
        ]
        return kinds, self.length, self.settings, steps

    @torch.no_grad()
    def vectors(self, texts: list[str]) -> Tensor:
        prompt = self.settings.get("prompts", {}).get(self.settings.get("default_prompt_name"), "")
        longest = self.length.get("max_seq_length", self.tokenizer.model_max_length)
        rows = self.tokenizer(
            [prompt + text for text in texts], padding=True, truncation=True, max_length=longest, return_tensors="pt"
        )
        states, mask = self.model(**rows).last_hidden_state, rows["attention_mask"][..., None]
        vectors = states[:, 0]
        for kind, config, weights in self.steps:
            if kind == "Pooling":
                vectors = pooled(config, states, mask)
            elif kind == "Dense":
                vectors = torch.tanh(vectors @ weights["linear.weight"].T + weights["linear.bias"])
            else:
                assert kind == "Normalize"
                vectors = torch.nn.functional.normalize(vectors, dim=1)
        return vectors


def pooled(config: dict[str, Any], states: Tensor, mask: Tensor) -> Tensor:
    mode = config.get("pooling_mode")
    if mode is None:
        [mode] = [new for new, old in POOLED.items() if config.get(f"pooling_mode_{old}")]
    if mode == "cls":
        return states[:, 0]
    if mode == "max":
        return states.masked_fill(mask == 0, -1e9).max(1).values
    return (states * mask).sum(1) / mask.sum(1)


def make_sentence_model(encoder: Path, directory: Path, *, old: bool, pooling: str = "mean") -> Path:
    """Write a sentence-transformers model with pooling, a dense layer and normalisation around an encoder.

    old: True for the files of version 0.3, whose encoder lies in 0_Transformer, and its settings in old spellings
    """
    first = "0_Transformer" if old else ""
    (directory / first).mkdir(parents=True)
    for file in encoder.iterdir():
        if file.is_file() and file.name not in ("manifest.json", "provenance.json", "recipe.toml"):
            (directory / first / file.name).write_bytes(file.read_bytes())
    folders = {"Pooling": "1_Pooling", "Dense": "2_Dense", "Normalize": "3_Normalize"}
    within = "sentence_transformers.models" if old else "sentence_transformers.base.modules"
    modules = [{"idx": 0, "name": "0", "path": first, "type": f"{within}.Transformer"}]
    for number, (kind, folder) in enumerate(folders.items(), start=1):
        modules.append({"idx": number, "name": str(number), "path": folder, "type": f"{within}.{kind}"})
    (directory / "modules.json").write_text(json.dumps(modules))
    width = read(encoder / "config.json")["hidden_size"]
    spelt = {f"pooling_mode_{POOLED[pooling]}": True} if old else {"pooling_mode": pooling}
    for folder in ("1_Pooling", "2_Dense"):  # of 3_Normalize, which has no files, git keeps no folder
        (directory / folder).mkdir()
    (directory / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": width, **spelt}))
    dense = {
        "in_features": width,
        "out_features": 8,
        "bias": True,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (directory / "2_Dense" / "config.json").write_text(json.dumps(dense))
    generator = torch.Generator().manual_seed(0)
    weights = {
        "linear.weight": torch.randn(8, width, generator=generator),
        "linear.bias": torch.randn(8, generator=generator),
    }
    save_file(weights, directory / "2_Dense" / "model.safetensors")
    length = "sentence_distilbert_config.json" if old else "sentence_bert_config.json"
    (directory / first / length).write_text(json.dumps({"max_seq_length": 12, "do_lower_case": False}))
    if not old:
        prompts = {"prompts": {"query": "the heart ", "passage": ""}, "default_prompt_name": "query"}
        settings = {**prompts, "similarity_fn_name": "cosine", "__version__": {"sentence_transformers": "5.1.0"}}
        (directory / "config_sentence_transformers.json").write_text(json.dumps(settings))
    return directory
