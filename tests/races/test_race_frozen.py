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
from acclimate.races.contestants import enter
from acclimate.races.lengths import Lengths
from acclimate.races.rounds import shortened
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


def test_in_a_shortened_race_it_is_the_model_that_the_race_pretrains(toy_race: Any) -> None:
    entries = enter(replace(toy_race.recipe, contestants=None), toy_race.materials)
    for share in (1.0, 0.5):
        cut = shortened(entries, Lengths(adapting=share))
        assert cut.base is not None
        assert cut.frozen is not None
        assert cut.frozen.needs["model"].name == cut.frozen.needs["fitted"].needs["model"].name == cut.base.name


def test_with_a_budget_it_is_fitted_before_the_first_round_and_compared_with_the_untouched_model(
    toy_race: Any, tmp_path: Path
) -> None:
    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    given = {split: toy_race.inputs / f"{split}.jsonl" for split in ("dev", "test")}
    heard: list[str] = []
    study = acclimate.race(
        toy_race.inputs / "train.jsonl", **given, model=base / "checkpoint", contestants=["frozen", "TF-IDF"],
        recipe=toy_race.recipe, max_tokens=32, out=tmp_path / "run", budget="20min", progress=False,
        watch=lambda progress: heard.append(progress.stage),
    )  # fmt: skip
    assert heard.index("TF-IDF") < heard.index("frozen") < heard.index("fine-tune untouched, seed 0")
    rows = {result.row: result for result in study.report.outcome.results}
    assert {"untouched", "frozen", "TF-IDF"} <= rows.keys()
    assert rows["frozen"].costs["tuning"].seconds > 0, "that of the probe"
    table = (tmp_path / "run" / "table.txt").read_text()
    assert "against untouched" in table.partition("Frozen probes")[0], "beside the scores"
    assert "Against TF-IDF" in table
