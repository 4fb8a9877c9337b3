"""A command that answers at once loads nothing heavy: torch alone takes a second."""

import json
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
    "a race": ("report nowhere", "nowhere: there is no such directory. Give the --out of a race"),
    "a race that ended": ("report .", ". holds no scores.json: no race there has come to its end"),
    "a winner": ("ship . --to shipped", ". holds no scores.json: no race there has come to its end"),
    "a race without a start": ("race train.csv --text sentence --label intent", "give a model to start from (--model"),
    "a study to look at": ("study status nowhere", "nowhere: there is no such directory"),
    "a study to verify": ("study verify .", ". has no study.lock.json"),
    "a study to write again": ("study regenerate nowhere", "nowhere: there is no such directory"),
    "a method's texts": ("adapt mlm corpus=nowhere.txt", "nowhere.txt: there is no such file"),
    "a method's model": ("adapt mlm model=./nowhere corpus=t.csv", "./nowhere: there is no such directory"),
    "a method without texts": ("adapt mlm", "no corpus given. Add corpus=PATH"),
    "a method without a model": ("adapt mlm corpus=raw.txt", "no model given. Add model=PATH or model=HUB_ID"),
    "a method's task": ("adapt finetune task=nowhere", "nowhere: there is no such directory of a task"),
    "a method without a task": ("adapt finetune model=some/model", "no task given. Add task=DIR"),
    "a list of words": ("adapt extend word_list=nowhere", "word_list = nowhere: there is no such file"),
    "a temperature": ("adapt dga temperature=-1.0", "temperature = -1.0 is out of range: above 0"),
    "a weight": ("adapt distil weight=0.0", "weight = 0.0 is out of range: above 0, or take the method mlm"),
    "a share": ("adapt mlm masking=2.0", "masking = 2.0 is out of range: above 0 and at most 1"),
    "texts of a vocabulary": ("data vocabulary nowhere.txt", "nowhere.txt: there is no such file"),
    "texts to prepare": ("data corpus raw.txt nowhere.txt", "nowhere.txt: there is no such file"),
    "texts to retrieve from": (
        "data retrieve train.csv --text sentence --label intent --corpus nowhere.txt",
        "nowhere.txt: there is no such file",
    ),
    "a number of documents": (
        "data retrieve train.csv --corpus raw.txt --k 0",
        "k = 0: a query retrieves 1 to 10,000 documents",
    ),
    "texts of an analysis": ("analyse heads some/model --texts nowhere.txt", "nowhere.txt: there is no such file"),
    "a model of an analysis": ("analyse embeddings ./nowhere", "./nowhere: there is no such directory"),
    "texts of a domain": (
        "analyse importance some/model a=raw.txt b=nowhere.txt",
        "nowhere.txt: there is no such file",
    ),
    "files of a study": (
        'study stilt some/model datasets=["nowhere.csv","train.csv"]',
        "nowhere.csv: there is no such file",
    ),
    "a column of a file of a study": (
        'study stilt some/model datasets=[{train="train.csv",text="sentnce",label="intent"},"train.csv"]',
        "no column 'sentnce'; the nearest is 'sentence'",
    ),
    "a study without files": ("study choices some/model", "no datasets given: add --data DIR"),
    "a benchmark": ("study blurb some/model", "the study 'blurb' reads its datasets from a folder: give --data DIR"),
    "the first stage": (
        "study tapter train.csv --text sentence --label intent --model some/model first=nowhere.csv",
        "first = 'nowhere.csv': there is no such file",
    ),
    "a study without a model": (
        "study dga train.csv --text sentence --label intent",
        "the study 'dga' needs a pretrained model: give --model",
    ),
    "a study without texts": ("study pubmedbert", "the study 'pubmedbert' needs raw text of the domain: give --corpus"),
}
FILES = {
    "train.csv": "sentence,intent\nhello,a\nbye,b\n",
    "bad.toml": "[plan]\nstpes = 3\n",
    "raw.txt": "One document.\nAnother one.\n",
}
SECONDS = 1.5  # of processor time, from the start of the interpreter to the refusal
# Each command runs in a fork of one process, which has refused one already and so imported what most of them need. The
# seconds of a command include those of that process.
SCRIPT = """
import json, os, sys, time
from acclimate import cli
said, sys.argv[1:] = sys.argv[1], "race nowhere.csv".split()
try:
    cli.main()
except SystemExit:
    pass
before = time.process_time()
for case, command in json.load(sys.stdin).items():
    if not (child := os.fork()):
        with open(os.path.join(said, case), "w") as file:
            os.dup2(file.fileno(), 2)
        sys.argv[1:] = command.split()
        try:
            code = cli.main()
        except SystemExit as end:
            code = end.code
        heavy = sorted({"torch", "transformers", "sklearn", "matplotlib", "scipy", "numba"} & set(sys.modules))
        print(json.dumps([case, [code, heavy, before + time.process_time()]]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """Case -> exit status, heavy modules that were imported, seconds, and what was said."""
    place, said = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("said")
    for name, content in FILES.items():
        (place / name).write_text(content)
    commands = json.dumps({case: command for case, (command, _) in REFUSED.items()})
    started = [sys.executable, "-c", SCRIPT, str(said)]
    done = subprocess.run(started, input=commands, capture_output=True, text=True, cwd=place, check=True)
    assert {path.name for path in place.iterdir()} == {*FILES}  # no directory is made
    ended = dict(map(json.loads, done.stdout.splitlines()))
    return {case: (*ended[case], (said / case).read_text()) for case in REFUSED}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_misspelt_is_refused_before_anything_heavy_is_imported(case, refused):
    code, heavy, seconds, said = refused[case]
    assert (code, heavy) == (2, []), said
    assert REFUSED[case][1] in " ".join(said.split())
    assert seconds < SECONDS
