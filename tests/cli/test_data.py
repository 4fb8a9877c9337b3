"""The verbs `data prepare`, `corpus`, `retrieve` and `fetch`; what they refuse is in test_bad_commands.py."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import acclimate
from acclimate.core import files
from acclimate.core.types import Progress
from acclimate.data.gather import EXAMINATION
from acclimate.data.materials import RawText, corpus_at
from acclimate.data.retrieve import RetrieveRecipe
from acclimate.tasks.prepared import open_prepared
from acclimate.text.bm25.selection import open_selection
from acclimate.text.corpus import Corpus

DATA = Path(__file__).parents[3] / "shared" / "data"
FILES = ("train.jsonl", "--dev", "dev.jsonl", "--test", "test.jsonl", "--max-tokens", "32")
SPLITS = "--dev dev.jsonl --test test.jsonl --corpus general.txt"


@pytest.fixture
def run(toy_inputs, tmp_path, command_line):
    """`command_line` in a folder with the toy files."""
    shutil.copytree(toy_inputs, tmp_path, dirs_exist_ok=True)
    return command_line


def test_a_prepared_task_is_what_a_race_makes_of_the_same_files(run, toy_race):
    status, said = run("data", "prepare", *FILES, "--out", "got")
    assert status == 0, said
    made, raced = open_prepared(Path("got/data")), open_prepared(toy_race.run / "data")
    assert dict(made.hashes) == dict(raced.hashes)
    assert f"train {made.sizes['train']:,}" in said
    assert "Task: got/data" in said
    assert not made.looks()
    assert run("data", "prepare", *FILES, "--out", "got") == (0, said)


def test_rows_that_hold_a_test_text_are_told_and_dropped_on_request(run):
    held = Path("test.jsonl").read_text().splitlines()[0]
    with open("train.jsonl", "a") as file:
        file.write(held + "\n")
    status, said = run("data", "prepare", *FILES, "--out", "kept")
    assert status == 0, said
    assert "doctor: " in said
    assert json.loads(Path("kept", EXAMINATION).read_text())
    assert run("data", "prepare", *FILES, "--leaks", "drop", "--out", "dropped")[0] == 0
    sizes = [open_prepared(Path(run, "data")).sizes["train"] for run in ("kept", "dropped")]
    assert sizes[0] - sizes[1] >= 1
    texts = {example.text for example in open_prepared(Path("dropped/data")).examples("train")}
    assert json.loads(held)["text"] not in texts


def test_the_embedded_dataset_is_prepared(run):
    status, said = run("data", "prepare", "arxiv", "--max-tokens", "64", "--rows", "90", "--out", "got")
    assert status == 0, said
    prepared = open_prepared(Path("got/data"))
    assert (prepared.name, prepared.max_tokens, len(prepared.labels)) == ("arxiv", 64, 9)
    assert dict(prepared.sizes) == {"train": 90, "dev": 180, "test": 2_070}
    Path("arxiv").mkdir()
    status, said = run("data", "prepare", "arxiv", "--out", "other")
    assert status == 2, "a folder of this name is the user's"


def test_a_task_in_place_of_a_file_and_a_file_in_place_of_a_task_are_told(run):
    assert run("data", "prepare", *FILES, "--out", "got")[0] == 0
    for given in ("got", "got/data", "got/data/train.jsonl"):
        status, said = run("evaluate", "somewhere", given)
        assert status == 2
        assert f"{given} belongs to a prepared task, whose test labels are sealed" in " ".join(said.split())
    status, said = run("adapt", "finetune", "model=somewhere", "task=got")
    assert status == 2
    assert "Give its task instead: got/data" in " ".join(said.split())
    status, said = run("adapt", "finetune", "model=somewhere", "task=train.jsonl")
    assert status == 2
    assert "acclimate data prepare train.jsonl --out runs/task" in " ".join(said.split())


def test_corpus_writes_a_corpus_and_a_report_and_does_it_once(run):
    general = Path("general.txt").read_text()
    Path("general.txt").write_text(general + general.upper())
    command = "data corpus general.txt domain.txt least_words=6 near=0 --out got --processes 1"
    status, said = run(*command.split())
    assert status == 0, said
    corpus = Corpus(Path("got/corpus"))
    facts = json.loads(Path("got/preparation.json").read_text())
    assert facts["documents"]["read"] == 800
    assert facts["documents"]["repeated"] >= 280
    assert len(corpus) == facts["kept"]["documents"]
    assert Path("got/report.md").read_text() in said
    assert "Corpus: got/corpus" in said
    assert "the same words as an earlier one," in Path("got/counts.csv").read_text()
    again, repeated = run(*command.split())
    assert (again, repeated) == (0, said)


def test_what_lies_beside_the_corpus_stays_and_the_folder_stands_for_the_corpus_in_it(run):
    """Even under names that writing a corpus once used."""
    neighbour = Path("got/corpus.raw/mine.txt")
    neighbour.parent.mkdir(parents=True)
    neighbour.write_text(Path("domain.txt").read_text())
    status, said = run(*["data", "corpus", "got/corpus.raw", "near=0", "--out", "got", "--processes", "1"])
    assert status == 0, said
    assert neighbour.read_text() == Path("domain.txt").read_text()
    assert not [path.name for path in Path("got").iterdir() if path.name.startswith(".corpus")]
    assert corpus_at(Path("got"), Path("elsewhere")).path == Path("got/corpus")
    assert list(RawText(Path("got"))) == list(Corpus(Path("got/corpus")).documents())


def test_corpus_makes_the_tokens_of_a_model(run, pretrained):
    status, said = run(*f"data corpus domain.txt --out got --processes 1 --model {pretrained}".split())
    assert status == 0, said
    [tokens] = (path for path in Path("got/corpus/tokens").iterdir() if path.is_dir())
    assert f"{json.loads((tokens / 'tokens.json').read_text())['tokens']:,}\n" in said


def test_retrieve_writes_a_corpus_who_brought_which_and_a_report(run):
    status, said = run(*f"data retrieve train.jsonl {SPLITS} --k 4 --out got".split())
    assert status == 0, said
    corpus, selection = Corpus(Path("got/corpus")), open_selection(Path("got/selection"))
    assert len(corpus) == len(selection) > 0
    assert (selection.queries, selection.k) == (60, 4)
    assert Path("got/report.txt").read_text() in said
    assert "Documents: got/corpus" in said
    general = Path("general.txt").read_text().splitlines()
    first = next(corpus.documents())
    assert first.id == f"general.txt:{general.index(first.text) + 1}"
    asked = [json.loads(line)["text"] for line in Path("train.jsonl").read_text().splitlines()]
    assert [selection.query(number)[1] for number in range(60)] == asked


def test_from_python_retrieving_is_one_call_with_the_same_result(run, held, tmp_path):
    run(*f"data retrieve train.jsonl {SPLITS} --k 4 --out got".split())
    notes: list[Progress] = []
    given = {"dev": "dev.jsonl", "test": "test.jsonl", "corpus": "general.txt", "recipe": RetrieveRecipe(k=4)}
    done = acclimate.retrieve("train.jsonl", **given, out="called", watch=notes.append)
    assert done.corpus.hash == Corpus(Path("got/corpus")).hash
    assert done.as_text() == Path("got/report.txt").read_text() == Path("called/report.txt").read_text()
    assert done.selection.documents.tolist() == open_selection(Path("got/selection")).documents.tolist()
    assert {note.stage for note in notes} >= {"examining", "retrieving"}
    assert acclimate.retrieve("train.jsonl", **given, out="called").facts == done.facts
    with pytest.raises(ValueError, match="other settings or inputs"):
        acclimate.retrieve("train.jsonl", **{**given, "recipe": RetrieveRecipe(k=5)}, out="called")
    with held(tmp_path / "called"), pytest.raises(files.HeldError):
        acclimate.retrieve("train.jsonl", **given, out="called")


def test_where_no_test_file_is_given_it_is_split_off_and_sealed(run):
    status, said = run(*["data", "retrieve", "train.jsonl", "--corpus", "train.txt", "--k", "3", "--out", "got"])
    assert status == 2
    texts = [json.loads(line)["text"] for line in Path("train.jsonl").read_text().splitlines()]
    Path("train.txt").write_text("\n".join(texts))
    status, said = run(*["data", "retrieve", "train.jsonl", "--corpus", "train.txt", "--k", "3", "--out", "got"])
    assert status == 0, said
    asked = open_selection(Path("got/selection")).queries
    assert asked < len(texts)
    assert f"{len(texts) - asked} documents removed from the corpus because of a dev or test text." in said


def test_retrieve_loads_no_torch(run, tmp_path):
    script = (
        "import sys; from acclimate import cli\n"
        f"sys.argv = ['acclimate', *'data retrieve train.jsonl {SPLITS} --k 2 --out got'.split()]\n"
        "try: cli.main()\n"
        "except SystemExit as end: print(end.code, {'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[-1] == "0 set()", done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path):
    """A folder with one dataset in it, of the files that only a registered user has."""
    folder = tmp_path / "copy" / "bioasq_yesno_7b"
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.tsv").write_text(f"{split}1\tIs it?\tIt is.\tyes\n{split}2\tWas it?\tIt was not.\tno\n")
    return tmp_path / "copy"


def test_a_copy_is_taken_and_what_is_wanting_is_said(copy, run, tmp_path):
    status, said = run("data", "fetch", "blurb", "--to", tmp_path / "data", "--from", copy)
    assert status == 0, said
    said = " ".join(said.split())
    assert "3 files fetched, 0 already present" in said
    assert "No published hash is known for bioasq_yesno_7b/train.tsv" in said
    assert "GAD: missing: train.tsv, dev.tsv, test.tsv. " in said
    assert f"Fetch it: acclimate data fetch blurb --to {tmp_path / 'data'}." in said
    assert f"acclimate doctor blurb --data {tmp_path / 'data'}" in said


def test_the_doctor_counts_what_is_there_and_ends_with_status_1_where_it_is_not_all(copy, run):
    status, said = run("doctor", "blurb", "--data", copy)
    said = " ".join(said.split())
    assert status == 1
    assert "BioASQ yes/no questions train 670 2 DIFFERS for an unknown reason" in said
    assert "Not read: GAD: " in said
    assert "0 of 3 counts equal the paper's" in said
    assert "12 datasets not read" in said


@pytest.mark.skipif(not DATA.exists(), reason="the datasets are not there")
def test_the_counts_of_dga_are_in_order(run):
    status, said = run("doctor", "dga", "--data", DATA)
    assert status == 0
    said = " ".join(said.split())
    assert "11 of 18 counts equal the paper's, 7 differ for a known reason, 0 for an unknown one" in said
