"""A command that answers at once loads nothing heavy: torch alone takes a second."""

import ast
import importlib
import inspect
import json
import re
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
doctor CSV --model scratch -> 'scratch' is not a model: race --model scratch pretrains a small encoder first
evaluate scratch CSV -> 'scratch' is not a model: race --model scratch pretrains a small encoder first
adapt mlm model=scratch corpus=raw.txt -> 'scratch' is not a model: race --model scratch pretrains a small
study tlm CSV --model scratch --general raw.txt -> 'scratch' is not a model: race --model scratch pretrains
study dga CSV --model some/model -> the study 'dga' needs raw text of the domain. Add --corpus
data fetch glue --to x -> none of the files can be downloaded automatically
doctor blurb --data . -> has none of the folders
study stilt some/model datasets=[{train="train.csv",txet="a"},"raw.txt"] -> unknown setting 'datasets.txet'; did you
study stilt some/model datasets=[{train="GAD",label="a"},"train.csv"] -> 'GAD' is a published dataset. Add --data DIR
study stilt some/model datasets=[{train="train.csv",text="sentence",label="intent"},"GAD"] -> 'GAD' is a published
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


@pytest.fixture
def here(toy_inputs, tmp_path):
    """A directory with FILES and a prepared task."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    prepare(read_files(toys.files_in(toy_inputs)[0]).task(), toy_inputs, tmp_path / "task")
    return tmp_path


# Each command runs in a fork of one process, which has refused some of each verb and so imported what most of them use.
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
said, commands = sys.argv[1], json.load(sys.stdin)
for arguments in ("race nowhere.csv", *(arguments for arguments in commands if "speling" in arguments)):
    refused(arguments)
for number, arguments in enumerate(commands):
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
def refused(here, tmp_path_factory):
    """Command -> exit status, heavy modules that were imported, and what was said."""
    said, present = tmp_path_factory.mktemp("said"), {*here.iterdir()}
    commands = json.dumps([*REFUSED])
    started = [sys.executable, "-c", SCRIPT, str(said)]
    done = subprocess.run(started, input=commands, capture_output=True, text=True, cwd=here, check=True)
    assert {*here.iterdir()} == present, "none is made"
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


# Recipes that refuse settings which contradict each other: a command with such settings -> what its one line says. They
# are refused before a model is read, but only once the recipes are imported: these say which settings go together.
CONTRADICTING_LINES = r"""
Plan: adapt mlm RAW plan.schedule=stable -> but plan.warmup = 0.06. Set it in steps
Plan: adapt mlm RAW plan.schedule=constant -> but plan.warmup = 0.06. Set it in steps
MlmRecipe: adapt mlm RAW plan.steps=300 -> both set the length of the run
TapterRecipe: adapt tapter RAW train_vectors=false -> uses given vectors unchanged, but there are none. Add vectors=FILE
Skipgram: adapt tapter RAW skipgram.shortest=7 -> shortest must be at most longest. Set longest=0 for none
ExtendRecipe: adapt extend RAW start=pieces vectors=raw.txt -> start
DgaRecipe: adapt dga RAW parts=[] -> at least one
DgaRecipe: adapt dga RAW parts=["heads","heads"] -> each only once
DgaRecipe: adapt dga RAW parts=["output"] -> the contrast gates heads
DgaRecipe: adapt dga RAW knowledge=domain anchor=mlm -> Set anchor=own
DgaRecipe: adapt dga RAW reading=head_output plan.compile=true -> Set plan.compile=false
DgaRecipe: adapt dga RAW contrast=0.0 temperature=0.1 -> temperature = 0.1 does nothing with contrast = 0
DgaRecipe: adapt dga RAW contrast=0.0 anchor=mlm -> anchor = 'mlm' does nothing with contrast = 0
DgaRecipe: adapt dga RAW importance=random subset=64 -> subset = 64 does nothing with importance = 'random'
TokenContrastRecipe: adapt token_contrast RAW contrast=taco plan.batch=1 -> Set plan.batch to at least 2
TsdaeRecipe: adapt tsdae RAW plan.shard=true -> Set plan.shard=false
ScratchRecipe: adapt scratch RAW epochs=1.0 tokens=5 -> epochs = 1.0 and tokens = 5 both
ScratchRecipe: adapt scratch RAW general_share=0.5 -> there is no general text
ScratchRecipe: adapt scratch RAW max_tokens=24 long_tokens=24 long_share=0.1 -> long_tokens = 24 of the second phase
ScratchRecipe: adapt scratch RAW masking=0.7 masking_schedule=steps -> rises to five thirds
ScratchRecipe: adapt scratch RAW size=tiny layers=1 -> has layers = 2, but layers = 1
ScratchRecipe: adapt scratch RAW model=a layers=1 -> already has weights and a vocabulary
ScratchRecipe: adapt scratch RAW model=a tokenizer=b -> tokenizer = 'b' does nothing: model = 'a'
ScratchRecipe: adapt scratch RAW tokenizer=b vocabulary=110 -> vocabulary = 110 does nothing: tokenizer = 'b'
ScratchRecipe: adapt scratch RAW adversarial_radius=0.1 -> adversarial_radius = 0.1 does nothing: adversarial = 0
ScratchRecipe: adapt scratch RAW masking_schedule=steps plan.schedule=stable plan.warmup=0.0 -> depends on the number
ScratchRecipe: adapt scratch RAW next_sentence=true architecture=modernbert -> next_sentence = true needs
ScratchRecipe: adapt scratch RAW next_sentence=true adversarial=1.0 -> next_sentence and adversarial
TlmRecipe: adapt tlm RAW task=task external_only=true stage_2=false -> it needs stage 2. Set stage_2=true
TlmRecipe: adapt tlm RAW task=task model=a tokenizer=b -> Remove tokenizer
FinetuneRecipe: adapt finetune task=task averaged=3 choose=last -> averages the best checkpoints, but choose is 'last'
FinetuneRecipe: adapt finetune task=task epochs=10.0 most_epochs=5.0 -> Set at least epochs = 10
LearningCurveRecipe: race CSV --model a/b --learning-curve learning_curve.shares=[0.5,0.5] -> each value once
StiltRecipe: adapt stilt tasks=["task","task"] finetune.head=kept -> the tasks of a chain share the encoder
StiltRecipe: adapt stilt tasks=["task","task"] finetune.model=other -> uses the model of the whole
Intermediate: adapt stilt tasks=["task","task"] intermediate.steps=3 intermediate.epochs=1.0 -> both set the length
CorpusRecipe: data corpus raw.txt least_words=2 most_words=1 -> so no document fits
CorpusRecipe: data corpus raw.txt near=0.5 exact=false -> Set near=0
RaceRecipe: race CSV contestants=["TAPT","TAPT"] -> a name appears twice. Name each contestant once
RaceRecipe: race CSV learning_curve.draws=5 -> Add --learning-curve
RaceRecipe: race CSV folds=1 -> folds = 1: one fold leaves no rows for training
RaceRecipe: race arxiv pretrain.layers=3 -> settings of pretrain have no effect here. Add --model scratch, or
RaceRecipe: race CSV pretrain.general=other.txt -> pretrain.general = 'other.txt' is not available in a race
RaceRecipe: race CSV pretrain.tokens=1000 -> pretrain.tokens = '1000' is not available in a race
RaceRecipe: race CSV pretrain.adversarial=10.0 -> pretrain.adversarial = '10.0' is not available in a race
RaceRecipe: race CSV light.kind=prompt -> light.kind = 'prompt' has no effect here
RaceRecipe: race CSV distil.teacher=deit -> distil.teacher = 'deit' has no effect here
RaceRecipe: race CSV sequence_contrast.contrast=infoword -> sequence_contrast.contrast = 'infoword' has no effect
RaceRecipe: race CSV token_contrast.contrast=taco -> token_contrast.contrast = 'taco' has no effect here
SearchRecipe: race CSV search.rates=[1e-5,1e-5] -> search.rates = [1e-05, 1e-05]: a value appears twice
TlmStudyRecipe: TLM ks=[50,50] -> ks = [50, 50]: give at least one value, and each value once
TlmStudyRecipe: TLM vary=k model_flops=1e21 -> model_flops applies only to vary=scale
TlmStudyRecipe: TLM vary=k rivals=["a"] -> rivals = ['a'] apply only to vary=scale
TlmStudyRecipe: TLM vary=scale rival_flops=[1e21] -> rival_flops = [1e+21]: the rivals are 0
TlmStudyRecipe: TLM vary=k scales=["small"] tlm.layers=4 -> Remove tlm
TlmStudyRecipe: TLM vary=k scales=["small","large"] -> vary=k uses one scale
TlmStudyRecipe: TLM vary=k tlm.model=a -> tlm.model = 'a': tlm uses the model of the whole
ChoicesRecipe: CHOICES vary=schemes variants=["BIO","CRF"] -> 'CRF' is not one of BIO, BIOUL, IO
ChoicesRecipe: CHOICES vary=layers variants=["BiLSTM"] -> 'BiLSTM' is the only variant
StiltStudyRecipe: study stilt some/model --data . datasets=["GAD"] -> a pair needs two
DgaStudyRecipe: DGA finetune.head=kept -> adapted models have none. Remove it
DgaStudyRecipe: DGA contestants=[] -> contestants = []: give at least one
DgaStudyRecipe: DGA dga.plan.steps=9 -> all methods share this setting. Set adapt.plan instead
DgaStudyRecipe: DGA light.max_tokens=9 -> light.max_tokens: all methods share this setting
DgaStudyRecipe: DGA all_rows=true finetune.choose=best -> all_rows=true trains on dev
DgaStudyRecipe: DGA adapt.dropout=0.0 adapt.attention_dropout=0.0 -> SimCSE compares passes
DgaStudyRecipe: DGA epochs=[5.0,10.0] -> there are 1 tasks. Give a value for each
DgaStudyRecipe: DGA corpora=["raw.txt"] -> belong to further tasks, but there are none
TapterStudyRecipe: TAPTER finetune.head=kept -> the study keeps the head of the first stage automatically
TapterStudyRecipe: TAPTER contestants=[] -> contestants = []: give at least one
PubmedbertStudyRecipe: study pubmedbert --corpus raw.txt --general raw.txt --data . models=[] -> give at least 2 values
"""
FULL = {
    "RAW": "corpus=raw.txt",
    "TLM": f"study tlm {CSV} --general raw.txt",
    "DGA": f"study dga {CSV} --model a/b --corpus raw.txt",
    "TAPTER": f"study tapter {CSV} --model a/b",
    "CHOICES": "study choices a/b --data .",
    "CSV": CSV,
}
CONTRADICTING = [
    re.split(": | -> ", re.sub(rf"\b({'|'.join(FULL)})\b", lambda short: FULL[short[0]], line), maxsplit=2)
    for line in CONTRADICTING_LINES.strip().splitlines()
]
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
    listed = {recipe for recipe, _, _ in CONTRADICTING} | CHOICES
    assert {name for name, kind in kinds.items() if checks_more_than_ranges(kind)} == listed


def test_settings_that_contradict_each_other_are_refused_in_a_line(here, monkeypatch):
    monkeypatch.chdir(here)
    present, wrong = {*here.iterdir()}, {}
    for _, command, said in CONTRADICTING:
        done = CliRunner().invoke(cli.app, command.split())
        in_a_line = done.output.startswith("acclimate: ") and done.output.count("\n") == 1
        if done.exit_code != 2 or not in_a_line or said not in done.output:
            wrong[command] = (done.exit_code, done.output)
    assert not wrong
    assert {*here.iterdir()} - present <= {here / "runs"}
