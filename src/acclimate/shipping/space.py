"""A small web page to try a shipped model: a Gradio app, for one's machine or a Space of the Hugging Face hub.

The app holds no texts of the data. It loads the model with transformers alone, or with acclimate where the card does.
"""

from __future__ import annotations

from inspect import getsource
from pathlib import Path
from typing import Any

from acclimate.core import files
from acclimate.core.door import option
from acclimate.models.formats import OF_MENTIONS
from acclimate.models.task_layers import pooling_of
from acclimate.shipping.check import Loaded
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.tags import split_words
from acclimate.tasks.task import Kind

FOLDER = "space"  # of a shipment
GRADIO = "gradio>=5"
TRANSFORMERS = ("torch", "transformers>=5.0,<6", "safetensors")
AUTO = {"tokens": "AutoModelForTokenClassification", "span": "AutoModelForQuestionAnswering"}

_HEAD = '''"""Try the model: `python app.py`. In a Space of the hub, the variable MODEL is the model's id."""

import os

import gradio
{imports}

MODEL = os.environ.get("MODEL", os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
{loading}


{predict}

page = gradio.Interface(
    fn=predict,
    inputs=[{inputs}],
    outputs={outputs},
    title={title!r},
)

if __name__ == "__main__":
    page.launch()
'''
_DECODED: dict[Kind, str] = {
    "sequence": "    return {model.config.id2label[i]: float(p) for i, p in enumerate(logits.softmax(-1)[0])}",
    "multilabel": "    return {model.config.id2label[i]: float(p) for i, p in enumerate(logits.sigmoid()[0])}",
    "score": "    return float(logits[0, 0])",
}
_TAGGED = """@torch.no_grad()
def predict(text):
    text = " ".join(split_words(text))
    read = tokenizer(text, truncation=True, return_offsets_mapping=True, return_tensors="pt")
    offsets = read.pop("offset_mapping")[0].tolist()
    first = {}  # word -> the tag at its first piece
    for tag, (start, end) in zip(model(**read).logits[0].argmax(-1).tolist(), offsets):
        if end > start:
            first.setdefault(text[:end].count(" "), model.config.id2label[tag])
    words = [(word, first.get(number, "O")) for number, word in enumerate(text.split(" "))]
    return [(word + " ", None if tag == "O" else tag) for word, tag in words]"""
_ANSWERED = """@torch.no_grad()
def predict(text, question):
    read = tokenizer(question, text, truncation="only_second", return_offsets_mapping=True, return_tensors="pt")
    offsets = read.pop("offset_mapping")[0].tolist()
    of_text = torch.tensor([part == 1 for part in read.sequence_ids(0)])
    said = model(**read)
    begin, end = (one[0].masked_fill(~of_text, -torch.inf) for one in (said.start_logits, said.end_logits))
    scores = begin[:, None] + end[None, :]
    allowed = torch.ones_like(scores, dtype=torch.bool).triu().tril(29)  # at most 30 tokens
    first, last = divmod(int(scores.masked_fill(~allowed, -torch.inf).argmax()), len(end))
    return text[offsets[first][0] : offsets[last][1]]"""
_WITH_ACCLIMATE: dict[Kind, str] = {
    "sequence": "    return dict(made.probabilities)",
    "multilabel": "    return dict(made.probabilities)",
    "score": "    return made.label",
    "tokens": '    return [(word + " ", None if tag == "O" else tag) for word, tag in zip(made.words, made.label)]',
    "span": '    return made.label[0] if made.label else ""',
}


def write_space(directory: Path, task: Prepared, shipped: Loaded, *, obstacle: str, paired: bool) -> None:
    """Write app.py, requirements.txt and README.md to `space` in the directory of a shipment.

    obstacle: why transformers alone does not load the model; "": it does

    Raises ValueError for a model that reads two mentions, for whose places the page has no field.
    """
    with_acclimate = bool(obstacle)
    place = directory / FOLDER
    place.mkdir()
    files.write_text(place / "app.py", app_of(task, shipped, with_acclimate=with_acclimate, paired=paired))
    needed = [GRADIO, *(["acclimate"] if with_acclimate else TRANSFORMERS)]
    files.write_text(place / "requirements.txt", "".join(f"{name}\n" for name in needed))
    about = {"title": "Try it", "sdk": "gradio", "app_file": "app.py"}
    metadata = "".join(f"{name}: {value}\n" for name, value in about.items())
    files.write_text(
        place / "README.md",
        f"---\n{metadata}---\n\nA page to try the model. Upload this folder as a Space, and set the Space's variable "
        f"`MODEL` to the model's id.\n",
    )


def app_of(task: Prepared, shipped: Loaded, *, with_acclimate: bool, paired: bool) -> str:
    """Return the text of app.py."""
    config: Any = shipped.model.config
    pooling = pooling_of(config)
    if pooling in OF_MENTIONS:
        raise ValueError(
            f"this model reads a relation at its two mentions (finetune.pooling = {pooling}), and a page has no place "
            f"for their characters. Ship without {option('space')}"
        )
    kind, two = task.kind, paired or task.kind == "span"
    arguments = "text, question" if kind == "span" else "text, second" if two else "text"
    if with_acclimate:
        imports = "from acclimate.shipping.predict import load_predictor, predict as predictions"
        loading = "predictor = load_predictor(MODEL)"
        row = {"span": '{"context": text, "question": question}'}.get(kind, "(text, second)" if two else "text")
        predict = f"def predict({arguments}):\n    [made] = predictions(predictor, [{row}])\n{_WITH_ACCLIMATE[kind]}"
    else:
        auto = AUTO.get(kind, "AutoModelForSequenceClassification")
        imports = f"import torch\nfrom transformers import {auto}, AutoTokenizer"
        loading = f"tokenizer = AutoTokenizer.from_pretrained(MODEL)\nmodel = {auto}.from_pretrained(MODEL).eval()"
        logits = "    logits = model(**read).logits"
        read = f'    read = tokenizer({arguments}, truncation=True, return_tensors="pt")'
        plain = f"@torch.no_grad()\ndef predict({arguments}):\n{read}\n{logits}\n"
        predict = {"tokens": _TAGGED, "span": _ANSWERED}.get(kind) or plain + _DECODED[kind]
        if kind == "tokens":
            predict = f"{getsource(split_words)}\n\n{predict}"
    boxes = ['gradio.Textbox(label="Text", lines=4)']
    boxes += ['gradio.Textbox(label="Question")' if kind == "span" else 'gradio.Textbox(label="Second text")'] * two
    outputs = {
        "sequence": "gradio.Label()",
        "multilabel": "gradio.Label()",
        "score": "gradio.Number()",
        "tokens": "gradio.HighlightedText()",
        "span": 'gradio.Textbox(label="Answer")',
    }[kind]
    return _HEAD.format(
        imports=imports, loading=loading, predict=predict, inputs=", ".join(boxes), outputs=outputs, title=task.name
    )
