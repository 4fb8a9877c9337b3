"""The model card of a shipped baseline, or of TF-IDF + encoder: metadata for the hub, what it is, how to predict with
it, and its scores.
"""

from __future__ import annotations

import re
from typing import Any

from huggingface_hub import EvalResult, ModelCardData
from markupsafe import Markup

from acclimate.core import figures
from acclimate.core.types import Score
from acclimate.races.outcome import IN_SCIKIT_LEARN, Outcome
from acclimate.races.report import report_of
from acclimate.races.tables import cautions
from acclimate.reports.table import COMBINED
from acclimate.shipping import markdown
from acclimate.shipping.card import HUB_METRICS, environment, use_note
from acclimate.tasks.prepared import Prepared

PLACES = {
    "TfidfVectorizer": "feature_extraction.text",
    "LogisticRegression": "linear_model",
    "Ridge": "linear_model",
    "OneVsRestClassifier": "multiclass",
    "make_pipeline": "pipeline",
}
"""Name of scikit-learn -> its module."""


def render_baseline(
    outcome: Outcome,
    score: Score,
    task: Prepared,
    *,
    dev: float,
    calibration: str,
    origin: str,
    license: str,
    encoder_license: str,
    language: tuple[str, ...],
) -> str:
    """Return the card as the text of README.md. score: of the test; dev: the score there; calibration: a
    sentence on the probabilities, or ""; origin: a sentence on the encoder of TF-IDF + encoder, or "";
    encoder_license: as of `Card`

    Raises ValueError if the hub would refuse its metadata.
    """
    report = report_of(outcome)
    settings = dict(report.facts.given.get(score.contestant, {}))
    code = settings.pop(IN_SCIKIT_LEARN, "")
    paired = any(example.pair for example in task.examples("dev"))
    commands = [markdown.command_without_paths(command) for command in report.facts.commands]
    values: dict[str, Any] = {
        "name": score.contestant,
        "task": task,
        "paired": paired,
        "encoder": score.contestant == COMBINED,
        "score": score,
        "dev": dev,
        "calibration": calibration,
        "origin": origin,
        "report": report,
        "row": next(row for row in report.rows if row.contestant == score.contestant),
        "cautions": [*filter(None, [use_note(outcome, score)]), *report.alerts, *cautions(outcome)],
        "given": settings,
        "metadata": Markup(_metadata(score, task, license, language).to_yaml()),
        "files": markdown.fenced("acclimate predict . new.csv --out labels.csv", "shell"),
        "loading": markdown.fenced(_code(task, paired=paired), "python"),
        "scikit_learn": markdown.fenced(_scikit_learn_code(str(code)), "python") if code else "",
        "commands": markdown.fenced("\n".join(commands), "shell"),
        "license": license,
        "encoder_license": encoder_license,
    }
    return environment().get_template("baseline_card.md").render(values)


def _metadata(score: Score, task: Prepared, license: str, language: tuple[str, ...]) -> ModelCardData:
    metric = score.metric.partition(" without ")[0]
    kind = HUB_METRICS.get(metric, metric)
    result = EvalResult(
        task_type="token-classification" if task.kind == "tokens" else "text-classification",
        dataset_name=task.name,
        dataset_type="private",
        dataset_split="test",
        metric_type=kind,
        metric_value=round(score.test, 4),
        metric_name=figures.metric_text(score.metric),
    )
    return ModelCardData(
        library_name="acclimate",
        pipeline_tag="token-classification" if task.kind == "tokens" else "text-classification",
        license=license or None,
        language=list(language) or None,
        tags=["acclimate", re.sub(r"[^a-z0-9]+", "-", score.contestant.lower()), task.kind],
        metrics=[kind],
        model_name=task.name,
        eval_results=[result],
    )


def _code(task: Prepared, *, paired: bool) -> str:
    """Return Python code that predicts with the baseline; it runs in the directory of the shipment."""
    texts = '["A text.", "Another one."]'
    if task.kind == "tokens":
        texts = '["One sentence of words with spaces between them ."]'
    elif paired:
        texts = '[("A text.", "What it is compared with."), ("Another one.", "And this.")]'
    lines = [
        "from acclimate.shipping.predict import predict",
        'where = "."  # the directory of this file',
        f"print([made.label for made in predict(where, {texts})])",
    ]
    return "\n".join(lines)


def _scikit_learn_code(code: str) -> str:
    """Return the code of the model with its imports."""
    imports = sorted(f"from sklearn.{place} import {name}" for name, place in PLACES.items() if f"{name}(" in code)
    return "\n".join([*imports, f"model = {code}", "model.fit(texts, labels)  # of the training rows"])
