"""BLURB's test predictions as files to submit."""

from dataclasses import replace

import pytest

from acclimate.core import files
from acclimate.reading.formats.hoc import HALLMARKS as NAMES
from acclimate.studies import write_tables
from acclimate.studies.blurb_submission import HALLMARKS, predictions
from acclimate.studies.inputs import CONSTANT
from studies import outcome_of_pairs


def test_each_model_seed_and_dataset_has_a_file_and_baselines_have_none(tmp_path):
    made = outcome_of_pairs(names=("GAD", "DDI", "BioASQ"))
    named = tuple(replace(result, row=CONSTANT) if result.row == "baseline" else result for result in made.results)
    write_tables(replace(made, study="blurb", name="blurb", results=named, against=(), means=()), tmp_path)
    written = {path: files.read_json(path) for path in tmp_path.glob("submissions/*/*/*.json")}
    models = [result for result in named if result.row != CONSTANT]
    assert len(written) == sum(len(result.scores) for result in models)
    for score in (score for result in models for score in result.scores if result.row == "more steps"):
        document = written[tmp_path / "submissions" / "more-steps" / f"seed-{score.seed}" / f"{score.task}.json"]
        assert document == {
            "dataset_name": score.task,
            "model_name": "more steps",
            "predictions": dict(zip(score.ids, score.predicted, strict=True)),
        }


@pytest.mark.parametrize(
    ("type", "predicted", "expected"),
    [
        ("NER", (("B-GENE", "I-GENE"), ("O",)), {"0": ["B", "I"], "1": ["O"]}),
        ("PICO", (("I-INT", "O"), ("I-PAR",)), {"0": ["I-INT", "O"], "1": ["I-PAR"]}),
        ("Document Classification", (("cellular energetics",), ()), {"12": ["CE"], "7": []}),
        ("Sentence Similarity", (3.5, 0.0), {"12": 3.5, "7": 0.0}),
        ("Question Answering", ("yes", "no"), {"12": "yes", "7": "no"}),
    ],
)
def test_each_type_of_task_has_its_form(type, predicted, expected):
    assert predictions(type, ("12", "7"), predicted) == expected
    assert HALLMARKS.keys() == {*NAMES}
