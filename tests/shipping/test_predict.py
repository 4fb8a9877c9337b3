"""New texts get what the race's test gave the same texts, from every kind of file and of model."""

import csv
import gzip
import io
import json
import shutil
from dataclasses import replace

import numpy as np
import openpyxl
import pyarrow.parquet as pq
import pytest

from acclimate.core import files
from acclimate.core.types import Checkpoint, label_of
from acclimate.methods import finetune
from acclimate.races.outcome import write_outcome
from acclimate.shipping import predict as predicting
from acclimate.shipping.predict import Predictor, load_predictor, predict, predict_file
from acclimate.shipping.ship import ship
from acclimate.shipping.texts import Asking, asking_of
from acclimate.tasks.prepared import open_prepared
from finished import LABELS, finished_race, only_baseline
from studies import recorded

KINDS = [
    ("sequence", False, "mean"),
    ("sequence", True, "pooler"),
    ("multilabel", False, "pooler"),
    ("score", True, "pooler"),
    ("tokens", False, "pooler"),
    ("span", True, "pooler"),
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: "-".join(map(str, kind)))
def race(request, tmp_path_factory):
    """A finished race of one kind of task, and its kind; not to be changed."""
    kind, paired, pooling = request.param
    run = tmp_path_factory.mktemp("predict") / "run"
    return finished_race(run, kind, paired=paired, pooling=pooling), kind


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return finished_race(tmp_path_factory.mktemp("one-label") / "run")


@pytest.fixture(scope="module")
def loaded(run) -> Predictor:
    return load_predictor(run)


def test_a_test_file_gets_the_predictions_of_the_race_to_the_digit(race, tmp_path):
    run, kind = race
    task = open_prepared(run / "data")
    tested = finetune.test(Checkpoint(run / "use"), task, by="a test", watch=lambda progress: None)
    columns = {"text": "text", "pair": "pair"} if kind == "span" else {}
    made = predict(run, run / "data" / "test.jsonl", **columns)
    assert tuple(one.label for one in made) == tested["predicted"]
    if kind != "score":  # these were predicted one by one
        scored = next(score for score in recorded(run).scores if (score.contestant, score.seed) == ("DAPT", 1))
        assert tuple(one.label for one in made) == scored.predicted
    out = tmp_path / "out.jsonl"
    assert predict_file(run, run / "data" / "test.jsonl", out, **columns).rows == len(made)
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["id"] for row in written] == list(tested["ids"])
    answers = [[answer["answer"] for answer in row["answers"]] for row in written] if kind == "span" else None
    told = answers or [row["predicted"] for row in written]
    assert [label_of(label) for label in told] == list(tested["predicted"])


def test_probabilities_are_of_the_labels_and_sum_to_one(race):
    run, kind = race
    columns = {"text": "text", "pair": "pair"} if kind == "span" else {}
    for made in predict(run, run / "data" / "test.jsonl", **columns):
        if kind == "sequence":
            assert made.probability == made.probabilities[made.label] == max(made.probabilities.values())
            assert sum(made.probabilities.values()) == pytest.approx(1)
        elif kind == "multilabel":
            assert {name for name, found in made.probabilities.items() if found > 0.5} == set(made.label)
        elif kind == "tokens":
            assert len(made.of_words) == len(made.label)
            assert all(1 / 3 - 1e-6 <= found <= 1 for found in made.of_words)
            assert all(made.label[first][2:] == kind for first, _, kind, _ in made.entities)
        elif kind == "span":
            found = [probability for _, probability in made.answers]
            assert found == sorted(found, reverse=True)
            assert 0 < sum(found) <= 1 + 1e-6
        else:
            assert made.probability is None


def test_a_shipment_and_a_checkpoint_predict_as_the_race_does(run, loaded, tmp_path):
    texts = [example.text for example in open_prepared(run / "data").examples("test")]
    expected = loaded.predict(open_prepared(run / "data").examples("test"))
    shipped = ship(run, tmp_path / "out").path
    for model in (shipped, str(shipped), run / "use", loaded):
        assert predict(model, texts) == expected
    (bare := tmp_path / "bare" / "checkpoint").mkdir(parents=True)
    for file in (run / "use").iterdir():
        if file.name != "race.json":  # as fine-tuning by hand leaves a checkpoint
            (bare / file.name).write_bytes(file.read_bytes())
    assert predict(bare.parent, [{"text": text} for text in texts]) == expected


def test_a_flipped_bit_of_a_shipment_or_a_race_is_refused_and_an_edited_card_is_not(run, tmp_path):
    raced = shutil.copytree(run, tmp_path / "run")
    shipped = ship(run, tmp_path / "out").path
    shipped.joinpath("README.md").write_text("My words.")
    predict(shipped, ["word1"])
    for model, place in ((shipped, shipped), (raced, raced / "use")):
        content = bytearray((place / "model.safetensors").read_bytes())
        content[-5] ^= 1
        (place / "model.safetensors").write_bytes(bytes(content))
        with pytest.raises(files.DamagedError, match=r"model\.safetensors is damaged"):
            predict(model, ["word1"])


def test_formats_hold_the_same_rows(run, loaded, tmp_path):
    rows = [{"id": f"é{number}", "text": f'word{number}, "word7"', "more": number} for number in range(5)]
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = {}
    workbook = openpyxl.Workbook()
    for values in (rows[0].keys(), *(row.values() for row in rows)):
        workbook.active.append([*values])
    workbook.save(source.with_suffix(".xlsx"))
    for ending in ("csv", "tsv", "jsonl", "parquet"):
        read = source.with_suffix(".xlsx") if ending == "csv" else source
        predict_file(loaded, read, tmp_path / f"out.{ending}", keep=["more"])
    for ending, delimiter in (("csv", ","), ("tsv", "\t")):
        with open(tmp_path / f"out.{ending}", encoding="utf-8", newline="") as file:
            made[ending] = list(csv.DictReader(file, delimiter=delimiter))
    made["parquet"] = pq.read_table(tmp_path / "out.parquet").to_pylist()
    json_rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    for ending, written in made.items():
        assert [row["id"] for row in written] == [row["id"] for row in rows], ending
        assert [int(row["more"]) for row in written] == [0, 1, 2, 3, 4], ending
        assert [row["predicted"] for row in written] == [row["predicted"] for row in json_rows], ending
        for label in LABELS:
            found = [float(row[f"probability of {label}"]) for row in written]
            assert found == [row["probabilities"][label] for row in json_rows], ending
    assert made["csv"] == made["tsv"]


def test_the_content_of_standard_input_tells_its_format_and_standard_output_is_json_lines(loaded, tmp_path):
    """Of other formats, tests/reading/test_source.py does."""
    text, out = "word1 word2 word3", io.BytesIO()
    content = f"id,text\n1,{text}\n2,{text}\n".encode()
    predict_file(loaded, "-", "-", stdin=io.BytesIO(gzip.compress(content)), stdout=out)
    first, second = map(json.loads, out.getvalue().decode().splitlines())
    expected, _ = predict(loaded, [text, text])
    assert first["predicted"] == second["predicted"] == expected.label
    assert first["probability"] == round(expected.probability, 6)
    (tmp_path / "table.txt").write_bytes(content)
    assert predict(loaded, tmp_path / "table.txt") == [expected, expected]
    made = predict_file(loaded, tmp_path / "table.txt", tmp_path / "out.csv", format="txt")
    assert made.rows == 3  # the user says that a line is a text
    with pytest.raises(ValueError, match=r"standard input begins with 'word1,word2', .* Add --format \(txt for"):
        predict_file(loaded, "-", "-", stdin=io.BytesIO(b"word1,word2\n"))


def test_rows_that_would_lose_a_text_are_refused(loaded):
    for rows in ({"text": ["word1", "word2"]}, {"train": [{"text": "word1"}]}):
        with pytest.raises(ValueError, match="these are not rows but a mapping with"):
            predict(loaded, rows)
    paired = replace(loaded, asking=replace(loaded.asking, paired=True, text="premise", pair="hypothesis"))
    with pytest.raises(ValueError, match=r"row 1: no column 'hypothesis'; the nearest is 'hypotesis'"):
        predict(paired, [{"premise": "word1", "hypotesis": "word2"}])


def test_where_the_record_of_a_model_cannot_be_reached_the_user_states_the_columns(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))  # empty; HF_HUB_OFFLINE is set
    with pytest.raises(
        ValueError, match=r"ada/salts: there is no such folder .* its race\.json is not in the cache.* add --text"
    ):
        asking_of("ada/salts")
    assert asking_of("ada/salts", own_columns=True) == Asking()


def test_a_misspelt_folder_is_asked_of_the_hub_once_and_not_again_and_again(tmp_path, monkeypatch):
    """The client of the hub tries for half a minute, with a warning for each time."""
    asked = []

    def unreachable(url, **options):
        asked.append(url)
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", unreachable)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *given, **options: pytest.fail("asked again"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shipped").mkdir()
    said = r"^shiped: there is no such folder here; the nearest is 'shipped'\. .* Correct the path"
    with pytest.raises(ValueError, match=said):
        asking_of("shiped")
    assert len(asked) == 1


def test_memory_and_pieces_are_those_of_a_chunk_and_the_order_is_the_files(run, loaded, tmp_path, monkeypatch):
    texts = [example.text for example in open_prepared(run / "data").examples("test")]
    source = tmp_path / "in.txt"
    source.write_text("\n\n".join(texts))
    whole = predict(loaded, source)
    sizes = []
    monkeypatch.setattr(predicting, "CHUNK", 7)
    of_chunk = predicting._predict_chunk
    monkeypatch.setattr(
        predicting,
        "_predict_chunk",
        lambda one, chunk, watch: (sizes.append(len(chunk)), of_chunk(one, chunk, watch))[1],
    )
    in_chunks = predict(loaded, source)
    assert sizes == [7, 7, 7, 7, 2]
    assert [one.label for one in in_chunks] == [one.label for one in whole]
    for one, other in zip(in_chunks, whole, strict=True):
        np.testing.assert_allclose(list(one.probabilities.values()), list(other.probabilities.values()), atol=1e-5)
    monkeypatch.setattr(predicting, "CHARACTERS", 1)
    sizes.clear()
    predict(loaded, source)
    assert sizes == [1] * 30


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ('{"text": "word1"}\n{"text": ""}\n', r"in\.jsonl:2: the text \(column 'text'\) is empty: ''; fill it in"),
        ('{"text": "word1"}\n{"text"\n', r"in\.jsonl:2: not valid JSON at column 8"),
    ],
)
def test_a_bad_row_is_named_before_anything_is_written_and_may_be_left_out(loaded, tmp_path, monkeypatch, rows, told):
    source = tmp_path / "in.jsonl"
    source.write_text(rows)
    with pytest.raises(ValueError, match=f"{told}.*--skip-bad"):
        predict_file(loaded, source, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    made = predict_file(loaded, source, tmp_path / "out.csv", skip_bad=True)
    assert (made.rows, made.left_out) == (1, 1)
    monkeypatch.setattr(predicting, "NAMED", 0)
    many = predict_file(loaded, source, tmp_path / "out.csv", skip_bad=True)
    assert (many.left_out, many.skipped) == (1, ())
    assert [row.place for row in made.skipped] == ["in.jsonl:2"]
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 2


def test_missing_columns_and_files_are_told_with_the_way_out(run, loaded, tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("texts,other\nword1,word2\n")
    recorded = r"\. The race read '{}' \(.*use/race\.json\)"
    said = r"no column 'text'; the nearest is 'texts'.*Name the right one with --text NAME.*" + recorded.format("text")
    with pytest.raises(ValueError, match=said):
        predict_file(loaded, source, "-")
    lines = tmp_path / "in.jsonl"
    lines.write_text('{"text": "word1"}\n')
    damaged = replace(loaded, asking=replace(loaded.asking, text="x"))
    with pytest.raises(ValueError, match=r"in\.jsonl:1: no column 'x'.*" + recorded.format("x")):
        predict_file(damaged, lines, "-")
    with pytest.raises(ValueError, match=r"in\.jsonl:1: no column 'y'") as caught:
        predict_file(loaded, lines, "-", text="y")
    assert "The race read" not in str(caught.value), "the user named it"
    assert len(predict(loaded, source, text="texts")) == 1
    with pytest.raises(ValueError, match="there is no folder"):
        predict_file(loaded, source, tmp_path / "no" / "out.csv", text="texts")
    with pytest.raises(ValueError, match="--keep predicted: the output also has a column of that name"):
        predict_file(loaded, source, "-", keep=["predicted"])
    (tmp_path / "in.txt").write_text("word1\n")
    for name, keep, told in (
        ("in.csv", ["id"], "--keep id: use --id id instead"),
        ("in.csv", ["other", "other"], "--keep other appears twice"),
        ("in.csv", [f"probability of {LABELS[0]}"], "the output also has a column of that name"),
        ("in.txt", ["other"], r"--keep other: .*in\.txt.* has no columns"),
    ):
        with pytest.raises(ValueError, match=told):
            predict_file(loaded, tmp_path / name, "-", text="texts", keep=keep)
    with pytest.raises(ValueError, match="contains no fine-tuned model"):
        predict(tmp_path, ["word1"])
    with pytest.raises(ValueError, match=r"row 1: 'word1': give a mapping with 'text' and 'pair', or a pair of texts$"):
        predict(replace(loaded, asking=replace(loaded.asking, paired=True)), ["word1"])


def test_a_race_without_a_model_to_use_has_nothing_to_predict_with(tmp_path):
    run = finished_race(tmp_path / "run")
    outcome = recorded(run)
    write_outcome(replace(outcome, race=replace(outcome.race, use="", encoder="")), run)
    (run / "use").rename(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match=r"no contestant .* a constant answer, so there is no model to predict"):
        predict(run, ["word1"])


@pytest.mark.parametrize(("kind", "paired", "pooling"), [each for each in KINDS if each[0] != "span"])
def test_a_baseline_to_use_predicts_what_it_was_scored_with(kind, paired, pooling, tmp_path):
    run = finished_race(tmp_path / "run", kind, paired=paired, pooling=pooling)
    score = only_baseline(run, threshold="dev")
    told = []
    made = predict(run, run / "data" / "test.jsonl", watch=lambda progress: told.append(progress.values.get("note")))
    assert tuple(one.label for one in made) == score.predicted
    assert [note for note in told if note] == [f"by {score.contestant}, from {run / 'use'}"]
    assert predict(run / "baseline", [_row(one, kind) for one in open_prepared(run / "data").examples("test")]) == made
    if kind == "sequence":
        assert all(one.probability == max(one.probabilities.values()) for one in made)
        assert all(sum(one.probabilities.values()) == pytest.approx(1) for one in made)
    elif kind == "multilabel":
        assert all({name for name, p in one.probabilities.items() if p > 0.5} == set(one.label) for one in made)
    elif kind == "tokens":
        assert all(one.of_words == () and len(one.words) == len(one.label) for one in made)
        assert any(one.entities for one in made)
    for ending in (".csv", ".parquet", ".jsonl"):
        assert predict_file(run, run / "data" / "test.jsonl", tmp_path / f"out{ending}").rows == len(made)
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [label_of(row["predicted"]) for row in written] == list(score.predicted)
    assert [row["id"] for row in written] == list(score.ids)
    content = bytearray((run / "use" / "baseline.json").read_bytes())
    content[-5] ^= 1
    (run / "use" / "baseline.json").write_bytes(bytes(content))
    with pytest.raises(files.DamagedError, match=r"baseline\.json is damaged"):
        predict(run, ["word1"])


def _row(example, kind):
    return example.text.split() if kind == "tokens" else (example.text, example.pair) if example.pair else example.text


def test_a_contestant_predicts_by_name(toy_race):
    race = recorded(toy_race.run).race
    rows = ["acid", "base salt"]
    best = predict(toy_race.run, rows, contestant=race.encoder)
    assert best == predict(toy_race.run / "encoder", rows)
    assert best != predict(toy_race.run, rows) == predict(toy_race.run, rows, contestant="TF-IDF")
    for model, message in (
        (toy_race.run, "Choose one of: TF-IDF, "),
        (toy_race.run / "use", "contains no finished race"),
    ):
        with pytest.raises(ValueError, match=f"--contestant none: .*{message}"):
            predict(model, rows, contestant="none")


def test_a_race_of_version_0_2_is_refused_in_one_line(tmp_path):
    run = finished_race(tmp_path / "run")
    files.write_json(run / "study.json", {"format": 5, "acclimate": "0.2.0"})
    for use in (lambda: predict(run, ["word1"]), lambda: ship(run, tmp_path / "out")):
        with pytest.raises(ValueError, match=r"run was written by acclimate 0\.2\.0 in format 5, but this version"):
            use()


def test_a_model_that_is_gone_is_not_replaced_by_the_baseline(tmp_path):
    run = finished_race(tmp_path / "run")
    outcome = recorded(run)
    only_baseline(run)
    write_outcome(outcome, run)
    shutil.rmtree(run / "use")
    with pytest.raises(ValueError, match=r"its use/ is missing\. Repeat the command of the race"):
        predict(run, ["word1"])


def test_words_come_as_lists_as_texts_and_a_line_each(tmp_path):
    run = finished_race(tmp_path / "run", "tokens")
    predictor = load_predictor(run)
    expected = predict(predictor, [["word1", "word2"], ["word3"]])
    assert predict(predictor, ["word1 word2", "word3"]) == expected
    [running] = predict(predictor, [" word1,  (word2)."])
    assert running.words == ("word1", ",", "(", "word2", ")", ".")
    assert running == predict(predictor, [list(running.words)])[0]
    begins = [1, 6, 9, 10, 15, 16]
    assert [begin for begin, _ in running.places] == [begins[first] for first, *_ in running.entities] != []
    assert [end for _, end in running.places] == [
        begins[last] + len(running.words[last]) for _, last, *_ in running.entities
    ]
    (tmp_path / "in.conll").write_text("-DOCSTART-\n\nword1 O\nword2 O\n\nword3 B-acid\n")
    (tmp_path / "bare.conll").write_text("word1\nword2\n\n\nword3\n")
    (tmp_path / "in.tsv").write_text("word1\tO\nword2\tO\n\nword3\tB-acid\n")
    (tmp_path / "bare.txt").write_text("word1\nword2\n\nword3\n")
    (tmp_path / "in.txt").write_text("word1   word2\n\nword3\n")
    for name in ("in.conll", "in.tsv", "bare.conll", "bare.txt"):
        assert predict(predictor, tmp_path / name) == expected, name
    with pytest.raises(ValueError, match=r"in\.txt:1: .* For one sentence per line, add --format txt"):
        predict(predictor, tmp_path / "in.txt")
    predict_file(predictor, tmp_path / "in.txt", tmp_path / "out.csv", format="txt")
    [row, _] = csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text()))
    assert row["words"] == "word1 word2"
    assert [(one["begin"], one["end"]) for one in json.loads(row["entities"])] == [(0, 5)]
    assert tuple(row["predicted"].split()) == expected[0].label
    assert [entity["type"] for entity in json.loads(row["entities"])] == [
        kind for _, _, kind, _ in expected[0].entities
    ]
    predict_file(predictor, tmp_path / "in.txt", tmp_path / "out.conll", format="txt")
    [sentences, rest] = (tmp_path / "out.conll").read_text().split("\n\n", 1)
    tags = [tuple(line.split("\t")) for line in sentences.split("\n")]
    assert tags == [*zip(["word1", "word2"], expected[0].label, strict=True)]
    assert rest == f"word3\t{expected[1].label[0]}\n\n"
    with pytest.raises(ValueError, match=r"--keep a: a \.conll file has only words and tags"):
        predict_file(predictor, tmp_path / "in.txt", tmp_path / "out.conll", format="txt", keep=["a"])
    with pytest.raises(ValueError, match=r"row 1: the word 'a b' .* holds a space"):
        predict(predictor, [["a b"]])


def test_questions_in_squads_form_need_no_answers(tmp_path):
    run = finished_race(tmp_path / "run", "span", paired=True)
    predictor = load_predictor(run)
    asked = {"context": "word1 word2 word3", "qas": [{"id": "q1", "question": "word4"}]}
    files.write_json(tmp_path / "in.json", {"data": [{"paragraphs": [asked]}]})
    [expected] = predict(predictor, [{"question": "word4", "context": "word1 word2 word3"}])
    assert predict(predictor, tmp_path / "in.json") == [expected]
    predict_file(predictor, tmp_path / "in.json", tmp_path / "out.parquet")
    [row] = pq.read_table(tmp_path / "out.parquet").to_pylist()
    assert row["id"] == "q1"
    assert [answer["answer"] for answer in row["answers"]] == list(expected.label)
    with pytest.raises(ValueError, match=r"row 1: the question .* is empty"):
        predict(predictor, [{"question": "", "context": "word1"}])


def test_a_relation_is_read_at_its_two_mentions(tmp_path):
    run = finished_race(tmp_path / "run", pooling="mentions")
    predictor = load_predictor(run)
    examples = open_prepared(run / "data").examples("test")
    rows = [{"text": example.text, "spans": [list(span) for span in example.spans]} for example in examples]
    task = open_prepared(run / "data")
    tested = finetune.test(Checkpoint(run / "use"), task, by="a test", watch=lambda progress: None)
    assert tuple(one.label for one in predict(predictor, rows)) == tested["predicted"]
    for spans, told in ((None, r"the mentions \(column 'spans'\) are None"), ([[0, 4], [3, 999]], "from 0 to 11")):
        with pytest.raises(ValueError, match=told):
            predict(predictor, [{"text": "word1 word2", "spans": spans}])


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([], r"race\.json is damaged: it does not contain a JSON object"),
        ({"task": 1.5}, r"race\.json is damaged: its task has no kind, labels, paired"),
        ({"task": {"labels": ["a"], "paired": False}}, r"race\.json is damaged: its task has no kind"),
        ({"task": {"kind": ["sequence"], "labels": ["a"], "paired": False}}, r"race\.json.*task\.kind"),
        ({"task": {"kind": "sequence", "labels": 3, "paired": False}}, r"race\.json.*task\.labels"),
        ({"task": {"kind": "sequence", "labels": ["a", "a"], "paired": False}}, "a label of its task appears twice"),
        ({"task": {"kind": "sequence", "labels": ["a"], "paired": False, "text": ["x"]}}, r"race\.json.*task\.text"),
    ],
)
def test_a_record_of_a_race_that_is_none_is_named(record, said, tmp_path):
    (tmp_path / "race.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match=said):
        asking_of(str(tmp_path))


def test_outputs_that_are_no_numbers_are_refused(loaded):
    bias = loaded.model.classifier.bias
    before = bias.data.clone()
    bias.data[0] = np.inf
    try:
        with pytest.raises(ValueError, match="output for at least one text is NaN or infinite"):
            predict(loaded, ["word1"])
    finally:
        bias.data.copy_(before)
