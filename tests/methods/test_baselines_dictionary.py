from __future__ import annotations

from pathlib import Path

import pytest

from acclimate.core import settings
from acclimate.core.types import Example, Split, unwatched
from acclimate.jobs.job import write_result
from acclimate.methods import baselines
from acclimate.races import work
from acclimate.tasks.metrics import METRICS
from acclimate.tasks.prepared import prepare
from acclimate.tasks.task import Task

SPLITS: dict[Split, list[tuple[str, str]]] = {
    "train": [("p53 in mice", "B O O"), ("p53 and IL 2", "B O B I"), ("p53 Mice", "O O"), ("the mice", "O O"),
              ("in a b", "B O O")],
    "dev": [("p53 in Il unseen", "B O B O"), ("P53 MICE", "B O")],
    "test": [("il IL p53", "O B B")],
}  # fmt: skip


def test_a_word_gets_its_most_frequent_tag(tmp_path: Path) -> None:
    def read(path: Path, split: Split) -> list[Example]:
        return [Example(f"{split}-{n}", text, tuple(tags.split())) for n, (text, tags) in enumerate(SPLITS[split])]

    task = prepare(
        Task("genes", "tokens", read, ("B", "I", "O"), METRICS["entity_f1"], 16), tmp_path, tmp_path / "data"
    )
    fitted = baselines.fit_dictionary(task)
    # "in" is O and B once each: the first by name; "Il" and "MICE" are known in small letters; new words are O
    assert fitted.predicted_dev == (("B", "B", "B", "O"), ("B", "O"))
    assert fitted.dev == pytest.approx(2 * 3 / (3 + 4))
    assert fitted.tokens == 14
    tested = baselines.test_baseline(fitted, task, by="me")
    assert tested["predicted"] == (("B", "B", "B"),)
    assert task.looks()[-1]["by"] == "me"


def test_other_kinds_have_no_tags(toy_task) -> None:
    with pytest.raises(ValueError, match="a task of kind 'score' has no word tags"):
        baselines.fit_dictionary(toy_task("score"))


def test_it_tags_the_toy_in_two_jobs_which_know_of_no_strength(toy_task, tmp_path) -> None:
    task, stated = toy_task("tokens"), settings.to_mapping(baselines.TfidfRecipe())
    result = work.terms(out=tmp_path, watch=unwatched, recipe=stated, task=task.path)
    assert result["dev"] > 0.5
    write_result(tmp_path, result)
    given = {"task": task.path, "fitted": tmp_path}
    assert work.test_terms(out=tmp_path, watch=unwatched, by="test word list", **given)["test"] > 0.5
