"""A user's questions on the command line: raced, examined, and refused where a verb has no use for them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from acclimate import cli
from acclimate.core import files
from acclimate.data.doctor import examine
from acclimate.models.encoder import new_encoder, save_model
from acclimate.reading.published import published
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.vocabulary import train_tokenizer
from made_up_tasks import WORDS
from squad_files import article, write

ADAPTING = ("tapt.epochs=0.0", "tapt.max_tokens=32", "tapt.plan.steps=2", "tapt.plan.batch=4")
SMALL = (
    "seeds=2",
    *("finetune.epochs=0.0", "finetune.looks=1", "finetune.plan.steps=2", "finetune.plan.batch=4"),
    "search.rates=[1e-3]",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("inputs")
    (place / "words.txt").write_text("\n".join(" ".join(WORDS[at : at + 30]) for at in range(0, 900, 30)))
    tokenizer = train_tokenizer(write_corpus(read_documents(place / "words.txt"), place / "corpus"), size=200)
    shape = {"layers": 1, "hidden": 16, "heads": 2, "vocabulary_size": 200, "longest": 64}
    save_model(new_encoder(**shape, pad=tokenizer.pad_token_id, seed=0), tokenizer, place / "model")
    for split, contexts in (("train", 10), ("dev", 4), ("test", 6)):
        write(place / f"{split}.json", [article(split, contexts)])
    return place


def run(*arguments: object):
    return CliRunner().invoke(cli.app, [str(each) for each in arguments])


def given(inputs: Path) -> list[object]:
    return [inputs / "train.json", "--dev", inputs / "dev.json", "--test", inputs / "test.json", "--max-tokens", 64]


def test_a_race_scores_f1_with_exact_match_beside_it_and_compares_nothing_where_no_encoder_learnt(inputs, tmp_path):
    out = tmp_path / "run"
    done = run(
        *("race", *given(inputs), "--model", inputs / "model", "--out", out, *ADAPTING, 'contestants=["TAPT"]'),
        *(setting for setting in SMALL if not setting.startswith("search.rates")),
        "search.rates=[1e-9]",  # the answers are those of the drawn head
    )
    assert done.exit_code == 0, done.output
    table = (out / "table.txt").read_text()
    heads = table[table.index("Scores on test") :].splitlines()[1:3]
    assert all(word in " ".join(heads) for word in ("F1", "exact", "sd"))
    assert "No encoder has learned the task, so nothing is compared." in table
    about = files.read_json(out / "data" / "task.json")
    assert (about["kind"], about["metric"], about["sizes"]) == ("span", "f1", {"train": 20, "dev": 8, "test": 12})
    assert not (out / "use").exists()


def test_files_that_pose_as_a_published_dataset_are_warned_of(tmp_path):
    place = tmp_path / "data" / "qa" / "squad1.1"
    place.mkdir(parents=True)
    for name, contexts in (("train", 20), ("dev", 10)):
        write(place / f"{name}-v1.1.json", [article(f"{name} {at}", contexts // 10) for at in range(10)])
    found = published("SQuAD 1.1", tmp_path / "data")
    train, test = found.cautions
    assert train.startswith("train has 40 questions, but the paper has 87,599. The files in ")
    assert test.startswith("test has 20 questions, but the paper has 10,570. ")
    warnings = [finding.what for finding in examine(found).findings if finding.level == "warning"]
    assert [caution for caution in found.cautions if caution not in warnings] == []


def test_tlm_is_not_for_questions(inputs, tmp_path):
    model, general = ("--model", inputs / "model"), ("--general", inputs / "words.txt")
    done = run("study", "tlm", *given(inputs), *general, *model, "--out", tmp_path / "run")
    assert done.exit_code == 2, done.output
    assert "TLM" in " ".join(done.output.split())
