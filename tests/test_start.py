"""A command that answers at once loads nothing heavy: torch alone takes a second."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "tokenizers", "scipy", "sklearn", "pyarrow", "pandas", "matplotlib", "ray", "optuna"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "import acclimate"],
        ["-m", "acclimate", "--help"],
        ["-m", "acclimate", "adapt", "--help"],
        ["-m", "acclimate", "study", "--help"],
        ["-m", "acclimate", "settings", "race"],
    ],
)
def test_start_loads_nothing_heavy(arguments):
    done = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    # every import is a line `import time: own | cumulative | name` on standard error
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert {"acclimate", "acclimate.core"} & names
    assert not names & HEAVY


def test_help_names_the_program_and_its_first_verb():
    done = subprocess.run([sys.executable, "-m", "acclimate", "--help"], capture_output=True, text=True, check=True)
    assert "acclimate" in done.stdout
    assert "race" in done.stdout


REFUSED = {
    "a column": ("race train.csv --text sentnce --label intent", "no column 'sentnce'; the nearest is 'sentence'"),
    "a file": ("race nowhere.csv", "nowhere.csv: there is no such file"),
    "raw text": ("race train.csv --text sentence --label intent --corpus nowhere.txt", "nowhere.txt: there is no such"),
    "a setting": ("race train.csv seeeds=3", "unknown setting 'seeeds'; did you mean 'seeds'?"),
    "a setting of a recipe's file": ("adapt mlm --recipe bad.toml", "bad.toml: unknown setting 'plan.stpes'"),
    "a type": ("adapt mlm plan.steps=many", "plan.steps = 'many' is str, but must be int"),
    "a choice": ("study tlm train.csv vary=rho", "vary = 'rho' is not one of 'retrieval'"),
    "a method": ("adapt mml", "no method is called 'mml'; did you mean 'mlm'?"),
    "a study": ("study stlit model", "No such command 'stlit'."),
    "a setting of a study": ("study stilt model seed=2", "unknown setting 'seed'; did you mean 'seeds'?"),
    "a dataset": ("evaluate model GADD --data .", "no dataset is called 'GADD'; the nearest is 'GAD'"),
    "a tracker": ("race train.csv --text sentence --label intent --track paper", "no tracker is called 'paper'"),
    "a number of seeds": (
        "race train.csv --text sentence --label intent seeds=1",
        "one seed says nothing about chance",
    ),
    "a number out of range": ("adapt mlm plan.rate=0.0", "plan.rate = 0.0 is out of range: above 0"),
    "a budget": ("race train.csv --budget 20parsecs", "budget '20parsecs' is not understood. Write it as 20min"),
    "a metric": (
        "race train.csv --text sentence --label intent --metric f7",
        "no metric is called 'f7'. Known: accuracy",
    ),
    "a contestant": (
        'race train.csv --text sentence --label intent contestants=["TAPPT"]',
        "'TAPPT' is not one of 'TAPT', 'TAPTER'",
    ),
    "a model": (
        "race train.csv --text sentence --label intent --model ./nowhere",
        "./nowhere: there is no such directory, and it is no hub id",
    ),
    "a model of a study": ("study stilt ./nowhere", "./nowhere: there is no such directory"),
    "a verb": ("rcae train.csv", "No such command 'rcae'."),
    "settings": ("settings dga temprature", "unknown setting 'temprature'; did you mean 'temperature'?"),
}
SCRIPT = """
import sys
from acclimate import cli
try:
    cli.main()
except SystemExit as end:
    print(end.code, sorted({"torch", "transformers", "sklearn", "matplotlib", "scipy", "numba"} & set(sys.modules)))
"""


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_misspelt_is_refused_before_anything_heavy_is_imported(case, tmp_path):
    (tmp_path / "train.csv").write_text("sentence,intent\nhello,a\nbye,b\n")
    (tmp_path / "bad.toml").write_text("[plan]\nstpes = 3\n")
    command, told = REFUSED[case]
    words = [sys.executable, "-c", SCRIPT, *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout == "2 []\n", done.stderr
    assert told in " ".join(done.stderr.split())
    assert {path.name for path in tmp_path.iterdir()} == {"train.csv", "bad.toml"}  # no directory is made
