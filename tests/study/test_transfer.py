"""Intermediate tasks ranked for a toy target: what is kept of a pass, what is predicted, what is told."""

import csv
import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer
from typer.testing import CliRunner

import toys
from acclimate import cli
from acclimate.core.types import Document, Example
from acclimate.models.encoder import new_encoder, save_model
from acclimate.models.loading import identity
from acclimate.study import transfer, transfer_features
from acclimate.study.jobs import do
from acclimate.study.launch import dataset_of
from acclimate.study.lock_file import differing
from acclimate.study.transfer import Recipe, recommend
from acclimate.study.transfer_evidence import Moments
from acclimate.study.transfer_features import described, describing, write_rows
from acclimate.study.transfer_matrix import read_matrix
from acclimate.study.transfer_page import as_text, write_pages
from acclimate.study.transfer_predictors import PREDICTORS, Known, count_words, gain, head
from acclimate.study.transfer_tuned import tuned_checkpoints
from acclimate.text.corpus import write_corpus
from acclimate.text.vocabulary import train_tokenizer

TOPICS = [*toys.TOPICS]


def rows(size, label_of, seed):
    """Texts of the three topics in turn; label_of: (topic, generator) -> label."""
    generator = random.Random(seed)
    made = [(topic, toys.text(topic, generator.randint(6, 20), generator)) for topic in TOPICS * (size // 3)]
    return [{"text": text, "label": label_of(topic, generator)} for topic, text in made]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    place = tmp_path_factory.mktemp("model")
    words = " ".join(word for own in (toys.PLAIN, *toys.TOPICS.values()) for word in own)
    tokenizer = train_tokenizer(
        write_corpus([Document("0", f"{words} . " * 3)], place / "corpus"), kind="wordpiece", size=90
    )
    shape = {"layers": 2, "hidden": 32, "heads": 2, "longest": 64, "initializer_range": 0.3}
    encoder = new_encoder(vocabulary_size=len(tokenizer), pad=tokenizer.pad_token_id, seed=0, **shape)
    save_model(encoder, tokenizer, place / "toy")
    return place / "toy"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    place = tmp_path_factory.mktemp("inputs")
    files = {
        "target": rows(90, lambda topic, _: topic, 0),
        "kin": rows(90, lambda topic, _: topic.upper(), 1),
        "noise": rows(90, lambda _, generator: generator.choice("xyz"), 2),
        "other": [{"text": f"b{number} q{number % 7} ?", "label": "pq"[number % 2]} for number in range(60)],
    }
    for name, own in files.items():
        (place / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return place


def settings(inputs, *names):
    return Recipe(candidates=tuple(f"{inputs}/{name}.jsonl" for name in names), rows=60, max_tokens=32, draws=199)


@pytest.fixture(scope="module")
def ranked(inputs, model, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    return recommend(settings(inputs, "noise", "kin", "other"), str(model), f"{inputs}/target.jsonl", out), out


LABELS = {
    "sequence": (("p", "q"), ["p", "q", "q", "p"]),
    "multilabel": (("p", "q"), [("p",), ("p", "q"), (), ("q",)]),
    "score": ((), [1.5, 3.0, -2.0, 0.5]),
    "tokens": (("B", "O"), [("B", "O", "O"), ("O", "B", "O", "B", "O"), ("O",), ("B", "B")]),
    "span": ((), [("artery",), ("moon", "comet"), ("clay",), ("pulse",)]),
}
TEXTS = ["artery the valve", "we found a moon comet", "clay", "small pulse"]


def alone(model, kind, pooling):
    """Features and label columns of each item, each text by itself through transformers."""
    tokenizer, encoder = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).train(False)
    labels, given = LABELS[kind]
    numbers = (np.array(given) - np.mean(given)) / np.std(given) if kind == "score" else []
    features, columns, means = [], [], []
    for place, (text, label) in enumerate(zip(TEXTS, given, strict=True)):
        words = text.split()
        encoded = tokenizer(
            *(["what is it", text] if kind == "span" else [text]), return_offsets_mapping=True, return_tensors="pt"
        )
        offsets, parts = encoded.pop("offset_mapping")[0].tolist(), encoded.sequence_ids(0)
        with torch.no_grad():
            states = encoder(**encoded).last_hidden_state[0].double().numpy()
        means.append(states.mean(0))
        if kind == "tokens":
            starts = np.cumsum([0, *(len(word) + 1 for word in words)])[:-1]
            firsts = [
                next(at for at, (begin, end) in enumerate(offsets) if begin == start and end > begin)
                for start in starts
            ]
            features += [*states[firsts]]
            columns += [[tag == "B", tag == "O"] for tag in label]
        elif kind == "span":
            start = text.index(label[0])
            inside = [
                at
                for at, (begin, end) in enumerate(offsets)
                if parts[at] == 1 and begin < start + len(label[0]) and end > start
            ]
            features += [*states]
            columns += [[at == inside[0], at == inside[-1]] for at in range(len(states))]
        else:
            features.append(states.mean(0) if pooling == "mean" else states[0])
            columns.append([numbers[place]] if kind == "score" else [own == label or own in label for own in labels])
    return np.array(features), np.array(columns, float), np.array(means)


@pytest.mark.parametrize(("kind", "pooling"), [*((kind, "mean") for kind in LABELS), ("sequence", "first")])
def test_kept_sums_are_those_of_every_text_read_alone(kind, pooling, model, tmp_path):
    labels, given = LABELS[kind]
    examples = [Example(str(place), text, label) for place, (text, label) in enumerate(zip(TEXTS, given, strict=True))]
    if kind == "span":
        spans = [
            ((text.index(label[0]), text.index(label[0]) + len(label[0])),)
            for text, label in zip(TEXTS, given, strict=True)
        ]
        examples = [
            Example(e.id, e.text, e.label, pair="what is it", spans=own) for e, own in zip(examples, spans, strict=True)
        ]
    job = describing("toy", str(model), write_rows(examples, kind, labels, tmp_path), max_tokens=64, pooling=pooling)
    found = described(job, tmp_path, do(job, tmp_path))
    features, columns, means = alone(model, kind, pooling)
    with_one = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    assert (found.moments.items, found.rows) == (len(features), 4)
    np.testing.assert_allclose(found.moments.gram_DD, with_one.T @ with_one, atol=1e-3)
    np.testing.assert_allclose(found.moments.cross_DC, with_one.T @ columns, atol=1e-4)
    np.testing.assert_allclose(found.moments.squares_C, (columns**2).sum(0), atol=1e-9)
    np.testing.assert_allclose(found.text_H, means.mean(0), atol=1e-5)
    assert found.flops > 0


def test_the_candidate_whose_labels_follow_the_targets_topics_is_ranked_first(ranked):
    found, _ = ranked
    values = {row.name: row.values for row in found.candidates}
    assert found.first_by("head of A") == ["kin"]
    assert values["kin"]["head of A"] > 0.05 > values["noise"]["head of A"]  # nats an item
    assert values["kin"]["labels of A"] > values["noise"]["labels of A"]
    assert values["kin"]["TextEmb"] > values["other"]["TextEmb"]
    assert [row.values["mean rank"] for row in found.ranked] == sorted(
        (row["mean rank"] for row in values.values()), reverse=True
    )
    assert found.first_by("same kind") == ["noise", "kin", "other"]  # no vote for anyone


def test_words_are_compared_as_scikit_learn_weighs_them():
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    texts = ["the moon the comet was found", "the clay root", "moon and moon and clay"]
    tasks = [Known(str(place), "sequence", 1, count_words([text]), None) for place, text in enumerate(texts)]
    weights = TfidfVectorizer(token_pattern=r"\w+", sublinear_tf=True).fit_transform(texts)

    np.testing.assert_allclose(PREDICTORS["TF-IDF"].measure(tasks), cosine_similarity(weights), atol=1e-12)
    assert PREDICTORS["shared words"].measure(tasks)[0, 1] == pytest.approx(1 / 7)


def test_the_same_again_reads_what_was_kept_and_loads_no_model(ranked, inputs, model, monkeypatch):
    found, out = ranked

    def refuse(*_, **__):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(transfer_features, "load_masked_language_model", refuse)
    again = recommend(settings(inputs, "noise", "kin", "other"), str(model), f"{inputs}/target.jsonl", out)
    assert again == found
    fewer = recommend(settings(inputs, "kin", "other"), str(model), f"{inputs}/target.jsonl", out)
    assert [row.name for row in fewer.candidates] == ["kin", "other"]


def test_a_checkpoint_that_was_fine_tuned_on_a_candidate_adds_the_measure_that_needs_one(ranked, inputs, model):
    _, out = ranked
    recipe = settings(inputs, "noise", "kin")
    recipe = Recipe(**{**vars(recipe), "tuned": (f"kin={model}", f"noise={model}")})
    found = recommend(recipe, str(model), f"{inputs}/target.jsonl", out)
    (one, other) = [row.values["fine-tuned on A"] for row in found.candidates]
    jobs = [place for place in (out / "jobs").iterdir() if place.name.startswith("target-seen")]
    assert one == other  # here the same encoder
    assert "fine-tuned on A" in as_text(found)
    assert len(jobs) == 3  # as it is, and by each of both


def test_checkpoints_of_a_run_are_found_by_model_and_candidate(model, tmp_path):
    key = identity(model)[:12]
    labels = {
        "one": f"fine-tune {key} on kin, seed 0",
        "two": f"fine-tune {key} on kin, seed 1",
        "chain": f"fine-tune {key} on kin, then noise, seed 0",
        "part": f"fine-tune {key} on kin without 3 rows, seed 0",
        "otherwise": f"fine-tune {key} on kin as first task, seed 0",
        "stranger": "fine-tune 0123456789ab on kin, seed 0",
        "unfinished": f"fine-tune {key} on noise, seed 0",
    }
    for name, label in labels.items():
        place = tmp_path / "jobs" / name
        place.mkdir(parents=True)
        (place / "job.json").write_text(json.dumps({"label": label}))
        if name != "unfinished":
            shutil.copytree(model, place / "checkpoint")
    found = tuned_checkpoints([str(tmp_path)], str(model), ["Kin", "noise"])
    assert found == {"Kin": [str(tmp_path / "jobs" / name / "checkpoint") for name in ("one", "two")]}
    with pytest.raises(ValueError, match="holds no checkpoint"):
        tuned_checkpoints([str(tmp_path)], str(model), ["noise"])


def test_the_matrix_that_grid_stilt_writes_is_read_by_its_own_columns(tmp_path):
    path = tmp_path / "stilt.csv"
    columns = "model,target,first,mean,alone_difference,alone_p_holm"
    path.write_text(f"{columns}\ntoy,GAD,baseline,0.7,,\ntoy,GAD,BioASQ,0.8,0.1,0.2\n")
    found = read_matrix(path, "toy")
    assert found.p == {("gad", "bioasq"): 0.2}
    measured = found.among(["gad", "bioasq"])
    np.testing.assert_array_equal(measured, [[np.nan, 0.1], [np.nan, np.nan]])


def test_a_matrix_is_put_beside_the_predictors_and_comes_before_them_for_its_own_targets(
    ranked, inputs, model, tmp_path
):
    _, out = ranked
    names = ("target", "noise", "kin", "other")
    generator = random.Random(0)
    lines = [f"toy,{b},{a},{generator.random() - 0.2:.3f}" for b in names for a in names if b not in (a, "target")]
    path = tmp_path / "stilt.csv"
    path.write_text(
        "\n".join(["model,target,intermediate,difference", *lines, "toy,kin,kin,0.5", "toy,kin,more steps,0.1"])
    )
    recipe = settings(inputs, *names[1:])
    found = recommend(recipe, str(model), f"{inputs}/target.jsonl", out, matrix=path)
    assert {own.target for each in found.checked for own in each.targets} == {"noise", "kin", "other"}
    assert "Nothing is established: no predictor ranks as was measured better than chance does" in found.verdict
    path.write_text(path.read_text() + "\ntoy,target,noise,-0.01\ntoy,target,kin,0.02\n")
    own = recommend(recipe, str(model), f"{inputs}/target.jsonl", out, matrix=path)
    most = "of 2 candidates that the matrix has for target"
    assert own.verdict.startswith(f"Take kin: {most} it gave most, +2.00 points; the matrix does not say whether by")
    proven = replace(own, measured_p={"kin": 0.03}).verdict
    assert proven.startswith(f"Take kin: {most} it gave most, +2.00 points, p 0.030 after Holm.")
    chance = replace(own, measured_p={"kin": 0.9, "noise": 0.01}).verdict
    assert chance.startswith(
        f"Nothing is established: {most}, kin gave most, +2.00 points, which may be chance (p 0.90"
    )
    text, sheet, record = write_pages(tmp_path, own)
    assert text.read_text().rstrip().splitlines()[-1].strip().endswith("predicted.")
    with open(sheet, newline="") as file:
        told = {line["candidate"]: line for line in csv.DictReader(file)}
    assert (told["kin"]["measured_difference"], told["other"]["measured_difference"]) == ("0.02", "")
    assert json.loads(record.read_text())["checked"][0]["p_holm"] <= 1


def test_rows_that_stand_in_the_targets_dev_or_test_are_counted(inputs, model, ranked, tmp_path):
    _, out = ranked
    leaking = [*rows(60, lambda topic, _: topic, 9)]
    stolen = dataset_of(f"{inputs}/target.jsonl", None).splits["test"][:3]
    leaking += [{"text": f"  {row.text.upper()} ", "label": "heart"} for row in stolen]
    (tmp_path / "thief.jsonl").write_text("".join(json.dumps(row) + "\n" for row in leaking))
    recipe = Recipe(candidates=(f"{tmp_path}/thief.jsonl", f"{inputs}/kin.jsonl"), rows=60, max_tokens=32, draws=99)
    found = recommend(recipe, str(model), f"{inputs}/target.jsonl", out)
    kept = dataset_of(f"{tmp_path}/thief.jsonl", None).splits["train"]
    expected = sum(row.text.strip().lower() in {own.text.lower() for own in stolen} for row in kept)
    assert [row.leaks for row in found.candidates] == [expected, 0]
    assert expected > 0


@pytest.mark.parametrize(
    ("candidates", "more", "message"),
    [
        (("kin",), {}, "1 candidates given: two or more"),
        (("kin", "kin"), {}, "given twice"),
        (("kin", "nowhere"), {}, "nowhere.jsonl"),
        (("kin", "noise"), {"tuned": ("kin",)}, "Write NAME=DIR"),
        (("kin", "noise"), {"tuned": ("soil=MODEL",)}, "'soil' is none of the candidates"),
    ],
)
def test_bad_input_is_told_before_any_model_is_loaded(
    candidates, more, message, *, inputs, model, tmp_path, monkeypatch
):
    monkeypatch.setattr(transfer, "do_all", lambda *_, **__: pytest.fail("a pass was begun"))
    more = {name: tuple(each.replace("MODEL", str(model)) for each in own) for name, own in more.items()}
    recipe = Recipe(**{**vars(settings(inputs, *candidates)), **more})
    with pytest.raises(ValueError, match=message):
        recommend(recipe, str(model), f"{inputs}/target.jsonl", tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("target,intermediate\n", "no column 'difference'"),
        ("target,first\n", "no column 'difference', only 'target', 'first'"),
        ("model,target,intermediate,difference\na,x,y,0.1\nb,x,y,0.2\n", "matrix_model=NAME"),
        ("target,intermediate,difference\nx,y,0.1\nX,Y,0.2\n", ":3: a second difference"),
        ("target,intermediate,difference\nx,y,much\n", ":2: difference 'much' is no number"),
    ],
)
def test_a_matrix_that_cannot_be_read_is_refused(content, message, tmp_path):
    (tmp_path / "stilt.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_matrix(tmp_path / "stilt.csv", "toy")


def test_the_command_line_tells_tables_and_last_what_to_take(ranked, inputs, model):
    _, out = ranked
    candidates = f'candidates=["{inputs}/kin.jsonl", "{inputs}/noise.jsonl"]'
    given = ["recommend", "intermediate", str(model), f"{inputs}/target.jsonl", candidates, "rows=60", "max_tokens=32"]
    done = CliRunner().invoke(cli.app, [*given, "--out", str(out)])
    assert done.exit_code == 0, done.output
    told = done.output.split("What to take")[1].split()
    assert told[:3] == ["Nothing", "is", "established:"]
    refused = CliRunner().invoke(cli.app, [*given, "--matrix", "nowhere.csv", "--out", str(out)])
    assert (refused.exit_code, "no such file" in refused.output) == (2, True)


def test_two_processes_come_to_what_one_comes_to(ranked, inputs, model, tmp_path):
    found, out = ranked
    names = ", ".join(f'"{inputs}/{name}.jsonl"' for name in ("noise", "kin", "other"))
    given = [str(model), f"{inputs}/target.jsonl", f"candidates=[{names}]", "rows=60", "max_tokens=32", "draws=199"]
    more = ["--workers", "2", "--threads", "1", "--out", str(tmp_path)]
    done = CliRunner().invoke(cli.app, ["recommend", "intermediate", *given, *more])
    assert done.exit_code == 0, done.output
    kept = [
        {str(file.relative_to(place)): file.read_bytes() for file in sorted(place.glob("jobs/*/sums.safetensors"))}
        for place in (out, tmp_path)
    ]
    assert len(kept[1]) == 4
    assert kept[1].items() <= kept[0].items()
    record = json.loads((tmp_path / "recommended.json").read_text())
    assert record["candidates"] == [*found.record()["candidates"]]
    assert differing(tmp_path) == []  # the lock was written


def test_files_with_other_columns_are_the_same_tasks(ranked, inputs, model, tmp_path):
    """The target by options, as of `evaluate`, a candidate by a table; the passes of the same rows are not repeated."""
    _, out = ranked
    for name in ("target", "kin"):
        (tmp_path / f"{name}.csv").write_text(
            "id,topic,abstract\n"
            + "".join(
                f"{name}:{at},{row['label']},{row['text']}\n"
                for at, row in enumerate(map(json.loads, (inputs / f"{name}.jsonl").read_text().splitlines()), 1)
            )
        )
    there = sorted((out / "jobs").iterdir())
    columns = 'text="abstract", label="topic"'
    given = [
        "recommend",
        "intermediate",
        str(model),
        f"{tmp_path}/target.csv",
        "--text",
        "abstract",
        "--label",
        "topic",
    ]
    given += [f'candidates=[{{train="{tmp_path}/kin.csv", {columns}}}, "{inputs}/noise.jsonl"]']
    done = CliRunner().invoke(cli.app, [*given, "rows=60", "max_tokens=32", "draws=199", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert sorted((out / "jobs").iterdir()) == there
    alike = recommend(settings(inputs, "kin", "noise"), str(model), f"{inputs}/target.jsonl", out)
    assert json.loads((out / "recommended.json").read_text())["candidates"] == [*alike.record()["candidates"]]


def test_heads_and_gains_are_in_nats_an_item_over_a_constant():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(400, 3))
    labels = np.eye(2)[(features[:, 0] > 0).astype(int)]

    own = Moments.of(np.concatenate([features, np.ones((400, 1))], axis=1), labels)
    nothing = Moments.of(np.concatenate([generator.normal(size=(400, 3)), np.ones((400, 1))], axis=1), labels)
    assert gain(own, head(own)) > 0.3
    assert gain(nothing, head(nothing)) < 0.02
    assert (head(own)[-1] == 0).all()


def test_predictors_that_look_at_the_candidate_alone_have_no_part_in_the_mean_rank(ranked):
    found, _ = ranked
    with_more = {row.name: row.values["mean rank"] for row in found.candidates}
    aims = ("TextEmb", "TF-IDF", "shared words", "same kind", "head of A")
    by_hand = {}
    for row in found.candidates:
        places = []
        for name in aims:
            above = [own.values[name] for own in found.candidates]
            larger, equal = sum(v > row.values[name] for v in above), sum(v == row.values[name] for v in above)
            places.append(larger + (equal + 1) / 2)
        by_hand[row.name] = -np.mean(places)
    assert with_more == pytest.approx(by_hand)
