"""What is shipped predicts what was scored, says what it is worth, and takes nothing away."""

import contextlib
import importlib.util
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from huggingface_hub import ModelCard
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled

import finished
import studies
from acclimate.core import files
from acclimate.core.types import label_of
from acclimate.data.examination import FileFacts, Leak
from acclimate.races.outcome import IN_SCIKIT_LEARN, write_outcome
from acclimate.races.report import report_of
from acclimate.races.verdict import without_items
from acclimate.shipping import check, onnx
from acclimate.shipping.hub import push
from acclimate.shipping.onnx import FILE
from acclimate.shipping.predict import predict
from acclimate.shipping.ship import ship
from acclimate.tasks.prepared import Prepared, open_prepared
from finished import finished_race, only_baseline
from studies import recorded

KINDS = [
    *(("sequence", True, "pooler"), ("multilabel", False, "first"), ("sequence", False, "mean")),
    ("score", True, "mean"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished race over one label a text; not to be changed."""
    return finished_race(tmp_path_factory.mktemp("ship") / "run")


@pytest.fixture(autouse=True)
def _one_round(monkeypatch):
    """Of measuring how fast an 8-bit copy is."""
    monkeypatch.setattr(onnx, "ROUNDS", 1)


@pytest.fixture
def race(tmp_path):
    """One to change."""
    return finished_race(tmp_path / "race")


def output_of(code: str, where: Path) -> tuple[dict, str]:
    """Run the code of a card for the shipment at `where`: the names that it leaves and what it prints."""
    names: dict = {"where": str(where)}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace('where = "."', f"where = {str(where)!r}"), names)
    return names, printed.getvalue()


def snippet(card: Path, number: int, where: Path, texts: list[str], pairs: list[str] | None) -> tuple[dict, str]:
    """Run a block of code of the card on these texts: the names that it leaves and what it prints."""
    blocks = re.findall(r"^```python\n(.*?)^```", card.read_text(), re.MULTILINE | re.DOTALL)
    code = "\n".join(blocks[: number + 1])
    second = ', ["What it is compared with.", "And this."]'
    together = '[("A text.", "What it is compared with."), ("Another one.", "And this.")]'  # acclimate's own code
    assert (second in code or together in code) == (pairs is not None)
    code = code.replace(second, f", {pairs!r}").replace('["A text.", "Another one."]', repr(texts))
    code = code.replace(together, repr(list(zip(texts, pairs or texts, strict=True))))
    return output_of(code, where)


def by_pipeline(card: Path, where: Path) -> list:
    """What the card's pipeline says of the card's texts."""
    code = re.findall(r"^```python\n(.*?)^```", card.read_text(), re.MULTILINE | re.DOTALL)[-1]
    assert code.startswith("from transformers import pipeline")
    return eval(output_of(code, where)[1], {"np": np})


@pytest.mark.parametrize(("kind", "paired", "pooling"), KINDS)
def test_the_code_of_the_card_gives_what_was_scored_and_the_pipeline_what_predict_does(
    tmp_path, kind, paired, *, pooling
):
    run = finished_race(tmp_path / "run", kind, paired=paired, pooling=pooling)
    shipped = ship(run, tmp_path / "out", license="cc-by-4.0", language=["en", "de"])
    about = ModelCard(shipped.card.read_text()).data
    assert (about.license, about.language) == ("cc-by-4.0", ["en", "de"])
    assert about.library_name == ("sentence-transformers" if pooling == "mean" else "transformers")
    assert "No licence is stated" not in shipped.card.read_text()
    ways = {way.name: way.takes for way in shipped.ways}
    assert (ways["pipeline"], ways.get("sentence-transformers", False)) == (pooling != "mean", pooling == "mean")
    texts = [("A text.", "What it is compared with.")] if paired else ["A text.", "Another one."]
    expected = predict(shipped.path, texts)
    if ways["pipeline"]:
        said = by_pipeline(shipped.card, shipped.path)
        if kind == "multilabel":
            found = [{one["label"]: one["score"] for one in labels} for labels in said]
            assert found == [pytest.approx(dict(one.probabilities), abs=1e-5) for one in expected]
        else:
            assert [one["label"] for one in said] == [one.label for one in expected]
    assert (shipped.contestant, shipped.seed, shipped.checked) == ("DAPT", 1, 30)
    [scored] = [score for score in recorded(run).scores if (score.contestant, score.seed) == ("DAPT", 1)]
    examples = open_prepared(run / "data").examples("test")
    pairs = [example.pair for example in examples] if paired else None
    _, printed = snippet(shipped.card, 0, shipped.path, [example.text for example in examples], pairs)
    said = [label_of(label) for label in eval(printed)]
    if kind == "score":
        np.testing.assert_allclose(said, scored.predicted, rtol=1e-4)
    else:
        assert [tuple(sorted(label)) if kind == "multilabel" else label for label in said] == list(scored.predicted)
        assert len(set(scored.predicted)) > 1


def test_answers_are_shipped_with_code_that_gives_what_was_scored(tmp_path):
    run = finished_race(tmp_path / "run", "span", paired=True)
    shipped = ship(run, tmp_path / "out")
    card = shipped.card.read_text()
    assert ModelCard(card).data.pipeline_tag == "question-answering"
    assert "pipeline(" not in card  # transformers 5 has none for answers
    [scored] = [score for score in recorded(run).scores if (score.contestant, score.seed) == ("DAPT", 1)]
    [code, *_] = re.findall(r"^```python\n(.*?)^```", card, re.MULTILINE | re.DOTALL)
    asked = '"What is it?", "It is a text."'
    assert asked in code
    compared = 0
    for example, predicted in zip(open_prepared(run / "data").examples("test"), scored.predicted, strict=True):
        if len(example.text.split()) > finished.MAX_TOKENS - 8 or compared == 2:
            continue  # several windows
        compared += 1
        _, printed = output_of(code.replace(asked, f"{example.pair!r}, {example.text!r}"), shipped.path)
        assert printed.strip() == predicted[0]
    assert compared == 2


@pytest.mark.parametrize(
    ("pooling", "why"), [("mentions", "it reads a relation at its two mentions"), ("pair", "it compares")]
)
def test_what_transformers_does_not_load_is_shipped_with_acclimates_code(tmp_path, pooling, why):
    run = finished_race(tmp_path / "run", pooling=pooling, paired=pooling == "pair")
    with pytest.raises(ValueError, match="Ship without --onnx"):
        ship(run, tmp_path / "out", onnx=True)
    shipped = ship(run, tmp_path / "out")
    card = shipped.card.read_text()
    assert f"Transformers alone refuses it, because {why}" in card
    [code] = re.findall(r"^```python\n(.*?)^```", card, re.MULTILINE | re.DOTALL)
    assert set(eval(output_of(code, shipped.path)[1])) <= set(finished.LABELS)
    finished.change_used(run, lambda score: replace(score, predicted=("salt", *score.predicted[1:])))
    with pytest.raises(ValueError, match=r"for 1 of the 30 test texts; the first is test-0"):
        ship(run, tmp_path / "out")


@pytest.mark.parametrize(("words", "told"), [({"license": "My own"}, "--license"), ({"language": ["English"]}, "en")])
def test_a_licence_and_a_language_are_spelt_as_on_the_hub(run, tmp_path, words, told):
    with pytest.raises(ValueError, match=told):
        ship(run, tmp_path / "out", **words)


def test_a_tagger_is_shipped_once_it_gives_words_the_tags_that_were_scored(tmp_path):
    """Sentences of up to 26 words and 24 tokens a row: some are read in windows. The card's code cuts those."""
    run = finished_race(tmp_path / "run", "tokens")
    shipped = ship(run, tmp_path / "out")
    said = by_pipeline(shipped.card, shipped.path)
    assert {entity["entity_group"] for sentence in said for entity in sentence} <= {"acid"}
    [scored] = [score for score in recorded(run).scores if (score.contestant, score.seed) == ("DAPT", 1)]
    card = shipped.card.read_text()
    about = ModelCard(card).data
    assert about.pipeline_tag == "token-classification"
    assert about.eval_results[0].task_type == "token-classification"
    [code, *_] = re.findall(r"^```python\n(.*?)^```", card, re.MULTILINE | re.DOTALL)
    asked = "One sentence of words with spaces between them ."
    assert asked in code
    examples = open_prepared(run / "data").examples("test")
    cut = sum(len(example.text.split(" ")) > finished.MAX_TOKENS - 2 for example in examples)
    ends = {len(example.text.split(" ")) > finished.MAX_TOKENS - 2: at for at, example in enumerate(examples)}
    for at in (0, 1, 2, *ends.values()):
        example, predicted = examples[at], scored.predicted[at]
        words, tags = zip(*eval(output_of(code.replace(asked, example.text), shipped.path)[1]), strict=True)
        assert words == tuple(example.text.split(" "))
        assert len(words) > finished.MAX_TOKENS - 2 or tags == predicted
    assert len(ends) == 2
    assert f"{cut} of the 30 test sentences are longer" in card
    assert "| label | test entities |" in card
    config = files.read_json(shipped.path / "config.json")
    assert config["architectures"] == ["BertForTokenClassification"]
    assert not config.get("problem_type")


@pytest.mark.parametrize(("kind", "paired"), [("sequence", False), ("score", True), ("tokens", False)])
def test_a_baseline_to_use_is_shipped_with_a_card_whose_code_runs(tmp_path, kind, paired):
    run = finished_race(tmp_path / "run", kind, paired=paired)
    score = only_baseline(run)
    with pytest.raises(ValueError, match=rf"--onnx .* {score.contestant} has none\. Ship without it"):
        ship(run, tmp_path / "out", onnx=True)
    shipped = ship(run, tmp_path / "out", license="mit", language=["en"])
    again = ship(run / "baseline", tmp_path / "again", license="mit", language=["en"])
    assert {file.name: file.read_bytes() for file in shipped.path.iterdir()} == {
        file.name: file.read_bytes() for file in again.path.iterdir()
    }
    assert (shipped.contestant, shipped.checked) == (score.contestant, len(score.ids))
    made = predict(shipped.path, run / "data" / "test.jsonl")
    assert tuple(one.label for one in made) == score.predicted
    about = ModelCard(shipped.card.read_text()).data
    assert (about.license, about.language, about.library_name) == ("mit", ["en"], "acclimate")
    assert about.eval_results[0].metric_value == round(score.test, 4)
    assert f"| {score.contestant} (shipped) |" in shipped.card.read_text()
    assert "/home/" not in shipped.card.read_text()
    write_outcome(replace(recorded(run), first_impression=True, rounds=1), run)
    assert "95% interval" not in ship(run, tmp_path / "first").card.read_text()
    [code] = re.findall(r"^```python\n(.*?)^```", shipped.card.read_text(), re.MULTILINE | re.DOTALL)
    assert output_of(code, shipped.path)[1].startswith("[")
    assert {name for name, _ in push(shipped.path, "ada/salts", dry_run=True).files} >= {"baseline.json", "README.md"}


def test_a_baseline_that_says_something_else_is_not_shipped_and_the_card_has_scikit_learns_code(tmp_path):
    run = finished_race(tmp_path / "run")
    score = only_baseline(run)
    outcome = recorded(run)
    code = 'make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(class_weight="balanced"))'
    given = {score.contestant: {IN_SCIKIT_LEARN: code}}
    write_outcome(replace(outcome, race=replace(outcome.race, given=given)), run)
    card = ship(run, tmp_path / "out").card.read_text()
    [_, made] = re.findall(r"^```python\n(.*?)^```", card, re.MULTILINE | re.DOTALL)
    exec(made, names := {"texts": ["one acid", "two base"], "labels": ["a", "b"]})
    assert list(names["model"].predict(["acid"])) == ["a"]
    others = replace(score, predicted=score.predicted[::-1])
    [*results] = (replace(each, scores=(others,) * 2) if not each.encoder else each for each in outcome.results)
    write_outcome(replace(outcome, results=tuple(results)), run)
    with pytest.raises(ValueError, match="model's predictions differ from the scored"):
        ship(run, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_the_directory_is_whole_and_holds_no_pickle_and_no_path_of_this_machine(toy_race, tmp_path):
    to = tmp_path / "out"
    best = recorded(toy_race.run).race.encoder
    shipped = ship(toy_race.run, to, contestant=best)
    files.check_manifest(to)
    there = {file.name for file in to.iterdir()}
    expected = {"README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert expected <= there
    assert {Path(name).suffix for name in there} <= {".md", ".json", ".safetensors", ".toml", ".txt"}
    for file in to.iterdir():
        content = file.read_bytes()
        for place in (toy_race.run, toy_race.inputs, tmp_path, Path.home()):
            assert len(place.parts) < 3 or str(place).encode() not in content, file.name
    config = files.read_json(to / "config.json")
    assert set(config["id2label"].values()) == set(toy_race.materials.task.labels)
    told = files.read_json(toy_race.run / "encoder" / "race.json")
    assert (shipped.contestant, shipped.seed) == (told["contestant"], told["seed"])
    card = shipped.card.read_text()
    assert "pretrained in the same run" in card
    assert not {"LICENSE", "NOTICE"} & there
    assert all(f"| {name}" in card for name in ("untouched", "TAPT", "DAPT", "TF-IDF"))
    assert ModelCard(card).data.pipeline_tag == "text-classification"


def test_the_card_tells_base_command_notes_and_cost(run, tmp_path):
    card = ship(run, tmp_path / "out").card.read_text()
    assert ModelCard(card).data.base_model == finished.BASE
    assert f"acclimate race train.csv --model {finished.BASE} --corpus texts --out salts" in card
    assert "dev was split off by us: 18 rows of train.csv, stratified, seed 0." in card
    assert "The whole race, all contestants and seeds: 1 min of work." in card
    assert "Adapting: 12.0 k tokens, 3.40 GFLOP, 8 s." in card
    assert "/home/ada" not in card


def test_the_card_scores_without_leaked_items(tmp_path):
    run = finished_race(tmp_path / "run", facts={"leaked_test_ids": ["test-0", "test-7", "gone"]})
    card = ship(run, tmp_path / "out").card.read_text()
    assert "2 of the 30 test items stand in the training data. Without them DAPT scores" in card
    others = without_items(report_of(recorded(run)).outcome, {"test-0", "test-7"})
    [left] = [result.scores for result in others.results if result.row == "DAPT"]
    assert f"{sum(score.test for score in left) / 2 * 100:.1f} " in card.partition("Without them DAPT scores")[2][:40]


def test_what_was_examined_before_the_race_is_told_in_short(tmp_path):
    leaks = Leak("train", "test", "near", 2, 2, 2 / 30), Leak("domain", "test", "exact", 0, 0, 0.0)
    read = (FileFacts("/home/ada/train.csv", 13, 12, 1),)
    examined = replace(studies.examination(), leaks=leaks, files=read, leaked={})
    run = finished_race(tmp_path / "run", facts={"examination": examined})
    card = ship(run, tmp_path / "out").card.read_text()
    assert "train.csv (13 rows, 12 accepted)" in card
    assert "| train | test | near | 2 | 6.7% |" in card
    assert "| domain |" not in card
    assert examined.reach in card


@pytest.mark.parametrize(
    ("kind", "scored", "logits", "wrong"),
    [
        ("sequence", "b", [1.0, 1.00001], []),
        ("sequence", "a", [1.0, 1.00001], []),
        ("sequence", "a", [1.0, 1.1], [0]),
        ("sequence", "c", [1.0, 1.0], [0]),
        ("multilabel", ("a",), [1.0, 0.00001], []),
        ("multilabel", ("a",), [1.0, 0.1], [0]),
        ("multilabel", (), [-1.0, -1.0], []),
        ("multilabel", ("a", "c"), [1.0, -1.0], [0]),
    ],
)
def test_only_rounding_may_tell_two_predictions_apart(kind, scored, logits, wrong):
    assert check.differing([scored], np.array([logits]), kind, ["a", "b"]) == wrong


@pytest.mark.parametrize(
    ("scored", "wrong"),
    [(("b", "a", "O"), []), (("a", "a", "O"), []), (("b", "b", "O"), [0]), (("b", "a", "b"), [0]), (("b", "a"), [0])],
)
def test_words_without_a_piece_are_outside_and_only_rounding_may_tell_others_apart(scored, wrong):
    logits_wC = np.array([[1.0, 1.00001, 0.0], [1.0, 0.0, 0.0], [np.nan] * 3])
    assert check.differing([scored], [logits_wC], "tokens", ["a", "b", "O"]) == wrong
    assert check.decoded([logits_wC], "tokens", ["a", "b", "O"]) == [("b", "a", "O")]


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("mean", [0.0, 200.0])
def test_what_tells_two_numbers_apart_depends_on_how_far_the_numbers_spread_not_on_their_unit(unit, mean):
    scored = [unit * (mean + number) for number in (-1.0, 0.0, 1.0)]  # their standard deviation is .8 units
    off = np.array([[scored[0] + 2e-5 * unit], [scored[1] + 2e-4 * unit], [scored[2] - 0.1 * unit]])
    assert check.differing(scored, off, "score", ()) == [1, 2]


def test_numbers_that_are_nearly_one_may_differ_by_what_float32_cannot_hold():
    scored = [2.5, 2.5, 2.5]
    off = np.array([[2.5], [np.nextafter(np.float32(2.5), np.float32(3))], [2.501]])
    assert check.differing(scored, off, "score", ()) == [2]


def test_other_test_texts_than_those_scored_are_refused(race, tmp_path):
    finished.change_used(race, lambda score: replace(score, ids=("another", *score.ids[1:])))
    with pytest.raises(ValueError, match="the test texts have changed since they were scored"):
        ship(race, tmp_path / "out")


def test_a_race_that_has_not_ended_is_refused_with_the_way_out(race, tmp_path):
    with pytest.raises(ValueError, match=r"there is no such directory\. Give the --out of a race"):
        ship(tmp_path / "nowhere", tmp_path / "out")
    (race / "use" / "model.safetensors").write_bytes(b"other")
    with pytest.raises(files.DamagedError, match="is damaged"):
        ship(race, tmp_path / "out")
    (race / "race.outcome.json").unlink()
    with pytest.raises(ValueError, match=r"no finished race: it has no race\.outcome\.json\. Run the same race again"):
        ship(race, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_any_model_that_a_race_hands_over_is_shipped_by_name_and_by_directory(toy_race, tmp_path):
    race = recorded(toy_race.run).race
    assert race.use == "TF-IDF" != race.encoder
    named = ship(toy_race.run, tmp_path / "named", contestant=race.encoder)
    assert named.contestant == race.encoder
    assert f"{race.encoder} is not the model to use of its race. TF-IDF " in named.card.read_text()
    assert ship(toy_race.run / "encoder", tmp_path / "placed").contestant == race.encoder
    weights = [(tmp_path / place / "model.safetensors").read_bytes() for place in ("named", "placed")]
    assert weights[0] == weights[1]
    used = ship(toy_race.run, tmp_path / "used")
    assert (used.contestant, ship(toy_race.run / "use", tmp_path / "again").contestant) == ("TF-IDF", "TF-IDF")
    assert race.use_reason in used.card.read_text()
    message = rf"--contestant TLM: .* has no model of TLM\. Choose one of: TF-IDF, {race.encoder}"
    with pytest.raises(ValueError, match=message):
        ship(toy_race.run, tmp_path / "other", contestant="TLM")
    assert not (tmp_path / "other").exists()


def test_a_model_that_was_never_scored_is_refused(race, tmp_path):
    with files.new_directory(race / "use") as temporary:
        files.write_json(temporary / "race.json", {"contestant": "DAPT", "seed": 7})
    with pytest.raises(ValueError, match=r"use has DAPT, seed 7, but race\.outcome\.json does not"):
        ship(race, tmp_path / "out")


def test_nothing_of_anybody_else_is_replaced(run, tmp_path):
    to = tmp_path / "out"
    to.write_text("a file")
    with pytest.raises(ValueError, match=r"is a file\. Give --to a directory that does not exist yet"):
        ship(run, to)
    to.unlink()
    to.mkdir()
    ship(run, to)  # empty: nothing is lost
    (to / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"former shipment to which notes\.txt was added. Move it away"):
        ship(run, to)
    (tmp_path / "link").symlink_to(to)
    with pytest.raises(ValueError, match="is a link"):
        ship(run, tmp_path / "link")
    with pytest.raises(ValueError, match="exists and is not a former shipment"):
        ship(run, run / "use")
    assert (to / "notes.txt").read_text() == "mine"
    (to / "notes.txt").unlink()
    (to / "README.md").write_text("edited")
    with pytest.raises(ValueError, match=r"former shipment in which README\.md was changed. Move it away"):
        ship(run, to)
    assert (to / "README.md").read_text() == "edited"
    assert ("README.md", len("edited")) in push(to, "ada/salts", dry_run=True).files


def test_a_tokenizer_gives_only_inputs_that_the_model_takes(tmp_path):
    run = finished_race(tmp_path / "run", family="distilbert")
    to = ship(run, tmp_path / "out").path
    loaded = check.load_shipped(to)
    assert loaded.tokenizer.model_input_names == ["input_ids", "attention_mask"]
    assert set(loaded.tokenizer(["word1", "word2"], padding=True)) == {"input_ids", "attention_mask"}


def test_the_int8_copy_and_its_measures_while_the_test_labels_stay_sealed(run, tmp_path, capfd, monkeypatch):
    looked = []
    monkeypatch.setattr(onnx, "ROUNDS", 2)
    monkeypatch.setattr(Prepared, "unseal", lambda *given, **named: looked.append(named))
    before = open_prepared(run / "data").looks()
    shipped = ship(run, tmp_path / "out", onnx=True)
    assert capfd.readouterr() == ("", "")  # exporters like to talk
    assert looked == []
    assert open_prepared(run / "data").looks() == before
    int8 = shipped.int8
    assert sorted(file.name for file in (shipped.path / "onnx").iterdir()) == ["model.onnx", "model_int8.onnx"]
    files.check_manifest(shipped.path)
    task = open_prepared(run / "data")
    texts = [example.text for example in task.examples("test")]
    names, printed = snippet(shipped.card, 1, shipped.path, texts, None)
    same = np.mean(np.array(eval(printed)) == [task.labels[place] for place in names["logits"].argmax(-1)])
    assert same == pytest.approx(int8.agreement, abs=2 / 30)  # activations are scaled batch by batch, and these differ
    assert int8.agreement > 0.7
    assert int8.items == 30
    loaded = check.load_shipped(shipped.path)
    dev = task.examples("dev")
    logits = check.logits_of(dev, loaded.tokenizer, loaded.logits)
    assert int8.dev_float == task.score([x.label for x in dev], check.decoded(logits, task.kind, task.labels))
    assert int8.size == (shipped.path / FILE).stat().st_size
    assert 0 < int8.off_whole <= onnx.rounding(logits) < int8.off
    assert 0.7 < int8.same <= int8.same_whole == 1
    assert int8.size < int8.size_whole == (shipped.path / onnx.WHOLE).stat().st_size
    assert int8.slowest <= int8.faster <= int8.fastest
    results = {way.name: way.result for way in shipped.ways}
    assert results["pipeline"] == "same predictions on 30 test texts"
    assert results["ONNX, 32 bits"] == "same predictions on 100.0% of the dev texts"
    assert results["ONNX, 8 bits"] == f"same predictions on {int8.agreement:.1%} of 30 test texts"
    card = shipped.card.read_text()
    assert "| ONNX, 8 bits | same predictions on" in card
    assert f"{int8.faster:.2f} times as fast" in card
    assert int8.processor in ModelCard(card).text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "pooling"), [("score", "pooler"), ("sequence", "mean"), ("span", "pooler"), ("tokens", "pooler")]
)
def test_the_int8_copy_of_other_outputs_than_a_label(tmp_path, kind, pooling):
    run = finished_race(tmp_path / "run", kind, pooling=pooling, paired=kind == "span")
    shipped = ship(run, tmp_path / "out", onnx=True)
    assert shipped.int8.items == 30
    assert shipped.int8.same_whole == 1 or kind != "span"
    assert 0.5 < shipped.int8.agreement <= 1
    assert shipped.int8.dev_float == pytest.approx(shipped.int8.dev, abs=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["deberta", "deberta-v2", "distilbert", "electra", "modernbert", "roberta"])
def test_families_survive_the_export(tmp_path, family):
    shipped = ship(finished_race(tmp_path / "run", "multilabel", family=family), tmp_path / "out", onnx=True)
    assert shipped.int8.agreement > 0.3  # untrained weights


def test_an_export_that_gives_other_logits_is_refused(run, tmp_path, monkeypatch):
    loaded = check.load_shipped(run / "use")
    monkeypatch.setattr(onnx, "_export", lambda shipped, examples, path: path.write_bytes(b""))
    monkeypatch.setattr(onnx, "_session", lambda path: lambda inputs: loaded.logits(inputs) + 0.5)
    with pytest.raises(ValueError, match=r"differs from PyTorch \(by 0\.5 in logits, round"):
        ship(run, tmp_path / "out", onnx=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_what_an_export_may_differ_by_depends_on_the_logits_scale_not_on_its_unit(scale):
    logits = scale * np.random.default_rng(0).normal(size=400).astype(np.float32)
    assert onnx.rounding(logits) == pytest.approx(onnx.CLOSE * np.ptp(logits), rel=0.1)
    far = logits + np.float32(100 * scale)  # numbers to predict that lie far from 0 are as coarse as float32 is there
    assert 1e-7 * 100 * scale < onnx.rounding(far) - onnx.CLOSE * np.ptp(far) < 1e-5 * 100 * scale


def test_an_export_that_gives_no_numbers_is_refused(run):
    loaded, dev = check.load_shipped(run / "use"), open_prepared(run / "data").examples("dev")
    batches = list(check.batches_of(dev, loaded.tokenizer, "sequence"))
    onnx._check(loaded, batches, loaded.logits)
    with pytest.raises(ValueError, match="by nan"):
        onnx._check(loaded, batches, lambda inputs: loaded.logits(inputs) * np.nan)


def test_where_packages_for_onnx_are_missing_the_error_names_the_extra(run, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(onnx, "find_spec", lambda name: None if name == "onnxruntime" else find(name))
    with pytest.raises(ValueError, match=r'needs onnxruntime, which is not installed.*pip install "acclimate\[onnx\]"'):
        ship(run, tmp_path / "out", onnx=True)
    assert list(tmp_path.iterdir()) == []


class Hub:
    """A hub of this process that writes down what it is asked, or raises."""

    asked: list
    refuses: Exception | None = None

    def create_repo(self, repo, **named):
        Hub.asked.append(("create", repo, named))
        if Hub.refuses:
            raise Hub.refuses
        return SimpleNamespace(repo_id=repo, __str__=lambda self: "")


@pytest.fixture
def hub(monkeypatch):
    Hub.asked, Hub.refuses = [], None
    monkeypatch.setattr("huggingface_hub.HfApi", Hub)
    return Hub


@pytest.fixture(scope="module")
def shipment(run, tmp_path_factory):
    return ship(run, tmp_path_factory.mktemp("push") / "out").path


def refusal(status: int) -> HfHubHTTPError:
    response = SimpleNamespace(status_code=status, headers={}, request=None)
    return HfHubHTTPError("no\nlonger than a line", response=response)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (LocalTokenNotFoundError("none"), "no token that may write.*hf auth login"),
        (refusal(401), "no token that may write.*HF_TOKEN"),
        (refusal(403), "have no token"),
        (refusal(500), "the hub answered 500: no longer than a line"),
        (OfflineModeIsEnabled("off"), "HF_HUB_OFFLINE is set. Unset it to upload"),
        (ConnectionError("no route"), r"cannot be reached \(no route\)"),
        (HFValidationError("bad"), "is not the name of a model on the hub"),
    ],
)
def test_what_keeps_from_pushing_is_told_on_one_line(shipment, hub, error, told):
    hub.refuses = error
    with pytest.raises(ValueError, match=told) as raised:
        push(shipment, "ada/salts")
    assert "\n" not in str(raised.value)
    assert len(hub.asked) == 1


def test_only_whole_shipments_are_pushed(run, shipment, hub, tmp_path):
    with pytest.raises(ValueError, match=r"is not a shipment\. Write one with: acclimate ship RUN --to"):
        push(run / "use", "ada/salts")
    ship(run, tmp_path / "out")
    (tmp_path / "out" / ".env").write_text("a key")
    with pytest.raises(ValueError, match=r"out: \.env is not a file of the shipment\. Move it away"):
        push(tmp_path / "out", "ada/salts")
    (tmp_path / "out" / ".env").unlink()
    (tmp_path / "out" / "runs").symlink_to(run)
    with pytest.raises(ValueError, match="out: runs is a link"):
        push(tmp_path / "out", "ada/salts")
    (tmp_path / "out" / "runs").unlink()
    (tmp_path / "out" / "config.json").write_text(json.dumps({}))
    with pytest.raises(files.DamagedError, match="is damaged"):
        push(tmp_path / "out", "ada/salts")
    assert hub.asked == []
