"""The frozen encoder with a linear layer: it races, is used, shipped and predicts as it was scored."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import acclimate
import toys
from acclimate.core import files
from acclimate.shipping.predict import predict
from acclimate.shipping.ship import ship
from acclimate.tasks.prepared import open_prepared


def row(kind: str, number: int) -> dict[str, Any]:
    """A labelled text, whose label its words decide."""
    generator = random.Random(number)
    topic = generator.choice([*toys.TOPICS])
    text = toys.text(topic, 12, generator).rstrip(".")
    label: Any = {
        "sequence": topic,
        "pair": topic,
        "multilabel": [topic, "long"] if len(text) > 70 else [topic],
        "score": [*toys.TOPICS].index(topic) + len(text) / 100,
        "tokens": ["B-long" if len(word) > 5 else "O" for word in text.split()],
    }[kind]
    return {"text": text.split() if kind == "tokens" else text, "label": label} | (
        {"pair": toys.text(topic, 5, generator)} if kind == "pair" else {}
    )


@pytest.mark.parametrize("kind", ["sequence", "pair", "multilabel", "score", "tokens"])
def test_it_is_used_and_shipped_and_predicts_as_it_was_scored(kind: str, toy_race: Any, tmp_path: Path) -> None:
    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    run = tmp_path / "run"
    asked: dict[str, Any] = {"model": base / "checkpoint", "contestants": ["frozen"], "max_tokens": 32, "out": run}
    columns = {"text": "text", "label": "label"} | ({"pair": "pair"} if kind == "pair" else {})
    kinds = {} if kind in ("sequence", "pair") else {"kind": kind}
    rows = [row(kind, number) for number in range(160)]
    study = acclimate.race(rows, **asked, **columns, **kinds, probe_only=True, progress=False)
    assert study.use == "frozen"
    assert files.read_json(run / "use" / "race.json")["contestant"] == "frozen"
    [frozen] = [result for result in study.report.outcome.results if result.row == "frozen"]
    [probe] = [result for result in study.report.outcome.results if result.row == "untouched, probe"]
    [scored, *_], [fitted] = frozen.scores, probe.scores
    assert scored.test == pytest.approx(fitted.test, abs=0.05), "up to the precision in which a probe reads"
    texts = [
        (each.text, each.pair) if each.pair else each.text for each in open_prepared(run / "data").examples("test")
    ]
    predicted = [each.label for each in predict(str(run / "use"), texts)]
    if kind == "score":
        assert predicted == pytest.approx(list(scored.predicted), rel=1e-4)
    else:
        assert [tuple(label) if isinstance(label, list) else label for label in predicted] == list(scored.predicted)
    shipped = ship(run, tmp_path / "shipped")
    assert {way.name for way in shipped.ways if way.takes} >= {"acclimate predict"}
    assert (shipped.path / "model.safetensors").exists() or (shipped.path / "modules.json").exists()


def test_it_stands_in_every_race_that_names_no_contestants(toy_race: Any) -> None:
    recipe = replace(toy_race.recipe, contestants=None)
    assert recipe.names(domain=True, general=False) == ("TAPT", "DAPT", "frozen", "TF-IDF")
    assert "frozen" not in recipe.names(domain=False, general=False, kind="span")
