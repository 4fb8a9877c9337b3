import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from acclimate.core import files, settings
from acclimate.core.types import Example, Split, unwatched
from acclimate.jobs.job import write_result
from acclimate.methods import baselines
from acclimate.methods.baselines import TfidfSetting
from acclimate.races import work
from acclimate.tasks.metrics import METRICS, metric_named
from acclimate.tasks.prepared import Prepared, prepare
from acclimate.tasks.task import Task, classes_in

KINDS = ("sequence", "multilabel", "score")


@pytest.mark.parametrize(("kind", "strength"), [("sequence", 1.0), ("score", 2.0)])
def test_the_strength_is_chosen_on_dev_and_test_is_opened_after_that(kind, strength, toy_task, monkeypatch):
    """Dev scores that are made up: of two equal ones, the stronger regularisation wins."""
    done = []
    examples, unseal, task = Prepared.examples, Prepared.unseal, toy_task(kind)

    def watched(self, split):
        done.append(split)
        return examples(self, split)

    def opened(self, by, **places):
        done.append(f"labels, by {by}")
        return unseal(self, by, **places)

    def made_up(self, gold, predicted):
        done.append(len(gold))
        return [0.3, 0.8, 0.8, 0.5][sum(isinstance(one, int) for one in done) - 1]

    for name, replaced in (("examples", watched), ("unseal", opened), ("score", made_up)):
        monkeypatch.setattr(Prepared, name, replaced)
    recipe = baselines.TfidfRecipe((100.0, 1.0, 0.01), (1.0, 9.0, 2.0), class_weights=("equal",), longest=(2,))
    result = baselines.evaluate(recipe, task, by="me")
    dev, test = task.sizes["dev"], task.sizes["test"]
    assert done == ["train", "dev", dev, dev, dev, "test", "labels, by me", test]
    assert (result["dev"], result["test"]) == (0.8, 0.5)
    assert result["setting"] == TfidfSetting(strength, "equal", 2)


def test_the_preferred_settings_are_tried_first_whatever_is_scored():
    """Strengths, then weights of classes, decide between those that are equally far from the first of each list."""
    recipe = baselines.TfidfRecipe(trials=4)
    assert recipe.tried("sequence") == (
        TfidfSetting(10.0, "balanced", 2),
        TfidfSetting(10.0, "balanced", 1),
        TfidfSetting(10.0, "equal", 2),
        TfidfSetting(1.0, "balanced", 2),
    )
    assert [(one.strength, one.longest) for one in recipe.tried("score")] == [(1.0, 2), (1.0, 1), (10.0, 2), (10.0, 1)]
    assert len(set(baselines.TfidfRecipe().tried("multilabel"))) == 5 * 2 * 2
    stated = baselines.TfidfRecipe(strengths=(3.0,), class_weights=("equal", "balanced"))
    assert stated.tried("sequence")[:2] == (TfidfSetting(3.0, "equal", 2), TfidfSetting(3.0, "equal", 1))


@pytest.mark.parametrize(("weights", "longest"), [("equal", 2), ("balanced", 1)])
@pytest.mark.parametrize("kind", KINDS)
def test_it_predicts_what_plain_scikit_learn_predicts_from_all_terms(kind, weights, longest, toy_task):
    """Terms of one text alone are put together, which must change nothing."""
    task = toy_task(kind)
    fitted = baselines.fit_tfidf(baselines.TfidfRecipe().only(TfidfSetting(3.0, weights, longest)), task)
    names = {each.__name__: each for each in (TfidfVectorizer, LogisticRegression, Ridge, OneVsRestClassifier)}
    plain = eval(fitted.setting.scikit_learn_code(kind), names | {"make_pipeline": make_pipeline})
    gold = [example.label for example in task.examples("train")]
    if kind == "multilabel":
        gold = np.array([[label in labels for label in task.labels] for labels in gold]).astype(int)
    plain.fit([example.text for example in task.examples("train")], gold)
    predicted = plain.predict([example.text for example in task.examples("dev")])
    if kind == "multilabel":
        predicted = [{label for label, has in zip(task.labels, row, strict=True) if has} for row in predicted]
        assert [set(labels) for labels in fitted.predicted_dev] == predicted
    elif kind == "score":
        assert list(fitted.predicted_dev) == pytest.approx(list(predicted), rel=1e-4)  # Ridge iterates
    else:
        assert list(fitted.predicted_dev) == list(predicted)


def test_balanced_classes_find_the_rare_one_and_the_length_of_terms_is_chosen_on_dev(tmp_path):
    """Nine rows of ten are of one class, and only a pair of words tells them apart."""
    words = {"common": "heart beats", "rare": "beats heart"}

    def read(path, split):
        labels = ["rare" if row % 10 == 0 else "common" for row in range(40)]
        return [Example(f"{split}-{row}", f"{words[label]} w{split}{row}", label) for row, label in enumerate(labels)]

    task = prepare(
        Task("rare", "sequence", read, ("common", "rare"), metric_named("macro_f1"), 8), Path(), tmp_path / "data"
    )
    weak = baselines.TfidfRecipe(strengths=(0.01,))
    assert baselines.fit_tfidf(weak, task).setting == TfidfSetting(0.01, "balanced", 2)
    scores = {setting: baselines.fit_tfidf(weak.only(setting), task).dev for setting in weak.tried("sequence")}
    assert [scores[TfidfSetting(0.01, *rest)] for rest in (("balanced", 2), ("equal", 2))] == [
        1.0,
        pytest.approx(18 / 38),
    ]
    assert scores[TfidfSetting(0.01, "balanced", 1)] < 0.9


def test_it_compares_the_texts_of_a_pair():
    pairs = [("the heart beats", "a heart beats"), ("the moon", "the heart"), ("the moon", "it moves"), ("a moon", "")]
    features, rows = baselines.features_of([Example("", text, 0.0, pair=pair) for text, pair in pairs], 1)
    assert rows.shape[1] == features.merge.shape[1] + 1
    first, second = (features.vectorizer.transform(texts) for texts in zip(*pairs, strict=True))
    cosine_R = [cosine_similarity(one, other).item() for one, other in zip(first, second, strict=True)]
    assert cosine_R[0] > cosine_R[1] > cosine_R[2] == cosine_R[3] == 0
    np.testing.assert_allclose(rows[:, [-1]].toarray().ravel(), cosine_R)
    alike = Example("", "the heart moves", 0.0, pair="the heart moves")
    assert features([alike])[:, [-1]].toarray().item() == pytest.approx(1)


def test_a_label_that_all_rows_have_or_none_is_always_or_never_predicted():
    rows = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.2], [0.1, 1.0]])
    gold = [("all", "left"), ("all",), ("all", "left"), ("all",)]
    linear = baselines.FITS["multilabel"](rows, gold, ("left", "none", "all"), TfidfSetting(100.0, "equal", 1))
    assert linear.predict(np.array([[1.0, 0.0], [0.0, 1.0]])) == [("all", "left"), ("all",)]


def test_with_a_threshold_of_dev_each_setting_has_the_one_that_scores_best_and_test_has_the_same(toy_task):
    """Strongly regularised, no label is probable, so that a half predicts next to nothing."""
    task = toy_task("multilabel")
    half, chosen = (
        baselines.evaluate(baselines.TfidfRecipe((0.001,), class_weights=("equal",), threshold=threshold), task)
        for threshold in ("half", "dev")
    )
    assert chosen["dev"] > half["dev"] + 0.2
    assert chosen["test"] > half["test"] + 0.2
    gold = [example.label for example in task.examples("dev")]
    assert task.score(gold, chosen["predicted_dev"]) == chosen["dev"]
    assert len(chosen["predicted"]) == task.sizes["test"]


@pytest.mark.parametrize(
    ("kind", "golds", "answer"),
    [
        ("sequence", ("a", "b", "b"), "b"),
        ("multilabel", (("a", "b"), ("b",), ("b", "c")), ("b",)),
        ("score", (1.0, 2.0, 6.0), pytest.approx(3.0)),
    ],
)
def test_texts_without_a_word_of_two_letters_get_the_most_frequent_label_or_the_mean(kind, golds, answer, tmp_path):
    texts = {"train": ("a b", "3", "é"), "dev": ("c", "d !", "?"), "test": ("x", "words of the usual sort", "7")}

    def read(path, split):
        return [Example(f"{split}-{row}", text, golds[row]) for row, text in enumerate(texts[split])]

    metric = metric_named("pearson" if kind == "score" else "micro_f1")
    labels = sorted({name for gold in golds for name in classes_in(gold)})
    task = prepare(Task("blank", kind, read, tuple(labels), metric, 8), Path(), tmp_path / "data")
    fitted = baselines.fit_tfidf(baselines.TfidfRecipe(), task)
    assert list(fitted.predicted_dev) == [answer] * 3
    assert fitted.predict(task.examples("test")) == [answer] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_read_predicts_as_what_was_written_and_parts_of_two_do_not_go_together(kind, toy_task, tmp_path):
    task = toy_task(kind)
    one, other = (
        baselines.fit_tfidf(baselines.TfidfRecipe().only(TfidfSetting(3.0, "equal", longest)), task).model
        for longest in (1, 2)
    )
    baselines.write_baseline(one, tmp_path)
    examples = task.examples("dev")
    read = baselines.read_baseline(tmp_path)
    np.testing.assert_array_equal(read.outputs(examples), one.outputs(examples))
    assert read.predict(examples) == one.predict(examples)
    weights = (tmp_path / "baseline.safetensors").read_bytes()
    baselines.write_baseline(other, tmp_path)
    for content, told in ((weights, "sizes do not match"), (weights[:-9], r"baseline\.safetensors is damaged")):
        (tmp_path / "baseline.safetensors").write_bytes(content)
        with pytest.raises(files.DamagedError, match=told):
            baselines.read_baseline(tmp_path)


@pytest.mark.parametrize(("kind", "name"), [("sequence", "class_weights"), ("score", "alphas")])
def test_it_needs_something_to_try(kind, name, toy_task):
    with pytest.raises(ValueError, match=rf"tfidf\.{name} is empty. Give at least one value"):
        baselines.fit_tfidf(baselines.TfidfRecipe(**{name: ()}), toy_task(kind))


def test_the_stages_fit_on_dev_and_test_with_what_was_chosen(toy_task, tmp_path):
    task, stated = toy_task("multilabel"), settings.to_mapping(baselines.TfidfRecipe())
    whole = baselines.evaluate(baselines.TfidfRecipe(), task)
    before = len(task.looks())
    result = work.terms(out=tmp_path, watch=unwatched, recipe=stated, task=task.path)
    assert len(task.looks()) == before
    write_result(tmp_path, result)
    tested = work.test_terms(out=tmp_path, watch=unwatched, by="test TF-IDF", task=task.path, fitted=tmp_path)
    assert tested == {name: whole[name] for name in ("ids", "gold", "predicted", "test")}
    assert [whole["dev"], settings.to_mapping(whole["setting"]), whole["tokens"]] == [
        result[name] for name in ("dev", "setting", "tokens")
    ]
    assert result["learnt"]
    assert [look["by"] for look in task.looks()[before:]] == ["test TF-IDF"]


DAMAGE = {
    "longest": ("x", "longest = 'x' is not a number of at least 1"),
    "paired": (1, "paired = 1 is neither true nor false"),
    "terms": ("abc", "terms is not a list of terms"),
    "kind": ("span", "kind = 'span'; known are tokens, search, sequence"),
    "labels": (["a", "a", "b"], "labels has a name twice"),
    "idf": (math.nan, "idf has values that are NaN or infinite"),
    "value": (math.inf, "value has values that are NaN or infinite"),
    "weights": (math.nan, "weights has values that are NaN or infinite"),
    "bias": (math.nan, "bias has values that are NaN"),
    "column": (10**9, "column has numbers that are none of the"),
}


@pytest.mark.parametrize("field", DAMAGE)
def test_a_damaged_baseline_is_named_with_its_file_and_field(field, toy_task, tmp_path):
    value, says = DAMAGE[field]
    baselines.write_baseline(baselines.fit_tfidf(baselines.TfidfRecipe(), toy_task("sequence")).model, tmp_path)
    baselines.read_baseline(tmp_path)
    numbers = load_file(tmp_path / "baseline.safetensors")
    if field in numbers:
        numbers[field].flat[0] = value
        save_file(numbers, tmp_path / "baseline.safetensors")
    else:
        about = files.read_json(tmp_path / "baseline.json")
        files.write_json(tmp_path / "baseline.json", about | {field: value})
    file = "safetensors" if field in numbers else "json"
    with pytest.raises(files.DamagedError, match=rf"baseline\.{file} is damaged: {says}"):
        baselines.read_baseline(tmp_path)


@pytest.mark.parametrize(
    "field", [{"exact": 5}, {"lowered": {"a": 1}}, {"exact": {"a": "B-X"}}, {"new": None}, {"labels": 3}]
)
def test_a_damaged_word_list_is_named_with_its_file(field, tmp_path):
    about = {"kind": "tokens", "labels": ["O"], "exact": {"a": "O"}, "lowered": {}, "new": "O"}
    files.write_json(tmp_path / "baseline.json", about)
    baselines.read_baseline(tmp_path)
    files.write_json(tmp_path / "baseline.json", about | field)
    with pytest.raises(files.DamagedError, match=rf"baseline\.json is damaged: {next(iter(field))}"):
        baselines.read_baseline(tmp_path)


SPLITS: dict[Split, list[tuple[str, str]]] = {
    "train": [("p53 in mice", "B O O"), ("p53 and IL 2", "B O B I"), ("p53 Mice", "O O"), ("the mice", "O O"),
              ("in a b", "B O O")],
    "dev": [("p53 in Il unseen", "B O B O"), ("P53 MICE", "B O")],
    "test": [("il IL p53", "O B B")],
}  # fmt: skip


def test_a_word_gets_its_most_frequent_tag(tmp_path):
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


def test_other_kinds_have_no_tags(toy_task):
    with pytest.raises(ValueError, match="a task of kind 'score' has no word tags"):
        baselines.fit_dictionary(toy_task("score"))


def test_it_tags_the_toy_in_two_jobs_which_know_of_no_strength(toy_task, tmp_path):
    task, stated = toy_task("tokens"), settings.to_mapping(baselines.TfidfRecipe())
    result = work.terms(out=tmp_path, watch=unwatched, recipe=stated, task=task.path)
    assert result["dev"] > 0.5
    write_result(tmp_path, result)
    given = {"task": task.path, "fitted": tmp_path}
    assert work.test_terms(out=tmp_path, watch=unwatched, by="test word list", **given)["test"] > 0.5
