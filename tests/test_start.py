"""A command that answers at once loads nothing heavy: torch alone takes a second."""

import ast
import importlib
import inspect
import json
import subprocess
import sys
import textwrap

import pytest
import typer
from typer.testing import CliRunner

import toys
from acclimate import cli
from acclimate.api.settings import schema
from acclimate.cli.settings import EVALUATION
from acclimate.reading.labelled import read_files
from acclimate.studies import STUDIES
from acclimate.tasks.prepared import prepare

HEAVY = {"torch", "transformers", "tokenizers", "scipy", "sklearn", "pyarrow", "pandas", "matplotlib", "ray"}


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


CSV = "train.csv --text sentence --label intent"
# command -> what its one line says
REFUSED_LINES = r"""
race train.csv --text sentnce --label intent -> no column 'sentnce'; the nearest is 'sentence'
race nowhere.csv -> nowhere.csv: there is no such file
race CSV --corpus nowhere.txt -> nowhere.txt: there is no such
race train.csv seeeds=3 -> unknown setting 'seeeds'; did you mean 'seeds'?
adapt mlm --recipe bad.toml -> bad.toml: unknown setting 'plan.stpes'
adapt mlm plan.steps=many -> plan.steps = 'many' is str, but must be int
study tlm train.csv vary=rho -> vary = 'rho' is not one of 'retrieval'
adapt mml -> no method is named 'mml'; did you mean 'mlm'?
study stlit model -> No such command 'stlit'.
study stilt model seed=2 -> unknown setting 'seed'; did you mean 'seeds'?
evaluate model GADD --data . -> no dataset is named 'GADD'; the nearest is 'GAD'
race CSV --track paper -> no tracker is named 'paper'
race CSV seeds=0 -> seeds = 0 is out of range: at least 1 and at most 1000
race CSV seeds=2 adapt_seeds=9 -> adapt_seeds = 9 is more than seeds = 2. Raise seeds, or lower adapt_seeds
evaluate some/model CSV seeds=9 adapt_seeds=9 -> adapt_seeds: evaluate adapts no model. Remove it
adapt mlm plan.rate=0.0 -> plan.rate = 0.0 is out of range: above 0
race train.csv --budget 20parsecs -> budget '20parsecs' is not understood. Write it as 20min
race CSV --metric f7 -> no metric is named 'f7'. Known: accuracy
race CSV --probe-only --budget 3min -> --probe-only does not fine-tune, so a budget has no effect
race CSV folds=5 --budget 3PFLOP -> --folds with --budget: a budget applies to one search
race CSV --until settled --folds 5 -> --until settled with --folds
race CSV until=settled --probe-only -> --until settled with --probe-only
race CSV --learning-curve --folds 5 -> --learning-curve scores on one test set
race CSV --learning-curve --checkpoint ours=some/model -> --checkpoint names models that are not adapted
race CSV contestants=["TAPPT"] -> 'TAPPT' is not one of 'TAPT', 'TAPTER'
race CSV --model ./nowhere -> ./nowhere: there is no such directory, and it is not a hub id
race CSV --checkpoint models/ours -> --checkpoint models/ours: the name is missing. Write NAME=PATH
race CSV --checkpoint ours=./nowhere -> ./nowhere: there is no such directory, and it is not a hub id
study stilt ./nowhere -> ./nowhere: there is no such directory
rcae train.csv -> No such command 'rcae'.
settings dga temprature -> unknown setting 'temprature'; did you mean 'temperature'?
settings dga rate.x -> unknown setting 'rate'
race train.csv pretain.layers=2 -> unknown group of settings 'pretain'; did you mean
report nowhere -> nowhere: there is no such directory. Give the --out of a race
report . -> . has no outcome yet
ship . --to shipped -> . has no outcome yet
race CSV --model scratch -> --model scratch pretrains a small encoder on general text: give --general TEXT
study status nowhere -> nowhere: there is no such directory
study verify . -> . has no study.lock.json
study regenerate nowhere -> nowhere: there is no such directory
adapt mlm corpus=nowhere.txt -> nowhere.txt: there is no such file
adapt mlm model=./nowhere corpus=t.csv -> ./nowhere: there is no such directory
adapt mlm -> no corpus given. Add corpus=PATH
adapt finetune task=nowhere -> nowhere: there is no such directory of a task
adapt finetune model=some/model -> no task given. Add task=DIR
adapt extend word_list=nowhere -> word_list = nowhere: there is no such file
data vocabulary nowhere.txt -> nowhere.txt: there is no such file
data corpus least_words=5 -> no raw text given
data corpus raw.txt --least-words 5 -> there is no such option
data prepare arxiv --config a --out got -> arxiv already defines its files and splits
data prepare SciERC --out got -> --data
data corpus raw.txt nowhere.txt -> nowhere.txt: there is no such file
data retrieve CSV --corpus nowhere.txt -> nowhere.txt: there is no such file
data retrieve train.csv --corpus raw.txt --k 0 -> k = 0: a query retrieves 1 to 10,000 documents
analyse heads some/model --texts nowhere.txt -> nowhere.txt: there is no such file
analyse embeddings ./nowhere -> ./nowhere: there is no such directory
analyse importance some/model a=raw.txt b=nowhere.txt -> nowhere.txt: there is no such file
study stilt some/model datasets=["nowhere.csv","train.csv"] -> nowhere.csv: there is no such file
study stilt some/model datasets=[{train="train.csv",text="sentnce",label="intent"},"train.csv"] -> no column 'sentnce'
study choices some/model -> no datasets given. Add --data DIR
study blurb some/model -> the study 'blurb' reads its datasets from a folder. Add --data DIR
study tapter CSV --model some/model first=nowhere.csv -> first = 'nowhere.csv': there is no such file
study dga CSV -> the study 'dga' needs a pretrained model. Add --model
study pubmedbert -> the study 'pubmedbert' needs raw text of the domain. Add --corpus
study stilt some/model datasets=["train.csv","train.csv"] -> no column 'text'; its columns are ['sentence', 'intent']
study choices some/model datasets=["train.csv"] -> as {train="train.csv", text="...", label="..."}
study pubmedbert --corpus raw.txt --general raw.txt datasets=["train.csv"] -> no column 'text'
data prepare train.csv --text sentnce --label intent -> no column 'sentnce'
data prepare train.csv --text sentence --label intnt -> no column 'intnt'
doctor train.csv --text sentnce --label intent -> no column 'sentnce'
evaluate some/model CSV --pair secnd -> no column 'secnd'
study tlm train.csv --text sentnce --label intent --general raw.txt -> no column 'sentnce'
data retrieve train.csv --text sentnce --corpus raw.txt -> no column 'sentnce'
analyse heads some/model --texts train.csv --text sentnce -> no column 'sentnce'
analyse embeddings some/model a/b --texts train.csv -> no column 'text'
analyse importance some/model a=train.csv b=raw.txt -> no column 'text'
analyse heads some/model --texts rows.jsonl --text sentnce -> no field 'sentnce'
adapt mlm model=some/model corpus=rows.jsonl -> no field 'text'; its fields are
race CSV --model some/model --corpus rows.jsonl -> no field 'text'
data corpus rows.jsonl field=sentnce -> no field 'sentnce'; the nearest is 'sentence'
data corpus raw.txt language=xx -> language is 'xx', but only these can be recognised
race CSV finetune.looks=0 -> finetune.looks = 0 is out of range
race train.csv search.rates=[0.0] -> search.rates = 0.0 is out of range: above 0
study tlm train.csv ks=[0] -> ks = 0 is out of range: at least 1
study choices some/model max_tokens=5 -> max_tokens = 5 is out of range: at least 8, or 0 for
study choices some/model variants=["linaer"] -> did you mean 'linear'?
race CSV contestants=["TAPT","mine.py::METHOD"] -> mine.py::METHOD: there is no file mine.py
adapt tlm task=task -> no corpus given. Add corpus=PATH
adapt stilt model=some/model -> no tasks given. Add tasks=
adapt stilt model=some/model tasks=["nowhere"] -> nowhere: there is no such directory
adapt scratch corpus=raw.txt dev=nowhere.txt -> nowhere.txt: there is no such file
adapt scratch corpus=raw.txt tokenizer=./nowhere -> ./nowhere: there is no such directory
adapt tapter model=some/model corpus=raw.txt vectors=no.bin -> vectors = no.bin: there is no such
adapt extend model=some/model corpus=raw.txt vectors_corpus=nowhere.txt -> nowhere.txt: there is no such file
doctor nowhere.csv -> nowhere.csv: there is no such file
doctor CSV --corpus nowhere.txt -> nowhere.txt: there is no such file
doctor CSV --model ./nowhere -> ./nowhere: there is no such directory
doctor CSV --run nowhere -> nowhere: there is no such directory. Give the --out of a race
doctor blurbb --data . -> no catalogue is named 'blurbb'
data prepare train.csv --dev nowhere.csv -> nowhere.csv: there is no such file
data prepare CSV --metric f7 -> no metric is named 'f7'
data prepare train.csv --kind tag -> 'tag' is not one of
evaluate ./nowhere CSV -> ./nowhere: there is no such directory
data vocabulary raw.txt --terms nowhere -> --terms nowhere: there is no such file
data vocabulary raw.txt --model ./nowhere -> ./nowhere: there is no such directory
data fetch blurbb --to x -> no catalogue is named 'blurbb'
data fetch blurb --to x --from nowhere -> --from nowhere: there is no such folder
study dga train.csv --model some/model --corpus raw.txt contestants=["MLMM"] -> did you mean 'MLM'?
study pubmedbert --corpus raw.txt --general raw.txt --data . heldout=nowhere.txt -> nowhere.txt: there is no such file
study blurb some/model --data . datasets=["GADD"] -> no dataset is named 'GADD'
recipes mml -> no recipe is named 'mml'
settings mml -> no settings are named 'mml'; did you mean 'mlm'?
predict ./nowhere train.csv -> ./nowhere: there is no such directory
predict some/model nowhere.csv -> nowhere.csv: there is no such file
predict used train.csv --text sentnce -> no column 'sentnce'
predict used train.csv --keep note -> no column 'note'
embed used train.csv --out out.npy --text sentnce -> no column 'sentnce'
predict some/model train.csv --out train.csv -> --out train.csv is the input file
predict some/model train.csv --out out.xlsx -> is not a known format
embed some/model train.csv --out out.csv -> is not a known format. Use one of .npy, .parquet
push task ada/model -> task is not a shipment. Write one with: acclimate ship
doctor train.csv --txt sentence -> No such option
race CSV --kind sequnce -> Invalid value for '--kind': 'sequnce' is not one of 'auto', 'sequence'
race CSV --workers many -> Invalid value for '--workers'
race -> Missing argument 'TASK'. See acclimate race --help
--verion -> No such option
race CSV --epochs 3 -> It is a setting: write it without dashes
evaluate CSV --model a -> write evaluate MODEL TASK, without --model
evaluate CSV model=a -> write a where `evaluate MODEL TASK` has MODEL
evaluate CSV finetune.model=a --dry-run -> finetune uses the model of the whole command
race CSV --seed 3 -> It is a setting: write it without dashes, as seeds=VALUE
study tlm CSV --general raw.txt --ks 3 -> It is a setting: write it without dashes
race CSV finetune.lr=1e-4 -> unknown setting 'finetune.lr'; did you mean 'finetune.plan.rate'?
race CSV batch_size=8 -> unknown setting 'batch_size'; did you mean 'finetune.plan.batch'?
data prepare CSV --split-seed -1 -> Invalid value for '--split-seed'
data corpus raw.txt --processes 100000 -> Invalid value for '--processes'
"""
REFUSED = dict(line.replace("CSV", CSV).split(" -> ") for line in REFUSED_LINES.strip().splitlines())
# what stands before settings, in each command that takes some
TAKES = {"task": "train.csv", "models": "some/model", "texts": ""}
BEFORE = (
    *("race train.csv", "evaluate some/model train.csv"),
    *("data corpus raw.txt", "data retrieve train.csv --corpus raw.txt", "data vocabulary raw.txt"),
    *(f"study {name} {TAKES[study.takes]}" for name, study in STUDIES.items()),
    *(f"adapt {name}" for name, about in schema()["names"].items() if about.get("kind") == "method"),
)
for before in BEFORE:
    REFUSED[f"{before} speling=1"] = "unknown setting 'speling'"
    REFUSED[f"{before} --recipe no.toml"] = "no.toml: there is no such file of settings"
    if before.startswith("adapt "):
        REFUSED.setdefault(before, " given. Add ")
FILES = {
    "train.csv": "sentence,intent\nhello,a\nbye,b\n",
    "bad.toml": "[plan]\nstpes = 3\n",
    "raw.txt": "One document.\nAnother one.\n",
    "rows.jsonl": '{"sentence": "One document.", "intent": "a"}\n',
    "used/baseline.json": "{}",
    "used/race.json": '{"task": {"kind": "sequence", "labels": ["a", "b"], "paired": false, "text": "sentence"}}',
}


def write_files(place):
    for name, content in FILES.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(content)


# Each command runs in a fork of one process, which has refused one already and so imported what most of them need.
SCRIPT = """
import json, os, sys
import typer
from acclimate import cli
command = typer.main.get_command(cli.app)
def refused(arguments):
    try:
        command(arguments.split())
    except SystemExit as end:
        return end.code
said = sys.argv[1]
refused("race nowhere.csv")
for number, arguments in enumerate(json.load(sys.stdin)):
    if not (child := os.fork()):
        with open(os.path.join(said, str(number)), "w") as file:
            os.dup2(file.fileno(), 2)
        code = refused(arguments)
        heavy = sorted({"torch", "transformers", "sklearn", "matplotlib", "scipy", "numba"} & set(sys.modules))
        print(json.dumps([code, heavy]), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


@pytest.fixture
def refused(toy_inputs, tmp_path_factory):
    """Command -> exit status, heavy modules that were imported, and what was said."""
    place, said = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("said")
    write_files(place)
    prepare(read_files(toys.files_in(toy_inputs)[0]).task(), toy_inputs, place / "task")
    commands = json.dumps([*REFUSED])
    started = [sys.executable, "-c", SCRIPT, str(said)]
    done = subprocess.run(started, input=commands, capture_output=True, text=True, cwd=place, check=True)
    assert {path.name for path in place.iterdir()} == {*(name.split("/")[0] for name in FILES), "task"}  # none is made
    ended = map(json.loads, done.stdout.splitlines())
    texts = [(said / str(number)).read_text() for number in range(len(REFUSED))]
    return dict(zip(REFUSED, zip(ended, texts, strict=True), strict=True))


def test_what_is_misspelt_is_refused_before_anything_heavy_is_imported(refused):
    wrong = {}
    for command, ((code, heavy), said) in refused.items():
        in_a_line = said.startswith("acclimate: ") and said.count("\n") == 1
        told = in_a_line and REFUSED[command] in " ".join(said.split())
        if (code, heavy) != (2, []) or not told:
            wrong[command] = (code, heavy, said)
    assert not wrong


def test_every_verb_is_among_the_commands_that_are_refused():
    verbs = typer.main.get_command(cli.app).commands
    all_of_them = {f"{name} {each}".strip() for name, verb in verbs.items() for each in getattr(verb, "commands", [""])}
    typed = {" ".join(command.split()[:words]) for command in REFUSED for words in (1, 2)}
    assert len(all_of_them) > 20
    assert not all_of_them - typed


# Recipes that refuse settings which contradict each other -> a command with such settings. It is refused before a model
# is read, but only once the recipes are imported: they say which settings go together.
CONTRADICTING = {
    "Plan": "adapt mlm plan.schedule=stable",
    "MlmRecipe": "adapt mlm plan.steps=300",
    "TapterRecipe": "adapt tapter train_vectors=false",
    "Skipgram": "adapt tapter skipgram.shortest=7",
    "ExtendRecipe": "adapt extend start=pieces vectors=vectors.vec",
    "DgaRecipe": "adapt dga contrast=0.0 temperature=0.1",
    "TokenContrastRecipe": "adapt token_contrast contrast=taco plan.batch=1",
    "TsdaeRecipe": "adapt tsdae plan.shard=true",
    "ScratchRecipe": "adapt scratch next_sentence=true adversarial=1.0",
    "TlmRecipe": "adapt tlm external_only=true stage_2=false",
    "FinetuneRecipe": "adapt finetune averaged=2 choose=last",
    "LearningCurveRecipe": "race train.csv --model model learning_curve.shares=[0.5,0.5]",
    "StiltRecipe": "adapt stilt finetune.head=kept",
    "Intermediate": "adapt stilt intermediate.steps=3 intermediate.epochs=1.0",
    "CorpusRecipe": "data corpus raw.txt least_words=2 most_words=1",
    "RaceRecipe": 'race train.csv --text sentence --label intent contestants=["TAPT","TAPT"]',
    "SearchRecipe": "race train.csv --text sentence --label intent search.rates=[1e-5,1e-5]",
    "TlmStudyRecipe": "study tlm train.csv --text sentence --label intent --general raw.txt ks=[50,50]",
    "ChoicesRecipe": 'study choices some/model --data . vary=schemes variants=["CRF"]',
    "StiltStudyRecipe": 'study stilt some/model --data . datasets=["GAD"]',
    "DgaStudyRecipe": "study dga train.csv --text sentence --label intent --corpus raw.txt finetune.head=kept",
    "TapterStudyRecipe": "study tapter train.csv --text sentence --label intent finetune.head=kept",
    "PubmedbertStudyRecipe": "study pubmedbert --corpus raw.txt --general raw.txt --data . models=[]",
}
# what these refuse from Python, a choice refuses on the command line
CHOICES = {"VocabularyRecipe", "RetrieveRecipe"}


def test_every_recipe_whose_settings_can_contradict_each_other_is_listed():
    def checks_more_than_ranges(kind):
        if "__post_init__" not in vars(kind):
            return False
        [body] = ast.parse(textwrap.dedent(inspect.getsource(kind.__post_init__))).body
        return any(not ast.unparse(line).startswith(("check_ranges", "super()")) for line in body.body)

    classes = schema()["classes"].items()
    classes = [(name, about) for name, about in classes if name != EVALUATION]  # a part of RaceRecipe, and no class
    kinds = {name: getattr(importlib.import_module(about["module"]), name) for name, about in classes}
    assert {name for name, kind in kinds.items() if checks_more_than_ranges(kind)} == {*CONTRADICTING, *CHOICES}


@pytest.mark.parametrize("recipe", CONTRADICTING)
def test_settings_that_contradict_each_other_are_refused_in_a_line(recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    present = {*tmp_path.iterdir()}
    done = CliRunner().invoke(cli.app, CONTRADICTING[recipe].split())
    assert done.exit_code == 2
    assert done.output.startswith("acclimate: ")
    assert done.output.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if path not in present and path.name != "runs"]
