from __future__ import annotations

import pytest

from acclimate.methods import tfidf
from acclimate.tasks.prepared import Prepared


def test_c_is_chosen_on_dev_and_test_is_opened_after_that(toy_race, monkeypatch):
    opened, scored = [], []
    examples = Prepared.examples

    def watched(self, split):
        opened.append((split, len(scored)))
        return examples(self, split)

    def made_up(self, gold, predicted):
        scored.append(len(gold))
        return [0.3, 0.8, 0.8, 0.5][len(scored) - 1]

    monkeypatch.setattr(Prepared, "examples", watched)
    monkeypatch.setattr(Prepared, "score", made_up)
    result = tfidf.evaluate(tfidf.Recipe(strengths=(100.0, 1.0, 0.01)), toy_race.materials.task)
    sizes = toy_race.materials.task.sizes
    assert scored == [sizes["dev"]] * 3 + [sizes["test"]]
    assert opened == [("train", 0), ("dev", 0), ("test", 3)]
    assert (result["dev"], result["test"]) == (0.8, 0.5)


def test_the_smallest_c_wins_ties(toy_race, monkeypatch):
    task = toy_race.materials.task
    alone = tfidf.evaluate(tfidf.Recipe(strengths=(0.001,)), task)
    real = Prepared.score
    monkeypatch.setattr(Prepared, "score", lambda self, gold, predicted: 0.5)
    tied = tfidf.evaluate(tfidf.Recipe(strengths=(1000.0, 0.001)), task)
    assert tied["predicted"] == alone["predicted"]
    assert alone["test"] == real(task, alone["gold"], alone["predicted"])


def test_it_learns_the_toy_and_gives_the_same_answer_again(toy_race):
    results = [tfidf.evaluate(tfidf.Recipe(), toy_race.materials.task) for _ in range(2)]
    assert results[0]["test"] > 0.9
    for result in results:
        del result["seconds"]
    assert results[0] == results[1]


def test_it_needs_a_c_to_try(toy_race):
    with pytest.raises(ValueError, match=r"tfidf\.strengths is empty: give at least one C"):
        tfidf.evaluate(tfidf.Recipe(strengths=()), toy_race.materials.task)
