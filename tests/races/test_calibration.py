"""A model that is handed over has calibrated probabilities, and the labels that it had."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logit

from acclimate.core import files
from acclimate.races.calibration import calibrate, read_calibration
from acclimate.races.report import write_race_pages
from acclimate.shipping.predict import load_predictor, predict
from acclimate.shipping.ship import ship
from acclimate.tasks.prepared import open_prepared
from finished import finished_race, only_baseline
from studies import recorded


def calibrated(run: Path, job: Path, gold: tuple = ()) -> None:
    """Hand the model to use over as a race does."""
    about = files.read_json(run / "use" / "race.json")
    with files.new_directory(run / "copy") as temporary:
        for file in (run / "use").iterdir():
            if file.name != files.MANIFEST:
                shutil.copy(file, temporary / file.name)
        chosen = calibrate(temporary, open_prepared(run / "data"), gold, job)
        files.write_json(temporary / "race.json", about | chosen)
    shutil.rmtree(run / "use")
    (run / "copy").rename(run / "use")


@pytest.mark.parametrize(("kind", "pooling"), [("sequence", "pooler"), ("sequence", "mean"), ("multilabel", "first")])
def test_logits_are_divided_by_the_temperature_and_labels_stay(tmp_path, kind, pooling):
    run = finished_race(tmp_path / "run", kind, pooling=pooling)
    texts = [example.text for example in open_prepared(run / "data").examples("test")]
    before, gold = predict(run, texts), recorded(run).scores[0].gold
    job = run / "jobs" / "fine-tune-dapt-seed-1-0123456789ab"
    calibrated(run, job, gold)
    after, calibration = predict(run, texts), read_calibration(run / "use")
    assert [one.label for one in after] == [one.label for one in before]
    assert not np.isclose(calibration.temperature, 1)
    assert (calibration.rows, calibration.split) == (18, "test")
    for ours, trained in zip(after, before, strict=True):
        calibrated_p, trained_p = (np.array([*one.probabilities.values()]) for one in (ours, trained))
        logits = logit(trained_p) if kind == "multilabel" else np.log(trained_p)
        scaled = np.exp(logits / calibration.temperature)
        expected = scaled / (1 + scaled) if kind == "multilabel" else scaled / scaled.sum()
        np.testing.assert_allclose(calibrated_p, expected, atol=1e-5)
    shipped = ship(run, tmp_path / "shipped")  # which compares the other ways to load it with `predict`
    for one, ours in zip(predict(shipped.path, texts), after, strict=True):
        assert (one.label, one.probabilities) == (ours.label, pytest.approx(dict(ours.probabilities), abs=1e-6))
    assert f"Its probabilities are {calibration.sentence}." in shipped.card.read_text()
    assert load_predictor(shipped.path).asking.about_probabilities == f"Probabilities: {calibration.sentence}"


def test_what_dev_chose_is_kept_and_neither_chosen_nor_measured_again(tmp_path):
    run = finished_race(tmp_path / "run")
    shutil.copytree(run / "use", tmp_path / "trained")
    job, gold = run / "jobs" / "fine-tune-dapt-seed-1-0123456789ab", recorded(run).scores[0].gold
    calibrated(run, job, gold)
    weights = (run / "use" / "model.safetensors").read_bytes()
    write_race_pages(run)
    page = (run / "report.html").read_text()
    assert page.index("Are its probabilities right?</h2>") < page.index(read_calibration(run / "use").sentence)
    assert page.count('id="reliability-title"') == 1
    shutil.rmtree(run / "use")
    shutil.copytree(tmp_path / "trained", run / "use")
    calibrated(run, job, gold[::-1])
    assert (run / "use" / "model.safetensors").read_bytes() == weights
    kept = job / "calibration-test.json"
    kept.write_bytes(kept.read_bytes().replace(b'"rows": 18', b'"rows": 19'))
    with pytest.raises(files.DamagedError, match=r"calibration-test\.json is damaged.*same command"):
        calibrated(run, job, gold)


@pytest.mark.parametrize(("kind", "about"), [("multilabel", True), ("score", False), ("tokens", False)])
def test_a_baseline_with_probabilities_is_calibrated_and_no_other(tmp_path, kind, *, about):
    run = finished_race(tmp_path / "run", kind)
    score = only_baseline(run)
    calibration = read_calibration(run / "baseline")
    assert (calibration is not None) == about
    assert [one.label for one in predict(run, run / "data" / "test.jsonl")] == [*score.predicted]
    if calibration is not None:
        assert (calibration.split, calibration.predictions) == ("dev", 18 * 3)
        assert calibration.after < calibration.before
