"""The model card of a shipped model: metadata in YAML for the hub, then what readers have to know, all from the run.

Every value that comes from a user is escaped (study/markdown.py), and of paths only the name of the file is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from acclimate.core.types import Score
from acclimate.study import forgetting, markdown, wording
from acclimate.study.forgetting import Losses
from acclimate.study.labels import LabelScore
from acclimate.study.onnx_copy import FILE, Int8
from acclimate.study.tables import Row
from acclimate.tasks.task import Kind

LOW = 0.5  # F1 of a label that the card warns of
FEW = 10  # test items of a label that say little
HUB_METRICS = {"macro_f1": "f1", "micro_f1": "f1", "pearson": "pearsonr", "spearman": "spearmanr"}
Fact = str | int | float | bool | None | Sequence[Any] | Mapping[str, Any]


# a tag is that at a word's first piece; the words stand between spaces, as in the data
TAGGING = """from transformers import AutoModelForTokenClassification, AutoTokenizer
where = "."  # the directory of this file, or the id of the model on the hub
tokenizer = AutoTokenizer.from_pretrained(where)
model = AutoModelForTokenClassification.from_pretrained(where)
text = "One sentence of words with spaces between them ."
read = tokenizer(text, truncation=True, return_offsets_mapping=True, return_tensors="pt")
offsets = read.pop("offset_mapping")[0].tolist()
tags = model(**read).logits[0].argmax(-1).tolist()
first = {}  # word -> the tag at its first piece
for tag, (start, end) in zip(tags, offsets):
    if end > start:
        first.setdefault(text[:end].count(" "), model.config.id2label[tag])
print([(word, first.get(number)) for number, word in enumerate(text.split(" "))])"""


@dataclass(frozen=True)
class Leaked:
    """found in, within, kind, number of items matched and their share: a line for each kind of leak."""

    found: str
    within: str
    kind: str
    references: int
    share: float


@dataclass(frozen=True)
class Card:
    """What the card tells.

    shipped      the score of the seed that was shipped; rows: all contestants, `untouched` first; general_losses: what
                 their adapting forgot, as report.Study has it
    base         the hub id that everything began from; "": no id is known, `origin` says it in words
    sizes        split -> number of examples; files: name -> (rows, accepted) as they were read
    leaks        None: nobody looked; rows_without, verdict_without: with the `leaked` test items left out, if any
    unseen       labels that no test item bears
    cut          test texts that were longer than max_tokens
    adapters     their bottleneck, where the encoder has some, which transformers alone does not load
    rounding     test texts whose two best classes are equal up to rounding and fell the other way
    """

    task: str
    kind: Kind
    paired: bool
    labels: Sequence[str]
    metric: str
    max_tokens: int
    architecture: str
    weights: int
    contestant: str
    shipped: Score
    verdict: str
    rows: Sequence[Row]
    general_losses: Losses = field(default_factory=dict)
    per_label: Sequence[LabelScore] = ()
    unseen: Sequence[str] = ()
    base: str = ""
    origin: str = ""
    source: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cautions: Sequence[str] = ()
    notes: Sequence[str] = ()
    leaks: Sequence[Leaked] | None = None
    leaked: int = 0
    rows_without: Sequence[Row] = ()
    verdict_without: str = ""
    reach: str = ""
    looks: int = 0
    earlier_races: int = 0
    given: Mapping[str, Fact] = field(default_factory=dict)
    seconds: float = 0.0
    commands: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    adapters: int = 0
    rounding: int = 0
    int8: Int8 | None = None

    @property
    def row(self) -> Row:
        """The shipped contestant's."""
        return next(row for row in self.rows if row.contestant == self.contestant)

    @property
    def low(self) -> list[LabelScore]:
        return [label for label in self.per_label if label.contestant < LOW]

    @property
    def few(self) -> list[LabelScore]:
        return [label for label in self.per_label if label.support < FEW]


def render(card: Card) -> str:
    """The card's text: README.md. Raises ValueError where the hub would refuse its metadata."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        finalize=markdown.escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "cost": wording.cost_text,
        "difference": wording.difference_text,
        "duration": wording.duration,
        "fact": _fact,
        "interval": wording.interval_text,
        "listed": wording.listed,
        "metric": wording.metric_text,
        "p": wording.p_text,
        "percent": wording.percent,
        "plain_paths": markdown.without_paths,
        "points": wording.points,
        "size": _size,
    }
    said = {
        "card": card,
        "general": forgetting.beside([row.contestant for row in card.rows], card.general_losses),
        "forgetting": forgetting.MEANING,
        "metadata": Markup(metadata(card).to_yaml()),
        "loading": markdown.fenced(loading(card), "python"),
        "loading_int8": markdown.fenced(loading_int8(card), "python"),
        "commands": markdown.fenced(
            "\n".join(markdown.command_without_paths(command, card.base) for command in card.commands), "shell"
        ),
        "int8_file": Markup(f"`{FILE}`"),
        "low": LOW,
        "few": FEW,
    }
    return environment.get_template("card.md").render(said)


def metadata(card: Card) -> ModelCardData:
    """What the hub reads. The language and the licence are not known here, so they are left out."""
    metric = card.metric.partition(" without ")[0]
    dataset: dict[str, Any] = {
        "task_type": _pipeline(card.kind),
        "dataset_name": card.task,
        "dataset_type": "private",
        "dataset_split": "test",
    }
    score, kind = card.row.score, HUB_METRICS.get(metric, metric)
    called = wording.metric_text(card.metric)
    seeds = len(card.row.seeds)
    results = [
        EvalResult(
            **dataset,
            metric_type=kind,
            metric_value=round(card.shipped.test, 4),
            metric_name=f"{called} of this checkpoint (seed {card.shipped.seed})",
        ),
        EvalResult(
            **dataset,
            metric_type=kind,
            metric_value=round(score.mean, 4),
            metric_name=f"{called}, mean over {seeds} seeds, 95% interval {score.low:.4f} to {score.high:.4f}",
        ),
    ]
    tags = ["acclimate", "domain-adaptation", card.kind, *(["onnx"] if card.int8 else [])]
    return ModelCardData(
        library_name="transformers",
        pipeline_tag=_pipeline(card.kind),
        base_model=card.base or None,
        tags=tags,
        metrics=[kind],
        model_name=card.task,
        eval_results=results,
    )


def loading(card: Card) -> str:
    """How to ask the model, as code that runs."""
    auto = "AutoModelFor" + ("TokenClassification" if card.kind == "tokens" else "SequenceClassification")
    lines = _loading(card)
    if not card.adapters:
        return lines
    ours = "from transformers import AutoTokenizer\nfrom acclimate.models.classifier import load_finetuned"
    lines = lines.replace(f"from transformers import {auto}, AutoTokenizer", ours)
    return lines.replace(f"{auto}.from_pretrained(where)", "load_finetuned(where)")


def _loading(card: Card) -> str:
    """The same with transformers alone."""
    if card.kind == "tokens":
        return TAGGING
    texts = '["A text.", "Another one."]'
    given = f'{texts}, ["What it is compared with.", "And this."]' if card.paired else texts
    decode = {
        "sequence": "print([model.config.id2label[number] for number in logits.argmax(-1).tolist()])",
        "multilabel": "print([[model.config.id2label[number] for number in row.nonzero().flatten().tolist()] "
        "for row in logits.sigmoid() > 0.5])",
        "score": "print(logits[:, 0].tolist())",
    }
    return "\n".join(
        [
            "from transformers import AutoModelForSequenceClassification, AutoTokenizer",
            'where = "."  # the directory of this file, or the id of the model on the hub',
            "tokenizer = AutoTokenizer.from_pretrained(where)",
            "model = AutoModelForSequenceClassification.from_pretrained(where)",
            f'logits = model(**tokenizer({given}, truncation=True, padding=True, return_tensors="pt")).logits',
            decode[card.kind],
        ]
    )


def loading_int8(card: Card) -> str:
    """The logits of the ONNX copy, as code that runs after `loading`."""
    texts = '["A text."], ["What it is compared with."]' if card.paired else '["A text.", "Another one."]'
    if card.kind == "tokens":
        texts = '["One sentence of words with spaces between them ."]'
    return "\n".join(
        [
            "import onnxruntime",
            f'session = onnxruntime.InferenceSession(f"{{where}}/{FILE}", providers=["CPUExecutionProvider"])',
            f'inputs = tokenizer({texts}, truncation=True, padding=True, return_tensors="np")',
            "[logits] = session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})",
        ]
    )


def _pipeline(kind: Kind) -> str:
    """The hub's word for the kind of task."""
    return "token-classification" if kind == "tokens" else "text-classification"


def _fact(value: Fact) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (str, float)):
        return str(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_fact(amount)}" for name, amount in value.items())
    return ", ".join(map(_fact, value))


def _size(number: float) -> str:
    """Bytes as people read them: 22.1 MB."""
    return wording.si(number, "B")
