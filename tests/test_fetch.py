"""`acclimate data fetch` and `acclimate doctor --data`: exit status and what is said."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from acclimate.cli import app

DATA = Path(__file__).parents[2] / "shared" / "data"


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, " ".join(done.output.split())


@pytest.fixture
def copy(tmp_path):
    """A folder with one dataset in it, of the files that only a registered user has."""
    folder = tmp_path / "copy" / "bioasq_yesno_7b"
    folder.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (folder / f"{split}.tsv").write_text(f"{split}1\tIs it?\tIt is.\tyes\n{split}2\tWas it?\tIt was not.\tno\n")
    return tmp_path / "copy"


def test_a_copy_is_taken_and_what_is_wanting_is_said(copy, tmp_path):
    status, said = run("data", "fetch", "blurb", "--to", tmp_path / "data", "--from", copy)
    assert status == 0, said
    assert "3 files fetched, 0 already present" in said
    assert "No published hash is known for bioasq_yesno_7b/train.tsv" in said
    assert "GAD: missing: train.tsv, dev.tsv, test.tsv. " in said
    assert f"Fetch it: acclimate data fetch blurb --to {tmp_path / 'data'}." in said
    assert f"acclimate doctor blurb --data {tmp_path / 'data'}" in said


def test_the_doctor_counts_what_is_there_and_ends_with_status_1_where_it_is_not_all(copy):
    status, said = run("doctor", "blurb", "--data", copy)
    assert status == 1
    assert "BioASQ yes/no questions train 670 2 DIFFERS for an unknown reason" in said
    assert "Not read: GAD: " in said
    assert "0 of 3 counts equal the paper's" in said
    assert "12 datasets not read" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["data", "fetch", "glue", "--to", "x"], "none of the files can be downloaded automatically"),
        (["doctor", "blurb", "--data", "nowhere"], "has none of the folders"),
    ],
)
def test_what_a_user_can_mend_is_told_with_status_2(tmp_path, monkeypatch, words, expected):
    monkeypatch.chdir(tmp_path)
    status, said = run(*words)
    assert status == 2
    assert expected in said


@pytest.mark.skipif(not DATA.exists(), reason="the datasets are not there")
def test_the_counts_of_dga_are_in_order():
    status, said = run("doctor", "dga", "--data", DATA)
    assert status == 0
    assert "11 of 18 counts equal the paper's, 7 differ for a known reason, 0 for an unknown one" in said
