from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression, Ridge

from acclimate.core.types import Example, Split, unwatched
from acclimate.methods import probe
from acclimate.models.loading import EMBEDDED, load_tokenizer
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import prepare
from acclimate.tasks.rows import encoded, with_labels
from acclimate.tasks.task import Task

KINDS = ("sequence", "multilabel", "score", "tokens")
ROWS, SIZE, LABELS = 90, 12, 3


def states(seed: int = 0, rows: int = ROWS) -> np.ndarray:
    """(R, D) states whose dimensions have very different scales."""
    generator = np.random.default_rng(seed)
    return (generator.normal(size=(rows, SIZE)) * np.geomspace(0.01, 100, SIZE) + 3).astype(np.float32)


def codes(states_RD: np.ndarray, noise: float = 0.7) -> np.ndarray:
    """(R,) the label that a linear layer on the standardised states gives, with noise."""
    generator = np.random.default_rng(1)
    x_RD = (states_RD - states_RD.mean(0)) / states_RD.std(0)
    outputs_RC = x_RD @ generator.normal(size=(SIZE, LABELS)) + noise * generator.normal(size=(len(x_RD), LABELS))
    return outputs_RC.argmax(1)


def test_the_layer_for_one_label_is_that_of_scikit_learn():
    """lambda / 2 |W|^2 beside a mean over R rows is C = 1 / (lambda R)."""
    states_RD = states()
    label_R = codes(states_RD)
    layer, _ = probe.fit({"mean": states_RD}, label_R, "sequence", LABELS)
    x_RD = (states_RD - states_RD.mean(0)) / states_RD.std(0)
    model = LogisticRegression(C=1 / (layer.strength * ROWS), tol=1e-8, max_iter=5000).fit(x_RD, label_R)
    expected_RC = torch.from_numpy(model.decision_function(x_RD)).softmax(1).numpy()
    assert torch.from_numpy(layer(states_RD)).softmax(1).numpy() == pytest.approx(expected_RC, abs=2e-3)


def test_rows_of_one_group_are_in_one_fold_and_rare_labels_are_spread():
    """Words of a sentence are alike: in other folds they would be judged by what a fit learnt of the sentence."""
    generator = np.random.default_rng(3)
    groups_R = np.repeat(np.arange(40), 6)
    target_R = generator.integers(0, 2, len(groups_R))
    target_R[::24] = 2  # ten groups have a word of a rare label
    fold_R = probe.folds_of(target_R, groups_R)
    assert all(len(set(fold_R[groups_R == group])) == 1 for group in range(40))
    assert np.bincount(fold_R).tolist() == [48] * 5
    assert np.bincount(fold_R[target_R == 2]).tolist() == [2] * 5
    alone = probe.folds_of(target_R)
    assert (probe.folds_of(target_R, generator.permutation(len(target_R))) == alone).all(), "each row is a group"
    assert (probe.folds_of(target_R, np.zeros(len(target_R))) == alone).all(), "fewer groups than folds"


def test_what_is_the_same_in_all_words_of_a_sentence_teaches_a_probe_nothing():
    """Tags drawn by sentence: on words of sentences that it has seen a weak penalty would be right by heart."""
    generator = np.random.default_rng(0)
    groups_R = np.repeat(np.arange(60), 8)
    states_RD = (generator.normal(size=(60, 30))[groups_R] + 0.1 * generator.normal(size=(480, 30))).astype(np.float32)
    target_R = generator.integers(0, 2, 60)[groups_R]
    (by_heart, _), (judged, _) = (
        probe.fit({"pieces": states_RD}, target_R, "tokens", 2, groups_R=groups) for groups in (None, groups_R)
    )
    assert by_heart.loss < 0.5 < np.log(2) - 0.05 < judged.loss


def test_the_layer_for_several_labels_is_a_logistic_regression_each():
    states_RD = states()
    has_RC = np.stack([codes(states_RD) == 0, codes(states_RD) != 1], axis=1).astype(np.float32)
    layer, _ = probe.fit({"mean": states_RD}, has_RC, "multilabel", 2)
    x_RD = (states_RD - states_RD.mean(0)) / states_RD.std(0)
    for label in range(2):
        model = LogisticRegression(C=1 / (layer.strength * ROWS * 2), tol=1e-8, max_iter=5000)
        expected_R = model.fit(x_RD, has_RC[:, label]).predict_proba(x_RD)[:, 1]
        found_R = 1 / (1 + np.exp(-layer(states_RD)[:, label]))
        assert found_R == pytest.approx(expected_R, abs=2e-3)


@pytest.mark.parametrize("rows", [ROWS, SIZE - 2])  # and fewer than there are dimensions
def test_the_layer_for_a_number_is_a_ridge_regression_in_the_number_s_unit(rows):
    """lambda |W|^2 beside a mean over R rows is alpha = lambda R."""
    states_RD = states(rows=rows)
    number_R = 500 + 20 * (states_RD[:, 3] / states_RD[:, 3].std()) + np.random.default_rng(2).normal(size=rows)
    layer, losses = probe.fit({"mean": states_RD}, number_R, "score", 1)
    x_RD = (states_RD - states_RD.mean(0)) / states_RD.std(0)
    model = Ridge(alpha=layer.strength * rows).fit(x_RD, number_R)
    assert layer(states_RD)[:, 0] == pytest.approx(model.predict(x_RD), rel=1e-4)
    assert losses["mean"] < 0.05 or rows < ROWS  # in variances


def test_the_read_out_is_the_one_that_bears_the_label():
    states_RD = states()
    label_R = codes(states_RD)
    layer, losses = probe.fit({"first": states(seed=5), "mean": states_RD}, label_R, "sequence", LABELS)
    assert layer.read_out == "mean"
    assert losses["mean"] < np.log(LABELS) < losses["first"] + 0.2


def test_a_dimension_that_is_nearly_constant_does_not_blow_the_layer_up():
    states_RD = states()
    states_RD[:, 5] = 0.1 + 1e-12 * np.random.default_rng(0).normal(size=ROWS)
    layer, _ = probe.fit({"mean": states_RD}, codes(states_RD), "sequence", LABELS)
    others = np.delete(np.abs(layer.weight_CD) * states_RD.std(0), 5, axis=1)
    assert np.abs(layer.weight_CD[:, 5]).max() * 1e-9 < others.max()
    moved_RD = states_RD + np.where(np.arange(SIZE) == 5, 1e-9, 0)
    assert layer(moved_RD) == pytest.approx(layer(states_RD), abs=1e-3)


@pytest.mark.parametrize(
    ("kind", "target_R", "labels"),
    [
        pytest.param("sequence", np.zeros(40, np.int64), 2, id="all rows of one label"),
        pytest.param("sequence", np.array([0] * 39 + [1]), 2, id="a label of one row"),
        pytest.param("sequence", np.array([0, 1, 0]), 2, id="fewer rows than folds"),
        pytest.param("sequence", np.array([1]), 2, id="one row"),
        pytest.param("multilabel", np.zeros((40, 3), np.float32), 3, id="no row has a label"),
        pytest.param("score", np.full(40, 7.5), 1, id="a number that is always the same"),
        pytest.param("score", np.array([1.0, 2.0]), 1, id="two numbers"),
    ],
)
def test_few_or_constant_labels_give_a_layer_of_finite_weights(kind, target_R, labels):
    states_RD = states(rows=len(target_R))
    layer, losses = probe.fit({"mean": states_RD}, target_R, kind, labels)
    outputs_RC = layer(states_RD)
    assert np.isfinite(outputs_RC).all()
    assert np.isfinite(losses["mean"]) == (len(target_R) > 1), "nothing judges a probe of one row"
    if target_R.ndim == 1 and len(np.unique(target_R)) == 1:
        same = outputs_RC.argmax(1) if kind == "sequence" else outputs_RC[:, 0]
        assert same == pytest.approx(target_R)


@pytest.mark.parametrize("read_outs", [("first", "mean"), ("first",)])
def test_states_are_those_of_the_encoder_row_by_row(read_outs, encoder, toy_task):
    """Read alone, without padding, each row has the same first state and the same mean."""
    model, has_pooler = probe.load_encoder(str(encoder))
    assert not has_pooler  # a masked language model is saved without one
    task = toy_task("sequence")
    examples = task.examples("dev")
    rows = encoded(task, "dev", examples, load_tokenizer(encoder))
    found = probe.states_of(model, rows, read_outs)
    assert found.keys() == set(read_outs)
    for row in range(5):
        ids = torch.from_numpy(rows.ids[rows.offsets[row] : rows.offsets[row + 1]])[None]
        with torch.no_grad():
            hidden_TD = model(input_ids=ids).last_hidden_state[0].numpy()
        for name, read_D in (("first", hidden_TD[0]), ("mean", hidden_TD.mean(0))):
            if name in found:
                assert found[name][row] == pytest.approx(read_D, abs=1e-5)


def test_states_of_words_are_those_of_their_first_pieces(encoder, toy_task):
    task = toy_task("tokens")
    examples = task.examples("dev")
    rows = with_labels(encoded(task, "dev", examples, load_tokenizer(encoder)), examples, "tokens", task.labels)
    model, _ = probe.load_encoder(str(encoder))
    states_RD = probe.states_of(model, rows, ("pieces",))["pieces"]
    target_R = probe.probe_targets(rows)
    assert len(states_RD) == len(target_R) == sum(len(example.label) for example in examples)
    assert (target_R >= 0).all()
    row = 3
    ids = torch.from_numpy(rows.ids[rows.offsets[row] : rows.offsets[row + 1]])[None]
    begins_T = rows.tokens["word"][rows.offsets[row] : rows.offsets[row + 1]] >= 0
    before = int((rows.tokens["word"][: rows.offsets[row]] >= 0).sum())
    with torch.no_grad():
        hidden_TD = model(input_ids=ids).last_hidden_state[0].numpy()
    assert states_RD[before : before + begins_T.sum()] == pytest.approx(hidden_TD[begins_T], abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_it_reads_what_an_encoder_knows_opens_the_test_set_last_and_repeats_itself(kind, encoder, toy_task, tmp_path):
    """The layer that is tested is the one that was written."""
    task = toy_task(kind)
    found = [probe.probe(str(encoder), task) for _ in range(2)]
    probe.write_layer(found[1].layer, tmp_path)
    layers = [found[0].layer, probe.read_layer(tmp_path)]
    tests = [
        probe.test_probe(layer, str(encoder), task, by="me", precision="float32", watch=unwatched) for layer in layers
    ]
    assert found[0].learnt
    assert tests[0] == tests[1]
    assert (found[0].dev, found[0].predicted_dev) == (found[1].dev, found[1].predicted_dev)
    gold = [example.label for example in task.examples("dev")]
    assert task.score(gold, found[0].predicted_dev) == found[0].dev
    assert tests[0]["test"] > {"tokens": 0.2}.get(kind, 0.6)  # of words without a neighbour's state
    if kind != "tokens":  # which take ten times as long
        knowing = probe.probe(EMBEDDED, task)
        asked = {"by": "me", "precision": "float32", "watch": unwatched}
        assert probe.test_probe(knowing.layer, EMBEDDED, task, **asked)["test"] > 0.9 > tests[0]["test"] + 0.1


def test_with_a_threshold_of_dev_rare_labels_are_predicted_from_a_lower_probability_on(encoder, toy_task):
    """Biases that are too low by 3 are put right again, and dev then scores at least as before."""
    task = toy_task("multilabel")
    dev = task.examples("dev")
    rows, gold = encoded(task, "dev", dev, load_tokenizer(encoder)), [example.label for example in dev]
    half = probe.probe(str(encoder), task)
    model, _ = probe.load_encoder(str(encoder))
    states_RD = probe.states_of(model, rows, (half.layer.read_out,))[half.layer.read_out]
    low = replace(half.layer, bias_C=half.layer.bias_C - 3.0)
    found = probe.shifted(low, probe.decided(low, states_RD, task))
    shift_C = found.bias_C - low.bias_C
    assert (shift_C > 1).all()
    assert np.ptp(shift_C) == pytest.approx(0, abs=1e-9), "one threshold for all labels"
    scores = [task.score(gold, probe.decoded(layer(states_RD), rows, task)) for layer in (low, found)]
    assert scores[0] < half.dev <= scores[1] + 0.02
    assert probe.probe(str(encoder), task, threshold="dev").dev >= half.dev


def test_a_span_cannot_be_probed(encoder, toy_task):
    with pytest.raises(ValueError, match="a task of kind 'span' cannot be probed"):
        probe.probe(str(encoder), toy_task("span"))


def test_the_two_texts_of_a_pair_are_read_apart_and_compared(tmp_path):
    """The same word twice or two words: the states of all tokens together say little of it."""
    words = ("heart", "pulse", "orbit", "moon", "star", "vein", "house", "river")
    pairs = [(one, other) for one in words for other in words]
    pairs += [(word, word) for word in words] * 6

    def read(path: Path, split: Split) -> list[Example]:
        return [
            Example(f"{split}-{number}", f"the {one}", "same" if one == other else "other", pair=f"the {other}")
            for number, (one, other) in enumerate(pairs)
        ]

    task = Task("alike", "sequence", read, ("same", "other"), metric_named("accuracy"), 32)
    prepared = prepare(task, tmp_path, tmp_path / "data")
    found = probe.probe(str(EMBEDDED), prepared)
    assert found.layer.read_out == "pair"
    assert found.losses["pair"] < found.losses["mean"] / 2
    assert found.dev > 0.95
    tested = probe.test_probe(found.layer, str(EMBEDDED), prepared, by="a test", precision="float32", watch=unwatched)
    assert tested["test"] == found.dev
