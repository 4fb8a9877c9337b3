"""The verb `retrieve` on toy files; what it must refuse is in tests/cli/test_bad_commands.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import acclimate
from acclimate import cli
from acclimate.core import files
from acclimate.core.types import Progress
from acclimate.data.retrieve import RetrieveRecipe
from acclimate.text.bm25.selection import open_selection
from acclimate.text.corpus import Corpus

SPLITS = "--dev dev.jsonl --test test.jsonl --corpus general.txt"


@pytest.fixture
def run(toy_inputs, tmp_path, monkeypatch):
    """Calls `acclimate` in a folder with the toy files; gives status and what it said."""
    for file in toy_inputs.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.chdir(tmp_path)

    def call(command: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli.app, command.split())
        return result.exit_code, result.output

    return call


def test_it_writes_a_corpus_who_brought_which_and_a_report(run):
    status, said = run(f"data retrieve train.jsonl {SPLITS} --k 4 --out got")
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


def test_from_python_it_is_one_call_with_the_same_result(run, tmp_path):
    run(f"data retrieve train.jsonl {SPLITS} --k 4 --out got")
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
    with files.hold(tmp_path / "called"):
        script = "import sys, acclimate; acclimate.retrieve('train.jsonl', corpus='general.txt', out='called')"
        other = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert "HeldError" in other.stderr


def test_where_no_test_file_is_given_it_is_split_off_and_sealed(run):
    status, said = run("data retrieve train.jsonl --corpus train.txt --k 3 --out got")
    assert status == 2
    texts = [json.loads(line)["text"] for line in Path("train.jsonl").read_text().splitlines()]
    Path("train.txt").write_text("\n".join(texts))
    status, said = run("data retrieve train.jsonl --corpus train.txt --k 3 --out got")
    assert status == 0, said
    asked = open_selection(Path("got/selection")).queries
    assert asked < len(texts)
    assert f"{len(texts) - asked} documents removed from the corpus because of a dev or test text." in said


def test_it_loads_no_torch(run, tmp_path):
    script = (
        "import sys; from acclimate import cli\n"
        f"sys.argv = ['acclimate', *'data retrieve train.jsonl {SPLITS} --k 2 --out got'.split()]\n"
        "try: cli.main()\n"
        "except SystemExit as end: print(end.code, {'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[-1] == "0 set()", done.stdout + done.stderr
