"""Options and settings that are given twice, several corpora, the home directory and closed streams."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acclimate import cli
from acclimate.cli import streams
from acclimate.data.as_files import joined_corpora, raw_text
from acclimate.text.documents import read_documents

TABLE = "text,label\n" + "".join(f"the text of row {number},{'ab'[number % 2]}\n" for number in range(40))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ACCLIMATE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "home").mkdir()
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("doctor t.csv --model a --model b", "--model appears 2 times. Give it once"),
        ("race t.csv --dev a.csv --dev=b.csv", "--dev appears 2 times"),
        ("doctor t.csv --corpus=", "--corpus is empty. Give it a value"),
        ("evaluate --max-tokens 64 t.csv --dev=", "--dev is empty. Give it a value"),
        ("race t.csv --model=", "--model is empty. Give it a value"),
        (f"doctor {'a' * 300}.csv", "a name of 304 characters. Check the path"),
        ("race t.csv --dry-run --dry-run", "--dry-run appears 2 times"),
        ("race t.csv margin=-1", "margin = -1.0 is out of range: at least 0 and at most 50 points"),
        ("race t.csv margin=51", "margin = 51.0 is out of range: at least 0 and at most 50 points"),
        ("race t.csv seeds=2 seeds=3", "'seeds' appears twice, as 2 and as 3"),
        ("race t.csv finetune.plan.rate=1e-5 finetune.plan.rate=2e-5", "'finetune.plan.rate' appears twice"),
        ("adapt mlm corpus=a corpus=b", "'corpus' appears twice, as a and as b"),
        ("predict run t.csv --out a.csv --out b.csv", "--out appears 2 times"),
        ("data prepare t.csv --out a --out b", "--out appears 2 times"),
        ("data retrieve t.csv --k 5 --k 6", "--k appears 2 times"),
        ("data retrieve t.csv --corpus t.txt --k 5 k=6", "'k' appears twice, as 6 and as 5"),
        ("study tapter t.csv --model a --model b", "--model appears 2 times"),
        ("analyse heads m --out a --out b", "--out appears 2 times"),
        ("ship run --to a --to b", "--to appears 2 times"),
        ("doctor t.csv --corpus=t.txt --corpus=./t.txt", "--corpus t.txt appears twice"),
        ("doctor t.csv --corpus=~/nowhere.txt", "home/nowhere.txt: there is no such file"),
        ("doctor t.csv --label a --label a", "'a' appears twice as a label"),
        ("doctor \udcff.csv", "the name is not UTF-8, so it cannot be recorded"),
    ],
)
def test_one_line_says_what_is_wrong(here, typed, message):
    (here / "t.txt").write_text("a text\n")
    done = CliRunner().invoke(cli.app, typed.split(" "))
    lines = done.output.strip().splitlines()
    assert done.exit_code == 2
    assert len(lines) == 1
    assert message in lines[0]


def test_several_corpora_are_read_together_without_hidden_folders(here):
    for folder, text in (("a", "one"), ("b", "two"), ("a/.git", "hidden")):
        (here / folder).mkdir()
        (here / folder / "x.txt").write_text(f"the {text} document\n")
    for corpus in (joined_corpora([Path("a"), Path("b/x.txt")]), raw_text([Path("a"), Path("b")])):
        texts = sorted(row.text for row in read_documents(corpus) if hasattr(row, "text"))
        assert texts == ["the one document", "the two document"]


def test_closed_streams_are_no_traceback(monkeypatch):
    monkeypatch.setattr(streams, "_closed", set())
    monkeypatch.setattr(sys, "stdin", None)
    streams.open_closed()
    with sys.stdin as stream:
        assert stream.read() == ""
    streams.check_open("stdout", "Open it")
    with pytest.raises(ValueError, match=r"standard input is closed\. Open it"):
        streams.check_open("stdin", "Open it")
    program = (
        "import sys; from acclimate.cli.verb import errors_printed\nwith errors_printed():\n    print('x' * 99999)"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert b"BrokenPipe" not in done.stderr
