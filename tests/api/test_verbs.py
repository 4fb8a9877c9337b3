"""The verbs as functions: a race from Python with a search and a budget, what is refused, and checkpoints as models."""

import csv
import inspect
import json
import os
import random
import re
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import acclimate
import toys
from acclimate.analyses.attention import analyse_heads
from acclimate.analyses.embeddings import analyse_embeddings
from acclimate.analyses.head_importance import analyse_importance
from acclimate.analyses.vocabularies import VocabularyRecipe, compare_vocabularies
from acclimate.api.call import call_text
from acclimate.api.task_options import EvaluationOptions, RaceOptions, TaskOptions
from acclimate.cli import method, use
from acclimate.cli import race as commands
from acclimate.core import files, settings
from acclimate.core.types import Checkpoint, Document
from acclimate.data.gather import Inputs
from acclimate.jobs.where import Where
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.loading import identity, load_tokenizer, resolved
from acclimate.races.recipe import RaceRecipe
from acclimate.reading.labelled import read_files
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.shipping import hub
from acclimate.tasks.prepared import prepare
from acclimate.text.corpus import write_corpus
from studies import recorded

BRIEF = ("finetune.plan.steps=8", "finetune.looks=1")
QUICK = settings.override(RaceRecipe(), [*toys.SETTINGS, *BRIEF, 'contestants=["TAPT", "TF-IDF"]'])


pytestmark = pytest.mark.usefixtures("all_learn")


class Frame:
    """A data frame of any library that hands its columns over as Arrow does."""

    def __init__(self, rows):
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema=None):
        return pa.Table.from_pylist(self.rows).__arrow_c_stream__(requested_schema)


@pytest.fixture(scope="module")
def raced(pretrained, tmp_path_factory) -> tuple[acclimate.Study, dict]:
    """A data frame and a list of texts, raced within a budget that is ample; and the arguments."""
    place = tmp_path_factory.mktemp("budgeted")
    generator = random.Random(3)
    rows = [{"abstract": toys.text(topic, 14, generator), "topic": topic} for topic in [*toys.TOPICS] * 60]
    toys.write_inputs(place / "in")
    given = {
        "text": "abstract",
        "label": "topic",
        "corpus": (place / "in" / "domain.txt").read_text().splitlines(),
        "model": pretrained,
        "max_tokens": 32,
        "budget": "20min",
        "recipe": QUICK,
        "search__rates": [3e-3, 1e-2, 3e-2],
        "out": str(place / "run"),
    }
    return acclimate.race(Frame(rows), **given), {"rows": rows, **given}


@pytest.fixture(scope="module")
def budgeted(raced) -> Path:
    return raced[0].path


def test_the_file_is_split_and_says_so(budgeted):
    sizes = files.read_json(budgeted / "data" / "task.json")["sizes"]
    assert sum(sizes.values()) == 180
    assert sizes["train"] > 2 * sizes["test"] > 2 * sizes["dev"] > 20
    assert any("split" in note for note in recorded(budgeted).notes)


def test_every_contestant_tried_the_same_and_the_untouched_one_was_tested(budgeted):
    outcome = recorded(budgeted)
    first = {(trial.contestant, trial.setting) for trial in outcome.trials if trial.rung == 0}
    names = {name for name, _ in first}
    assert names == {"untouched", "TAPT"}
    assert len(first) == 3 * len(names)
    assert {outcome.race.given[name]["settings tried"] for name in (*names, "TF-IDF")} == {3}
    tested = {score.contestant for score in outcome.scores}
    assert {"untouched", "TF-IDF"} <= tested


def test_every_look_at_the_test_set_is_written_down(budgeted):
    looks = [json.loads(line) for line in (budgeted / "looks.jsonl").read_text().splitlines()]
    encoders = {(score.contestant, score.seed) for score in recorded(budgeted).scores if score.contestant != "TF-IDF"}
    probes = [look for look in looks if look["by"].startswith("test probe ")]
    assert len(looks) == len(encoders) + 1 + len(probes)
    assert len(probes) == len({"untouched", "TAPT"})
    assert recorded(budgeted).race.looks.in_this_run == len(looks)
    tuned = list((budgeted / "jobs").glob("fine-tune*/result.json"))
    assert len(tuned) == len(encoders) + 2 * 2  # two other rates of each contestant, in round 1, were never tested
    sealed = [json.loads(line)["label"] for line in (budgeted / "data" / "test.jsonl").read_text().splitlines()]
    assert set(sealed) == {""}


def test_what_a_budget_decided_stays_decided_and_the_same_rows_go_on_in_another_form(budgeted, raced):
    before = (budgeted / "decisions.json").read_bytes()
    jobs = sorted(path.name for path in (budgeted / "jobs").iterdir())
    study, given = raced
    again = acclimate.race(
        pa.Table.from_pylist(given["rows"]), **{name: given[name] for name in given if name != "rows"}
    )
    assert again.verdict == study.verdict
    assert (budgeted / "decisions.json").read_bytes() == before
    assert sorted(path.name for path in (budgeted / "jobs").iterdir()) == jobs


def test_a_study_has_verdict_table_model_to_use_and_a_short_repr(raced, capsys):
    study, given = raced
    assert study.path == Path(given["out"])
    assert {"untouched", "TF-IDF"} <= set(study.table["model"])
    assert [*study.table] == ["model", "score", "difference", "cost", "note"]
    assert study.encoder in study.table_full["contestant"].tolist()
    assert study.table.set_index("model")["note"][study.use] == "use this"
    assert f"Use: {study.use}" in str(study)
    assert str(study).endswith(f"Report: {study.path / 'report.html'}")
    assert repr(study) == f"Study in {study.path}\n{study}"
    assert acclimate.report(given["out"]).verdict == study.verdict
    assert (study.path / "study.lock.json").exists()
    assert recorded(study.path).race.commands[0].startswith("acclimate.race(..., text='abstract', label='topic', ")
    assert capsys.readouterr().out == ""  # no bar where there is no terminal


def test_a_study_predicts_texts_and_tables(raced):
    study, given = raced
    rows = given["rows"][:4]
    predicted = [each.label for each in study.predict([row["abstract"] for row in rows])]
    assert predicted == [each.label for each in acclimate.predict(study, Frame(rows), text="abstract")]
    assert set(predicted) <= {*toys.TOPICS}
    with pytest.raises(TypeError, match="keep applies only to predictions that are written to a file"):
        study.predict(rows, keep=["topic"])


def test_a_study_ships_its_model_and_pushes_it(raced, tmp_path, monkeypatch):
    study, given = raced
    shipped = study.ship(tmp_path / "shipped", license="mit")
    assert shipped.contestant == study.use
    texts = [row["abstract"] for row in given["rows"][:4]]
    assert [each.label for each in acclimate.predict(shipped.path, texts)] == [
        each.label for each in study.predict(texts)
    ]
    pushed: list[tuple] = []
    monkeypatch.setattr(hub, "push", lambda path, repository, *, private: pushed.append((path, repository, private)))
    study.push_to_hub("owner/name", to=tmp_path / "again")
    assert pushed == [(tmp_path / "again", "owner/name", True)]
    assert (tmp_path / "again" / "README.md").exists()


def test_progress_goes_to_standard_error_unless_it_is_not_wanted(toy_inputs, pretrained, tmp_path, capsys):
    stated = {"model": pretrained, "max_tokens": 32, "recipe": QUICK, "dry_run": True, "out": tmp_path / "run"}
    plan = acclimate.race(toy_inputs / "train.jsonl", **stated)
    shown = capsys.readouterr()
    assert ("speed of training" in shown.err, shown.out) == (True, "")
    acclimate.race(toy_inputs / "train.jsonl", **stated, progress=False)
    assert capsys.readouterr() == ("", "")
    assert "TAPT" in str(plan)
    assert str(plan) == plan.text
    assert plan.use == plan.encoder == ""
    assert not (tmp_path / "run").exists()


def test_the_example_of_the_page_on_data_goes_as_far_as_a_dry_run(raced, pretrained, tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    with open(tmp_path / "train.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["abstract", "topic"])
        writer.writeheader()
        writer.writerows(raced[1]["rows"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(acclimate, "race", partial(acclimate.race, dry_run=True, model=pretrained), raising=False)
    exec(example, given := {})
    assert "TAPT" in given["study"].text


SAME = {  # verb -> what comes first, without a name
    "race": {"task"}, "evaluate": {"model", "task"}, "doctor": {"task"}, "adapt": {"method"},
    "predict": {"model", "file", "out"}, "ship": {"to"}, "push": {"shipped", "repository"},
}  # fmt: skip
PYTHON_ONLY = {"progress", "watch", "contestants", "settings", "options"}
# settings are keywords, and so is contestants=["all"]; what is printed is returned
ELSEWHERE = {"assignments", "recipe", "json", "every", "folds", "until", "details"}


@pytest.mark.parametrize("verb", SAME)
def test_options_have_the_names_and_defaults_of_the_command_line(verb):
    home = use if verb in ("predict", "ship", "push") else method if verb == "adapt" else commands
    typed = inspect.signature(getattr(home, verb)).parameters
    python = inspect.signature(getattr(acclimate, verb)).parameters
    options = {name: each.default for name, each in typed.items() if name not in SAME[verb] | ELSEWHERE}
    further = {"race": (RaceOptions, Where), "evaluate": (EvaluationOptions, Where), "doctor": (TaskOptions,)}.get(
        verb, ()
    )
    keywords = {name: each.default for name, each in python.items()}
    keywords |= {field.name: field.default for kind in further for field in fields(kind)}
    keywords = {name: default for name, default in keywords.items() if name not in SAME[verb] | ELSEWHERE}
    assert set(options) - set(keywords) == set()
    assert set(keywords) - set(options) <= PYTHON_ONLY
    for name, default in options.items():
        # typer takes None where an option may be repeated, and a Path for the directory
        plain = str(default) if name == "out" else default
        usual = {"track": (), "keep": (), "language": (), "labels": (), "label": "label"}.get(name, plain)
        assert (type(keywords[name]), keywords[name]) == (type(usual), usual), name


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"budget": "20min", "folds": 5}, "^folds with budget: .* Remove one of them"),
        ({"probe_only": True, "budget": "20min"}, "^probe_only does not fine-tune, so a budget has no effect"),
        ({"text": "words"}, r"no column 'words'.* Name the right one with text=\"NAME\"$"),
    ],
)
def test_an_error_names_keywords(stated, said, toy_inputs, pretrained, tmp_path):
    with pytest.raises(ValueError, match=said):
        acclimate.race(toy_inputs / "train.jsonl", model=pretrained, out=tmp_path / "run", **stated)


def test_a_call_is_written_with_what_is_short():
    rows = [{"text": "a long text of this row", "label": "topic"}] * 9
    assert call_text("race", [rows], {"text": "body", "seeds": 3, "corpus": object(), "contestants": ["TAPT"]}) == (
        "acclimate.race(..., text='body', seeds=3, corpus=..., contestants=['TAPT'])"
    )
    assert call_text("race", ["a.csv"], {"watch": print, "progress": False}) == "acclimate.race('a.csv')"


def test_race_has_few_keywords_of_its_own():
    assert len(inspect.signature(acclimate.race).parameters) <= 16


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ({"budget": 5}, r'race\(\): budget=5 must be a text, such as "20min"'),
        (
            {"text": ["review", "summary"]},
            r"race\(\): text=\['review', 'summary'\] must be a text: the name of a column",
        ),
        ({"max_tokens": "512"}, r"race\(\): max_tokens='512' must be a whole number"),
        ({"model": 5}, r"race\(\): model=5 must be a directory or a hub id"),
        ({"model": ""}, r"race\(\): model='' must be a directory or a hub id"),
        ({"workers": True}, r"race\(\): workers=True must be a whole number"),
        ({"probe_only": "yes"}, r"race\(\): probe_only='yes' must be True or False"),
    ],
)
def test_a_keyword_of_another_type_is_refused_at_once(stated, said):
    with pytest.raises(TypeError, match=said):
        acclimate.race("arxiv", **stated)


def test_a_model_that_is_none_is_refused_in_one_line():
    with pytest.raises(TypeError, match=r"adapt\(\): model=None must be a directory or a hub id"):
        acclimate.adapt("mlm", model=None, corpus="texts")
    with pytest.raises(TypeError, match=r"doctor\(\): model=5 must be a directory or a hub id"):
        acclimate.doctor([{"text": "a", "label": "b"}, {"text": "c", "label": "d"}], model=5)
    with pytest.raises(TypeError, match=r"evaluate\(\): model=5 must be"):
        acclimate.evaluate(5, [{"text": "a", "label": "b"}])


def test_a_text_by_itself_is_told_to_stand_in_a_list():
    with pytest.raises(ValueError, match=r"'a new text' is not a file. Give texts in a list: predict\(model, \['a new"):
        acclimate.predict("some/model", "a new text")


def test_an_error_that_a_user_can_mend_has_no_long_traceback(monkeypatch):
    with pytest.raises(ValueError, match="there is no such directory") as told:
        acclimate.race([{"text": "a", "label": "b"}], model="./nowhere")
    assert len(told.traceback) <= 3
    assert told.value.__suppress_context__
    monkeypatch.setenv("ACCLIMATE_TRACEBACK", "1")
    with pytest.raises(ValueError, match="there is no such directory") as told:
        acclimate.race([{"text": "a", "label": "b"}], model="./nowhere")
    assert len(told.traceback) > 3


@pytest.mark.parametrize(
    ("keywords", "kind", "said"),
    [
        ({"txt": "a"}, TypeError, "race() has no option and no setting 'txt'; did you mean 'text'?"),
        ({"epochs": 3}, TypeError, "did you mean 'finetune.epochs'"),
        ({"seeeds": 3}, TypeError, "did you mean 'seeds'?"),
        (
            {"finetune": {"epoch": 3}},
            ValueError,
            "race(): unknown setting 'finetune.epoch'; did you mean 'finetune.epochs'",
        ),
        ({"finetune__plan__rate": "fast"}, ValueError, "race(): finetune.plan.rate = 'fast' is str, but must be float"),
        ({"seeds": 0}, ValueError, "seeds = 0"),
        ({"budget": "20parsecs"}, ValueError, "budget '20parsecs' is not understood"),
        ({"model": "./nowhere"}, ValueError, "./nowhere: there is no such directory"),
        ({"pretrain__plan__steps": 9}, ValueError, 'settings of pretrain have no effect here. Add model="scratch"'),
        ({"data": "x", "revision": "v1"}, ValueError, "already defines its files and splits. Remove revision"),
        ({"label": "topc"}, ValueError, "the list of 2 rows: no column 'topc'; the nearest is 'topic'"),
        ({"track": ["paper"]}, ValueError, "no tracker is named 'paper'"),
    ],
)
def test_a_misspelt_keyword_is_refused_as_on_the_command_line(keywords, kind, said, tmp_path):
    rows = [{"text": "a b", "topic": "x"}, {"text": "b c", "topic": "y"}]
    with pytest.raises(kind, match=re.escape(said)):
        acclimate.race(rows, out=tmp_path, **{"label": "topic", **keywords})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["seeeds", "budget", "corpus", "probe_only"])
def test_an_evaluation_takes_its_own_options_alone(name):
    with pytest.raises(TypeError, match=rf"evaluate\(\) has no option and no setting '{name}'"):
        acclimate.evaluate([{"text": "a", "label": "x"}], label="label", **{name: "x"})


def test_a_name_that_the_hub_would_not_take_is_refused_before_the_work(tmp_path):
    with pytest.raises(ValueError, match="'bad name' is not the name of a model on the hub"):
        acclimate.ship(tmp_path / "none", tmp_path / "to", push="bad name")
    with pytest.raises(TypeError, match="texts in memory cannot be written with out="):
        acclimate.predict("some/model", ["a text"], out=tmp_path / "out.csv")


def test_doctor_and_adapt_take_tables_and_texts(pretrained, tmp_path):
    found = acclimate.doctor(
        Frame([{"text": f"w{n} {t}", "label": t} for t in toys.TOPICS for n in range(12)]), model=pretrained
    )
    assert "table" in found.as_text()
    texts = [toys.text("soil", 20, random.Random(seed)) for seed in range(30)]
    settings_of_it = {"epochs": 0, "plan": {"steps": 2, "batch": 2}, "max_tokens": 32}
    made = acclimate.adapt("mlm", model=pretrained, corpus=texts, out=tmp_path / "run", **settings_of_it)
    assert (made.path / "model.safetensors").exists()
    with pytest.raises(TypeError, match=r"adapt\(\) has no option and no setting 'epoch'; did you mean 'epochs'"):
        acclimate.adapt("mlm", epoch=3)


def test_options_that_the_embedded_dataset_would_ignore_are_refused(tmp_path):
    for name, value in (("label", "topic"), ("test", "test.csv")):
        with pytest.raises(
            ValueError, match=r"the dataset 'arxiv' already defines its splits, columns and kind\. Remove"
        ):
            acclimate.race("arxiv", **{name: value}, out=tmp_path)
    for name, value in (("dev", [{"text": "a", "label": "b"}]), ("config", "plain")):
        with pytest.raises(ValueError, match=f"arxiv already defines its files and splits. Remove {name}"):
            acclimate.race("arxiv", **{name: value}, out=tmp_path)


def test_a_run_of_another_format_is_refused(tmp_path, toy_inputs, pretrained):
    files.write_json(tmp_path / "study.json", {"format": 99, "acclimate": "9.9"})
    with pytest.raises(ValueError, match=r"was written by acclimate 9\.9 in format 99"):
        acclimate.race(toy_inputs / "train.jsonl", model=pretrained, recipe=QUICK, out=tmp_path)


SHORT = {"seeds": 2, "finetune__preset": "papers", "finetune__epochs": 0, "finetune__plan__steps": 2}
SHORT |= {"finetune__looks": 1, "search__rates": []}


@pytest.fixture(scope="module")
def checkpoint(toy_race: Any, toy_inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return acclimate.adapt(
        "mlm", model=toy_race.base, corpus=toy_inputs / "domain.txt", out=tmp_path_factory.mktemp("adapted"),
        epochs=0, max_tokens=32, plan__steps=2, plan__batch=4, progress=False,
    )  # fmt: skip


@pytest.fixture
def held(toy_inputs: Path) -> dict[str, Path]:
    return {name: toy_inputs / f"{name}.jsonl" for name in ("dev", "test")}


def test_a_checkpoint_is_its_directory(checkpoint):
    assert os.fspath(checkpoint) == str(checkpoint.path)
    assert call_text("ship", [checkpoint], {}) == f"acclimate.ship({str(checkpoint.path)!r})"
    assert resolved(checkpoint) == str(checkpoint.path)
    assert identity(checkpoint) == identity(checkpoint.path)
    assert load_masked_language_model(checkpoint).config.hidden_size == 32
    assert len(load_tokenizer(checkpoint)) > 10
    assert Inputs(Path("out"), models=(checkpoint,)).model == str(checkpoint.path)  # type: ignore[arg-type]


def test_adapt_and_doctor_take_it(checkpoint, toy_inputs, held, tmp_path):
    again = acclimate.adapt(
        "mlm", model=checkpoint, corpus=toy_inputs / "domain.txt", out=tmp_path, epochs=0, max_tokens=32,
        plan__steps=1, plan__batch=4, progress=False,
    )  # fmt: skip
    assert again.path.is_dir()
    scratch = acclimate.adapt(
        "scratch", tokenizer=checkpoint, corpus=toy_inputs / "domain.txt", out=tmp_path / "scratch", layers=1,
        hidden=32, heads=2, max_tokens=32, plan__steps=1, plan__batch=4, progress=False,
    )  # fmt: skip
    assert scratch.path.is_dir()
    found = acclimate.doctor(toy_inputs / "train.jsonl", **held, model=checkpoint, progress=False)
    assert not getattr(found, "errors", None)


def test_evaluate_and_race_take_it(checkpoint, toy_inputs, held, tmp_path):
    """To the plan of their jobs, which know it by its path."""
    given = {**held, **SHORT, "out": tmp_path / "run", "progress": False, "dry_run": True}
    evaluated = acclimate.evaluate(checkpoint, toy_inputs / "train.jsonl", **given)
    raced = acclimate.race(toy_inputs / "train.jsonl", model=checkpoint, contestants=["TF-IDF"], **given)
    assert ("model " in evaluated.text, "untouched " in raced.text) == (True, True)


def test_predict_takes_a_fine_tuned_one_and_ship_says_what_it_needs(checkpoint, toy_inputs, tmp_path):
    prepared = tmp_path / "data"
    labelled = read_files(LabelledFiles(train=toy_inputs / "train.jsonl", dev=toy_inputs / "dev.jsonl"))
    prepare(labelled.task(), labelled.files[0].path, prepared)
    tuned = acclimate.adapt(
        "finetune", model=checkpoint, task=prepared, out=tmp_path / "tuned", preset="papers", epochs=0, plan__steps=2,
        looks=1, progress=False,
    )  # fmt: skip
    [prediction] = acclimate.predict(tuned, ["the pulse of the heart"], progress=False)  # type: ignore[misc]
    assert prediction.label in labelled.labels
    with pytest.raises(ValueError, match="race"):
        acclimate.ship(tuned, tmp_path / "shipped", progress=False)


def test_analyses_take_it(checkpoint, toy_inputs, tmp_path):
    texts = (toy_inputs / "domain.txt").read_text().splitlines()[:12]
    assert len(analyse_heads([checkpoint], texts, source="domain", max_tokens=16).heads) == 2
    other = checkpoint.path.parent / "checkpoint"
    assert analyse_embeddings([checkpoint, other], texts=texts, source="domain") is not None
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts[name == "b" :: 2]))
    sources = {name: tmp_path / f"{name}.txt" for name in ("a", "b")}
    found = analyse_importance(checkpoint, sources, max_tokens=16, dropout=0.1)
    assert len(found.domains) == 2
    documents = (Document(str(number), text, "domain") for number, text in enumerate(texts))
    corpus = write_corpus(documents, tmp_path / "corpus")
    compared = compare_vocabularies(VocabularyRecipe(size=0), corpus, tmp_path / "out", models=[checkpoint])
    assert compared is not None
