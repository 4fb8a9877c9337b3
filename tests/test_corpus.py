"""The verb `corpus` on toy files."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from acclimate import cli
from acclimate.data.materials import RawText, corpus_at
from acclimate.text.corpus import Corpus


@pytest.fixture
def run(toy_inputs, tmp_path, monkeypatch):
    """Calls `acclimate` in a folder with raw text; gives status and what it said."""
    general = (toy_inputs / "general.txt").read_text()
    (tmp_path / "general.txt").write_text(general + general.upper())
    (tmp_path / "domain.txt").write_text((toy_inputs / "domain.txt").read_text())
    monkeypatch.chdir(tmp_path)

    def call(command: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli.app, command.split())
        return result.exit_code, result.output

    return call


def test_it_writes_a_corpus_and_a_report_and_does_it_once(run):
    command = "data corpus general.txt domain.txt least_words=6 near=0 --out got --processes 1"
    status, said = run(command)
    assert status == 0, said
    corpus = Corpus(Path("got/corpus"))
    facts = json.loads(Path("got/preparation.json").read_text())
    assert facts["documents"]["read"] == 800
    assert facts["documents"]["repeated"] >= 280
    assert len(corpus) == facts["kept"]["documents"]
    assert Path("got/report.md").read_text() in said
    assert "Corpus: got/corpus" in said
    assert "the same words as an earlier one," in Path("got/counts.csv").read_text()
    again, repeated = run(command)
    assert (again, repeated) == (0, said)


def test_what_lies_beside_the_corpus_stays_and_the_folder_stands_for_the_corpus_in_it(run):
    """Even under names that writing a corpus once used."""
    neighbour = Path("got/corpus.raw/mine.txt")
    neighbour.parent.mkdir(parents=True)
    neighbour.write_text(Path("domain.txt").read_text())
    status, said = run("data corpus got/corpus.raw near=0 --out got --processes 1")
    assert status == 0, said
    assert neighbour.read_text() == Path("domain.txt").read_text()
    assert not [path.name for path in Path("got").iterdir() if path.name.startswith(".corpus")]
    assert corpus_at(Path("got"), Path("elsewhere")).path == Path("got/corpus")
    assert list(RawText(Path("got"))) == list(Corpus(Path("got/corpus")).documents())


def test_it_makes_the_tokens_of_a_model(run, toy_race):
    [base] = (toy_race.run / "jobs").glob("pretrain-*")
    status, said = run(f"data corpus domain.txt --out got --processes 1 --model {base / 'checkpoint'}")
    assert status == 0, said
    [tokens] = (path for path in Path("got/corpus/tokens").iterdir() if path.is_dir())
    assert f"{json.loads((tokens / 'tokens.json').read_text())['tokens']:,}\n" in said
