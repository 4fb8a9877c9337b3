"""The model card of a shipped model: metadata in YAML for the hub, then its description, all from the files of the run.

Values that come from a user are escaped (shipping/markdown.py). Of paths the card shows the last name only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from jinja2 import Environment
from markupsafe import Markup

from acclimate.core import figures, files
from acclimate.core.prompt import prompt_length
from acclimate.core.types import Example, Score
from acclimate.data.examination import Leak
from acclimate.jobs.job import DIRECTORY, JOB, WALL
from acclimate.models.formats import OF_MENTIONS
from acclimate.models.loading import EMBEDDED, HUB_ID, MADE_FROM, origin, origin_facts
from acclimate.models.task_layers import pooling_of
from acclimate.races.calibration import read_calibration
from acclimate.races.outcome import Outcome, path_of, read_outcome, rows
from acclimate.races.report import RACE, report_of
from acclimate.races.tables import cautions
from acclimate.races.verdict import verdict, without_items
from acclimate.reports import table
from acclimate.reports.labels import LabelScore, label_scores, type_scores
from acclimate.reports.page import Fact, templates
from acclimate.reports.table import BeforeAndAfter, ContestantRow, difference_text, interval_text
from acclimate.shipping import markdown
from acclimate.shipping.check import Loaded
from acclimate.shipping.onnx import FILE, WHOLE, Int8
from acclimate.shipping.ways import SENTENCE_TRANSFORMERS, Way
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.task import Kind

OURS = "acclimate"
LOW = 0.5  # the card warns of labels whose F1 is below this
FEW = 10  # the card warns of labels that have fewer test items
HUB_METRICS = {"macro_f1": "f1", "micro_f1": "f1", "pearson": "pearsonr", "spearman": "spearmanr"}  # ours -> the hub's
# code of the card: a word has the tag of its first piece; words stand between spaces, as in the data
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

ANSWERING = """import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer
where = "."  # the directory of this file, or the id of the model on the hub
tokenizer = AutoTokenizer.from_pretrained(where)
model = AutoModelForQuestionAnswering.from_pretrained(where)
question, text = "What is it?", "It is a text."
read = tokenizer(question, text, truncation="only_second", return_offsets_mapping=True, return_tensors="pt")
offsets = read.pop("offset_mapping")[0].tolist()
of_text = torch.tensor([part == 1 for part in read.sequence_ids(0)])
with torch.no_grad():
    said = model(**read)
begin, end = (one[0].masked_fill(~of_text, -torch.inf) for one in (said.start_logits, said.end_logits))
scores = begin[:, None] + end[None, :]
allowed = torch.ones_like(scores, dtype=torch.bool).triu().tril(29)  # at most 30 tokens
first, last = divmod(int(scores.masked_fill(~allowed, -torch.inf).argmax()), len(end))
print(text[offsets[first][0] : offsets[last][1]])"""

_DECODED: Mapping[Kind, str] = {  # code of the card: from logits to labels
    "sequence": "print([model.config.id2label[number] for number in logits.argmax(-1).tolist()])",
    "multilabel": "print([[model.config.id2label[number] for number in row.nonzero().flatten().tolist()] "
    "for row in logits.sigmoid() > 0.5])",
    "score": "print(logits[:, 0].tolist())",
}


@dataclass(frozen=True)
class Card:
    """The values that the card shows.

    weights          number of the model's parameters
    shipped          score of the seed that is shipped
    rows             of all contestants, the untouched model first
    general_losses   losses on held-out general text before and after adapting, as races/outcome.py::Facts has them
    base             hub id of the model that the race began from; "": unknown, and `origin` describes it in a sentence
    sizes            split -> number of examples
    files            name -> (rows, accepted rows)
    leaks            None: the data were not searched for leaks
    leaked           number of test items that leaked; rows_without and verdict_without leave them out
    unseen           labels that no test item has
    looks            how often this race opened the test set; earlier_races: races that opened it before
    seconds          of all jobs of the race
    cut              number of test texts that are longer than max_tokens
    ways             what takes the directory, and what refuses it (shipping/ways.py)
    mentions         whether the model reads two mentions of a text
    rounding         number of test texts whose prediction rounding alone changed
    obstacle           why transformers alone does not load the classifier (shipping/check.py); "": it does
    license, language  as the user states them
    encoder_license    a sentence on the licence of the embedded encoder; "" if it was made from another one
    calibration        a sentence on the probabilities; "" if they are not calibrated
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
    rows: Sequence[ContestantRow]
    general_losses: BeforeAndAfter = field(default_factory=dict)
    per_label: Sequence[LabelScore] = ()
    unseen: Sequence[str] = ()
    base: str = ""
    origin: str = ""
    source: str = ""
    sizes: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cautions: Sequence[str] = ()
    notes: Sequence[str] = ()
    leaks: Sequence[Leak] | None = None
    leaked: int = 0
    rows_without: Sequence[ContestantRow] = ()
    verdict_without: str = ""
    reach: str = ""
    looks: int = 0
    earlier_races: int = 0
    settings: Mapping[str, Fact] = field(default_factory=dict)
    seconds: float = 0.0
    commands: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, Fact] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    cut: int = 0
    ways: Sequence[Way] = ()
    mentions: bool = False
    rounding: int = 0
    obstacle: str = ""
    license: str = ""
    encoder_license: str = ""
    language: tuple[str, ...] = ()
    int8: Int8 | None = None
    calibration: str = ""

    @property
    def row(self) -> ContestantRow:
        """The row of the contestant that is shipped."""
        return next(row for row in self.rows if row.contestant == self.contestant)

    @property
    def low(self) -> list[LabelScore]:
        return [label for label in self.per_label if label.contestant < LOW]

    @property
    def few(self) -> list[LabelScore]:
        return [label for label in self.per_label if label.support < FEW]


@dataclass(frozen=True)
class Shipment:
    """What `ship` checked and measured. source: the checkpoint; examples: the test texts, without labels; others as
    Card has them.
    """

    run: Path
    source: Path
    task: Prepared
    score: Score
    model: Loaded
    examples: Sequence[Example]
    rounding: int = 0
    int8: Int8 | None = None
    obstacle: str = ""
    ways: Sequence[Way] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)
    license: str = ""
    language: tuple[str, ...] = ()


def card_of(shipment: Shipment) -> Card:
    """Return the card of a shipment. Reads facts, scores and the records of the jobs in the directory of the run."""
    run, task, score = shipment.run, shipment.task, shipment.score
    outcome = read_outcome(path_of(run, RACE))
    report = report_of(outcome)
    facts = report.facts
    leaked = frozenset(facts.leaked_test_ids).intersection(score.ids)
    others = without_items(outcome, leaked) if leaked and len(score.ids) - len(leaked) >= 2 else None
    base, origin = origin_of(run, shipment.source, outcome, score)
    examination = facts.examination
    remarks = [use_note(outcome, score), *report.alerts, *cautions(outcome), *report.remarks, facts.search_note]
    return Card(
        task=task.name,
        kind=task.kind,
        paired=any(example.pair for example in shipment.examples),
        labels=task.labels,
        metric=score.metric,
        max_tokens=task.max_tokens,
        architecture=type(shipment.model.model).__name__,
        weights=shipment.model.model.num_parameters(),
        contestant=score.contestant,
        shipped=score,
        verdict=report.verdict,
        rows=report.rows,
        general_losses=facts.general_losses,
        base=base,
        origin=origin,
        source=task.source,
        sizes={str(split): size for split, size in task.sizes.items()},
        # the card shows no folders: where files of several folders have the same name, the last one counts
        files={Path(file.path).name: (file.rows, file.accepted) for file in examination.files} if examination else {},
        cautions=[*filter(None, remarks)],
        notes=outcome.notes,
        leaks=[leak for leak in examination.leaks if leak.references] if examination else None,
        leaked=len(leaked),
        rows_without=rows(others) if others else (),
        verdict_without=verdict(others) if others else "",
        reach=examination.reach if examination else "",
        looks=facts.looks.in_this_run if facts.looks else 0,
        earlier_races=facts.looks.earlier_runs if facts.looks else 0,
        settings=facts.given.get(score.contestant, {}),
        seconds=sum(files.read_record(path)["seconds"] for path in run.glob(f"{DIRECTORY}/*/{WALL}")),
        commands=facts.commands,
        versions=facts.versions,
        environment=facts.environment,
        hashes={**facts.hashes, **shipment.hashes},
        cut=_cut(shipment),
        ways=shipment.ways,
        mentions=pooling_of(shipment.model.model.config) in OF_MENTIONS,
        rounding=shipment.rounding,
        int8=shipment.int8,
        obstacle=shipment.obstacle,
        license=shipment.license,
        encoder_license=encoder_license(shipment.source),
        language=shipment.language,
        calibration=calibration_sentence(shipment.source),
        **_label_parts(outcome.scores, score, task),
    )


def calibration_sentence(source: Path) -> str:
    """Return a sentence on the probabilities of the model in `source`; "" if they are not calibrated."""
    calibration = read_calibration(source)
    return f"Its probabilities are {calibration.sentence}." if calibration is not None else ""


def use_note(outcome: Outcome, score: Score) -> str:
    """Return a note on the model to use, and on whether it is this one; "" if there was no choice."""
    assert outcome.race is not None
    if outcome.race.use in ("", score.contestant):
        return outcome.race.use_reason if outcome.race.use else ""
    return f"{score.contestant} is not the model to use of its race. {outcome.race.use_reason}"


def _label_parts(scores: Sequence[Score], shipped: Score, task: Prepared) -> dict[str, Any]:
    """Return each label's F1, of the untouched model and the shipped contestant, and the labels without test items."""
    untouched = [score for score in scores if score.contestant == table.UNTOUCHED]
    ours = [score for score in scores if score.contestant == shipped.contestant]
    if task.kind in ("score", "span") or not untouched:  # without a fine-tuning
        return {}
    if task.kind == "tokens":
        return {"per_label": type_scores(untouched, ours)}
    labels = label_scores(untouched, ours)
    tested_labels = {label.label for label in labels}
    return {"per_label": labels, "unseen": [label for label in task.labels if label not in tested_labels]}


def _cut(shipment: Shipment) -> int:
    """Return the number of test texts that are longer than what the model was trained to read."""
    tokenizer, paired = shipment.model.tokenizer, any(example.pair for example in shipment.examples)
    texts = [example.text for example in shipment.examples]
    pairs = [example.pair or "" for example in shipment.examples] if paired else None
    encoded = tokenizer(texts, pairs, truncation=False, verbose=False)["input_ids"]
    return sum(len(ids) > shipment.task.max_tokens + prompt_length(tokenizer) for ids in encoded)


def origin_of(run: Path, source: Path, outcome: Outcome, score: Score) -> tuple[str, str]:
    """Return the hub id of the model that the checkpoint in `source` was made from, "" if it has none, and a sentence
    on it.
    """
    if start := origin(source):
        return start if start != EMBEDDED else "", origin_sentence(source)
    job = _tuned(run, outcome, score)
    if job is None:
        return "", ""
    while before := job["needs"].get("model"):
        job = files.read_object(run / DIRECTORY / before / JOB)
    model = job["settings"].get("model", "")  # a hub id; of a directory only the hash stands there, in `contents`
    if HUB_ID.fullmatch(model):
        return model, f"It was made from {model}."
    if model or "model" in job["contents"]:
        return "", "It was made from a model that the user gave, which has no hub id."
    return "", "Its encoder was pretrained in the same run, from random weights."


def origin_sentence(directory: Path) -> str:
    """Return a sentence on what the model in the directory was made from, and on its licence; "" if it has no record
    of that.
    """
    facts = origin_facts(directory)
    if (start := facts.get("origin", "")) != EMBEDDED:
        return f"It was made from {start}." if start else ""
    weights = f" (SHA-256 of its weights: {facts['origin_weights']})" if "origin_weights" in facts else ""
    return (
        f"It was made from the embedded encoder of acclimate{weights}, which was cut from {MADE_FROM} and trained "
        "further: see LICENSE and NOTICE."
    )


def encoder_license(directory: Path) -> str:
    """Return a sentence on the licence of the embedded encoder; "" if the model was made from another one."""
    if origin(directory) != EMBEDDED:
        return ""
    return "The embedded encoder from which it was made is under the Apache License 2.0: keep LICENSE and NOTICE."


def _tuned(run: Path, outcome: Outcome, score: Score) -> dict[str, Any] | None:
    """Return the record of the job that fine-tuned the shipped model: the one that the test of this score needs.

    None if the directory no longer has the jobs of the race.
    """
    [result] = [result for result in outcome.results if result.row == score.contestant]
    tests = dict(zip((seed_score.seed for seed_score in result.scores), result.jobs, strict=True))
    test = run / DIRECTORY / tests[score.seed] / JOB
    if not test.exists():
        return None
    tuned: dict[str, Any] = files.read_object(run / DIRECTORY / files.read_json(test)["needs"]["tuned"] / JOB)
    return tuned


def render(card: Card) -> str:
    """Return the card as the text of README.md. Raises ValueError if the hub would refuse its metadata."""
    commands = (markdown.command_without_paths(command, card.base) for command in card.commands)
    values = {
        "card": card,
        "general": table.general_loss_column([row.contestant for row in card.rows], card.general_losses),
        "forgetting": table.MEANING + table.adaptations_note(max(row.score.adaptations for row in card.rows)),
        "metadata": Markup(metadata(card).to_yaml()),
        "loading": markdown.fenced(_with_acclimate(card) if card.obstacle else _with_transformers(card), "python"),
        "loading_int8": markdown.fenced(loading_int8(card), "python"),
        "commands": markdown.fenced("\n".join(commands), "shell"),
        "int8_file": Markup(f"`{FILE}`"),
        "whole_file": Markup(f"`{WHOLE}`"),
        "pipeline": markdown.fenced(code_of_pipeline(card), "python") if code_of_pipeline(card) else "",
        "sentences": markdown.fenced(code, "python") if (code := code_of_sentence_transformers(card)) else "",
        "low": LOW,
        "few": FEW,
    }
    return environment().get_template("card.md").render(values)


def environment() -> Environment:
    """Return the templates of cards, with their filters."""
    card_templates = templates(markdown.escaped)
    card_templates.filters |= {
        "cost": figures.cost_text,
        "difference": difference_text,
        "duration": figures.duration,
        "interval": interval_text,
        "listed": figures.listed,
        "metric": figures.metric_text,
        "p": figures.p_text,
        "percent": figures.percent,
        "plain_paths": markdown.without_paths,
        "points": figures.points,
        "size": _size,
    }
    return card_templates


def metadata(card: Card) -> ModelCardData:
    """Return the metadata for the hub. Language and licence are there if the user states them: the run does not."""
    metric = card.metric.partition(" without ")[0]
    dataset: dict[str, Any] = {
        "task_type": _pipeline(card.kind),
        "dataset_name": card.task,
        "dataset_type": "private",
        "dataset_split": "test",
    }
    score, kind = card.row.score, HUB_METRICS.get(metric, metric)
    name = figures.metric_text(card.metric)
    seeds = len(card.row.seeds)
    spread = "" if score.range_of_runs else f", 95% interval {score.low:.4f} to {score.high:.4f}"
    values = {f"{name} of this checkpoint (seed {card.shipped.seed})": card.shipped.test}
    if seeds > 1:
        values[f"{name}, mean over {seeds} seeds{spread}"] = score.mean
    results = [
        EvalResult(**dataset, metric_type=kind, metric_value=round(value, 4), metric_name=what)
        for what, value in values.items()
    ]
    tags = ["acclimate", "domain-adaptation", card.kind, *(["onnx"] if card.int8 else [])]
    return ModelCardData(
        library_name=_library(card),
        pipeline_tag=_pipeline(card.kind),
        base_model=card.base or None,
        license=card.license or None,
        language=list(card.language) or None,
        tags=tags,
        metrics=[kind],
        model_name=card.task,
        eval_results=results,
    )


def _library(card: Card) -> str:
    """Return the name by which the hub knows the library that loads the model."""
    if not card.obstacle:
        return "transformers"
    return SENTENCE_TRANSFORMERS if any(way.name == SENTENCE_TRANSFORMERS and way.takes for way in card.ways) else OURS


def _with_acclimate(card: Card) -> str:
    texts = '["One sentence of words with spaces between them ."]' if card.kind == "tokens" else _texts(card)
    if card.kind == "span":
        texts = '[{"question": "What is it?", "context": "It is a text."}]'
    elif card.mentions:
        texts = '[{"text": "One text.", "spans": [[0, 3], [4, 8]]}]  # the characters of the two mentions'
    elif card.paired:
        texts = '[("A text.", "What it is compared with."), ("Another one.", "And this.")]'
    return f"""from acclimate.shipping.predict import predict
where = "."  # the directory of this file, or the id of the model on the hub
texts = {texts}
print([made.label for made in predict(where, texts)])"""


def code_of_pipeline(card: Card) -> str:
    """Return code that predicts with transformers' pipeline; it runs after the code that loads the model. "" where no
    pipeline does: for answers, and for classifiers that no class of transformers is.
    """
    if card.kind == "span" or card.obstacle:
        return ""
    texts = '["A text.", "Another one."]'
    if card.paired:
        texts = '[{"text": "A text.", "text_pair": "What it is compared with."}]'
    options = {"multilabel": ", top_k=None", "score": ', function_to_apply="none"'}.get(card.kind, "")
    pipeline = f'pipeline("text-classification", model=where, truncation=True{options})'
    if card.kind == "tokens":
        texts = '["One sentence of words with spaces between them ."]'
        pipeline = 'pipeline("token-classification", model=where, aggregation_strategy="first")'
    lines = ["from transformers import pipeline", f"ask = {pipeline}", f"print(ask({texts}))"]
    return "\n".join(lines)


def _with_transformers(card: Card) -> str:
    if card.kind == "tokens":
        return TAGGING
    if card.kind == "span":
        return ANSWERING
    return f"""from transformers import AutoModelForSequenceClassification, AutoTokenizer
where = "."  # the directory of this file, or the id of the model on the hub
tokenizer = AutoTokenizer.from_pretrained(where)
model = AutoModelForSequenceClassification.from_pretrained(where)
logits = model(**tokenizer({_texts(card)}, truncation=True, padding=True, return_tensors="pt")).logits
{_DECODED[card.kind]}"""


def code_of_sentence_transformers(card: Card) -> str:
    """Return code that predicts with sentence-transformers; "" where the directory has no such form."""
    if _library(card) != SENTENCE_TRANSFORMERS:
        return ""
    texts = '["A text.", "Another one."]'
    if card.paired:
        texts = '[["A text.", "What it is compared with."], ["Another one.", "And this."]]'
    decoded = {
        "sequence": "print([labels[number] for number in logits.argmax(-1).tolist()])",
        "multilabel": "print([[labels[i] for i in row.nonzero().flatten().tolist()] for row in logits > 0])",
        "score": "print(logits[:, 0].tolist())",
    }[card.kind]
    lines = [
        "from sentence_transformers import SentenceTransformer",
        'where = "."  # the directory of this file, or the id of the model on the hub',
        f"labels = {list(card.labels)!r}",
        f"logits = SentenceTransformer(where).encode({texts}, convert_to_tensor=True)",
        decoded,
    ]
    return "\n".join(line for line in lines if card.labels or not line.startswith("labels"))


def _texts(card: Card) -> str:
    texts = '["A text.", "Another one."]'
    return f'{texts}, ["What it is compared with.", "And this."]' if card.paired else texts


def loading_int8(card: Card) -> str:
    """Return Python code that computes the logits of the ONNX copy; it runs after the code of `loading`."""
    texts = '["A text."], ["What it is compared with."]' if card.paired else '["A text.", "Another one."]'
    if card.kind == "tokens":
        texts = '["One sentence of words with spaces between them ."]'
    if card.kind == "span":
        texts = "[question], [text]"
    return f"""import onnxruntime
session = onnxruntime.InferenceSession(f"{{where}}/{FILE}", providers=["CPUExecutionProvider"])
inputs = tokenizer({texts}, truncation=True, padding=True, return_tensors="np")
[logits] = session.run(None, {{each.name: inputs[each.name] for each in session.get_inputs()}})"""


def _pipeline(kind: Kind) -> str:
    """Return the hub's name of the kind of task."""
    return {"tokens": "token-classification", "span": "question-answering"}.get(kind, "text-classification")


def _size(number: float) -> str:
    """Return a number of bytes as text, such as `22.1 MB`."""
    return figures.si(number, "B")
