"""The frozen encoder with a linear layer, and with terms beside it: they race, are used, shipped and predict as they
were scored.
"""

from __future__ import annotations

import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import transformers

import acclimate
import toys
from acclimate.core import files
from acclimate.jobs.lock import differences
from acclimate.methods.baselines import TfidfRecipe
from acclimate.methods.probe import probe
from acclimate.races import terms_and_states
from acclimate.races.contestants import enter
from acclimate.races.planning.lengths import Lengths
from acclimate.races.rounds import shortened
from acclimate.reports.table import COMBINED
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


@pytest.mark.parametrize(
    "kind",
    ["pair", "tokens", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sequence", "multilabel", "score"))],
)
def test_it_is_used_and_shipped_and_predicts_as_it_was_scored(kind: str, toy_race: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    asked: dict[str, Any] = {"model": toy_race.base, "contestants": ["frozen"], "max_tokens": 32, "out": run}
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


@pytest.mark.parametrize(
    "kind", ["sequence", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("multilabel", "pair", "score"))]
)
def test_with_terms_it_is_used_and_shipped_and_predicts_as_it_was_scored(
    kind: str, toy_race: Any, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    asked: dict[str, Any] = {"model": toy_race.base, "contestants": [COMBINED], "max_tokens": 32, "out": run}
    columns = {"text": "text", "label": "label"} | ({"pair": "pair"} if kind == "pair" else {})
    kinds = {} if kind in ("sequence", "pair") else {"kind": kind}
    rows = [row(kind, number) for number in range(160)]
    study = acclimate.race(rows, **asked, **columns, **kinds, probe_only=True, progress=False)
    assert study.use == COMBINED
    [combined] = [result for result in study.report.outcome.results if result.row == COMBINED]
    [scored, *_] = combined.scores
    assert len(scored.predicted) == len(scored.ids) > 0
    assert combined.costs["tuning"].seconds > 0
    given = study.report.facts.given[COMBINED]["fine-tuning"]
    assert re.search(r"on terms, the best of \d+ settings on dev: ", given)

    test = open_prepared(run / "data").examples("test")
    texts = [(each.text, each.pair) if each.pair else each.text for each in test]
    shipped = ship(run, tmp_path / "shipped")
    assert [way.name for way in shipped.ways if way.takes] == ["acclimate predict"]
    for place in (run / "use", shipped.path):
        predicted = [each.label for each in predict(str(place), texts)]
        expected = pytest.approx(list(scored.predicted), rel=1e-5) if kind == "score" else list(scored.predicted)
        assert [tuple(label) if isinstance(label, list) else label for label in predicted] == expected
        assert not (place / "config.json").exists()
        for auto in (transformers.AutoModel, transformers.AutoModelForSequenceClassification):
            with pytest.raises((OSError, ValueError)):
                auto.from_pretrained(place)
    if kind == "pair":  # a row without its second text is read as the race read rows
        alone, _ = predict(str(run / "use"), [(test[0].text, ""), texts[1]])
        assert predict(str(run / "use"), [(test[0].text, "")])[0].probabilities == pytest.approx(
            alone.probabilities, abs=1e-5
        )
    assert differences(run) == []
    card = (shipped.path / "README.md").read_text()
    assert "in one linear model" in card
    assert f"| {COMBINED} (shipped) |" in card
    with pytest.raises(ValueError, match=r"--onnx needs a model of transformers, but TF-IDF \+ encoder is not"):
        ship(run, tmp_path / "other", onnx=True)


def test_a_damaged_or_incomplete_model_is_refused_by_the_name_of_its_file(toy_race: Any, tmp_path: Path) -> None:
    task = open_prepared(toy_race.run / "data")
    layer = probe(str(toy_race.base), task).layer
    fitted = terms_and_states.fit(TfidfRecipe(), task, str(toy_race.base), layer).model
    assert fitted.states_CD.shape == (len(task.labels), layer.weight_CD.shape[1])

    def written(name: str, **changes: Any) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        terms_and_states.write(replace(fitted, **changes), directory)
        terms_and_states.write_encoder(str(toy_race.base), directory)
        return directory

    sound = written("sound")
    model, encoder, tokenizer = terms_and_states.read_with_encoder(sound)
    dev = task.examples("dev")
    states_RD = terms_and_states.read_states(model, encoder, tokenizer, dev)
    assert np.array_equal(model.outputs(dev, states_RD), fitted.outputs(dev, states_RD))
    with_nan = fitted.states_CD.copy()
    with_nan[0, 0] = np.nan
    cases = {
        r"combined\.safetensors is damaged: states has values that are NaN": {"states_CD": with_nan},
        r"its sizes do not match combined\.safetensors": {"states_CD": fitted.states_CD[:1]},
        r"states has 5 columns, but the encoder in encoder/ has \d+ numbers": {"states_CD": fitted.states_CD[:, :5]},
        r"combined\.json is damaged: read_out = 'last' is not a read-out": {"read_out": "last"},
        r"combined\.json is damaged: max_tokens = 0 is not": {"max_tokens": 0},
    }
    for number, (message, changes) in enumerate(cases.items()):
        with pytest.raises(files.DamagedError, match=message):
            terms_and_states.read_with_encoder(written(str(number), **changes))
    for name, message in {
        "combined.safetensors": r"combined\.safetensors is damaged: is missing",
        "encoder/config.json": r"encoder is damaged: it holds no encoder",
    }.items():
        directory = shutil.copytree(sound, tmp_path / name.replace("/", "-"))
        (directory / name).unlink()
        with pytest.raises(files.DamagedError, match=message):
            terms_and_states.read_with_encoder(directory)


def test_it_stands_in_every_race_that_names_no_contestants(toy_race: Any) -> None:
    recipe = replace(toy_race.recipe, contestants=None)
    assert recipe.names(domain=True, general=False) == ("TAPT", "DAPT", "frozen", COMBINED, "TF-IDF")
    assert recipe.names(domain=False, general=False, kind="tokens") == ("TAPT", "frozen", "TF-IDF")
    assert not {"frozen", COMBINED} & {*recipe.names(domain=False, general=False, kind="span")}
    with pytest.raises(ValueError, match=r"TF-IDF \+ encoder does not support tasks of kind 'tokens'"):
        replace(recipe, contestants=(COMBINED,)).names(domain=False, general=False, kind="tokens")


def test_in_a_shortened_race_it_is_the_model_that_the_race_pretrains(toy_race: Any) -> None:
    entries = enter(replace(toy_race.recipe, contestants=None), toy_race.materials)
    for share in (1.0, 0.5):
        cut = shortened(entries, Lengths(adapting=share))
        assert cut.base is not None
        assert [*cut.unadapted] == ["frozen", COMBINED]
        for job in cut.unadapted.values():
            assert job.needs["model"].name == job.needs["fitted"].needs["model"].name == cut.base.name


def test_with_a_budget_it_is_fitted_before_the_first_round_and_compared_with_the_untouched_model(
    toy_race: Any, tmp_path: Path
) -> None:
    given = {split: toy_race.inputs / f"{split}.jsonl" for split in ("dev", "test")}
    heard: list[str] = []
    study = acclimate.race(
        toy_race.inputs / "train.jsonl", **given, model=toy_race.base, contestants=["frozen", COMBINED, "TF-IDF"],
        recipe=toy_race.recipe, max_tokens=32, out=tmp_path / "run", budget="20min", progress=False,
        watch=lambda progress: heard.append(progress.stage),
    )  # fmt: skip
    order = [heard.index(stage) for stage in ("TF-IDF", "frozen", COMBINED, "fine-tune untouched, seed 0")]
    assert order == sorted(order)
    rows = {result.row: result for result in study.report.outcome.results}
    assert {"untouched", "frozen", COMBINED, "TF-IDF"} <= rows.keys()
    assert rows["frozen"].costs["tuning"].seconds > 0, "that of the probe"
    table = (tmp_path / "run" / "table.txt").read_text()
    assert "against untouched" in table.partition("Frozen probes")[0], "beside the scores"
    assert "Against TF-IDF" in table
