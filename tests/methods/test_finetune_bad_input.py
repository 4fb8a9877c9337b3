"""Input that leaves little or nothing to learn or to choose on: refused in one line, or done and told.

Each case goes the way of `acclimate evaluate`: files are read and examined, then fine-tuned on and probed.
"""

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from acclimate.core.types import Example, Split
from acclimate.data.doctor import examine
from acclimate.data.gather import Inputs, prepare_task
from acclimate.data.model import open_model
from acclimate.methods import finetune, probe
from acclimate.methods.tuning import head as initial_head
from acclimate.methods.tuning.looks import predicted_dev
from acclimate.reading.labelled_files import LabelledFiles
from acclimate.tasks.metrics import metric_named
from acclimate.tasks.prepared import prepare
from acclimate.tasks.task import Task
from toys import PLAIN, TOPICS

NAMES = [*TOPICS]
UNSEEN = "\u200b"  # BERT's tokenizer leaves nothing of it
generator = random.Random(0)


def row(text, label):
    return {"text": text, "label": label}


def text(number: int, topic: str = "") -> str:
    words = generator.choices(PLAIN, k=6) + (generator.choices(TOPICS[topic], k=3) if topic else [])
    return " ".join(words) + " ." * number


def classes(count, names=NAMES):
    return [row(text(each, names[each % len(names)]), names[each % len(names)]) for each in range(count)]


def several(count, names=NAMES):
    chosen = [sorted(generator.sample(names, generator.randint(0, 2))) for _ in range(count)]
    return [row(" ".join([text(each), *labels]), labels) for each, labels in enumerate(chosen)]


def numbers(count, constant=None):
    return [row(text(each), float(each % 5 if constant is None else constant)) for each in range(count)]


def tagged(count, tag="B-heart"):
    lines = [generator.choices([*PLAIN, *TOPICS["heart"]], k=5 + each % 3) for each in range(count)]
    return [row(line, [tag if word in TOPICS["heart"] else "O" for word in line]) for line in lines]


def bare(count, label):
    return [row(text(each), label) for each in range(count)]


# case: (train, dev, the error)
REFUSED = {
    "a constant number in dev": (numbers(12), numbers(12, 3.5), r"Every number to predict in dev is 3.5 \(dev:1\)"),
    "one dev number": (numbers(30), numbers(1), r"The one number to predict in dev is 0 \(dev:1\)"),
    "nothing but texts that the tokenizer empties": (
        [row(UNSEEN * (each + 1), NAMES[each % 2]) for each in range(8)],
        classes(12, NAMES[:2]),
        r"The model's tokenizer makes no token of 8 of the 8 texts of train \(train:1, .*, \.\.\.\)",
    ),
}
ONE_ROW = "Dev has 1 row: the best weights, settings and contestants on dev are then chance"
# case: (train, dev, what is told)
DONE = {
    "a class of one row": (classes(30) + bare(1, "rare"), classes(12), r"'rare' \(1\) has fewer than 10 training"),
    "every class once": (classes(3), classes(12), r"Labels with a single training example.*\(3 in all\)"),
    "a label once": ([*several(30, NAMES[:2]), row(text(0), ["soil"])], several(12), r"'soil' \(train.jsonl:31\) \(1 "),
    "a tag that occurs once": ([*tagged(30), row(["moon"], ["B-orbit"])], tagged(12), "training sentence.*'B-orbit'"),
    "one dev row": (classes(30), classes(1), ONE_ROW),
    "one dev sentence": (tagged(30), tagged(1), ONE_ROW),
    "all dev rows of one label": (classes(30), classes(12, ["heart"]), r"row of dev has the same label \('heart'\)"),
    "no dev row bears a label": (several(30), bare(12, []), r"Every row of dev has the same label \(none\)"),
    "an emptied text": ([*classes(30), row(UNSEEN, "heart")], classes(12), r"1 of the 31 texts of train \(train:31\)"),
    "an emptied dev text": (classes(30), [*classes(12), row(UNSEEN, "heart")], r"1 of the 13 texts of dev \(dev:13\)"),
    "an emptied word": ([*tagged(30), row([UNSEEN], ["B-heart"])], tagged(12), r"1 of the \d+ words of train"),
}


def ready(train, dev, encoder, place):
    """The prepared task, and the sentences on the page: findings and notes."""
    words = isinstance(train[0]["text"], list)
    test = [row([*each["text"], "the"], [*each["label"], "O"]) for each in train[:6]] if words else [
        row(text(60 + each), train[each % 3]["label"]) for each in range(12)
    ]  # fmt: skip
    files = {"train": train, "dev": dev, "test": test}
    for name, rows in files.items():
        (place / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    paths = {name: place / f"{name}.jsonl" for name in files}
    kind = "tokens" if words else "score" if isinstance(train[0]["label"], float) else "auto"
    labelled = LabelledFiles(**paths, kind=kind, max_tokens=24)
    inputs = Inputs(place / "run", labelled, models=(str(encoder),))
    read = inputs.labelled()
    examination = examine(read, model=open_model(inputs.model), seeds=0)
    task, read, examination = prepare_task(inputs, read, examination)
    return task, [*(finding.what for finding in examination.findings), *read.notes]


@pytest.mark.parametrize("case", REFUSED)
def test_what_leaves_nothing_to_learn_or_choose_on_is_refused_in_one_line(case, encoder, tmp_path):
    train, dev, message = REFUSED[case]
    with pytest.raises(ValueError, match=message) as error:
        ready(train, dev, encoder, tmp_path)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run" / "data").exists()


@pytest.mark.parametrize("case", DONE)
def test_what_leaves_little_is_done_under_both_presets_and_told(case, encoder, tmp_path):
    train, dev, told = DONE[case]
    task, on_page = ready(train, dev, encoder, tmp_path)
    assert re.search(told, "\n".join(on_page)), on_page
    notes: list[str] = []
    initial_head._starts.clear()
    for preset, short in (("papers", {}), ("robust", {"least_steps": 3, "most_epochs": 0.5})):
        base = finetune.FinetuneRecipe.presets[preset]
        recipe = replace(base, model=str(encoder), task=task.path, epochs=0.5, looks=1, **short)
        out = tmp_path / preset
        finetune.adapt(recipe, out, watch=lambda told: notes.append(str(told.values.get("note", ""))))
        assert len(predicted_dev(out)) == len(dev)
    assert len(probe.probe(str(encoder), task).predicted_dev) == len(dev)
    rare = any("fewer training rows than the probe's 5 folds, so some folds do not test them" in note for note in notes)
    assert rare is case.startswith(("a class", "every class", "a label once", "a tag"))
    emptied = any(re.search("makes no token of 1 training (texts|words): ", note) for note in notes)
    assert emptied is ("emptied" in case and "dev" not in case)


def test_without_a_doctor_a_task_of_which_the_tokenizer_leaves_nothing_is_refused_all_the_same(encoder, tmp_path):
    def read(path: Path, split: Split) -> list[Example]:
        return [Example(f"{split}:{each}", UNSEEN * (each + 1), NAMES[each % 2]) for each in range(8)]

    about = Task("unseen", "sequence", read, ("heart", "orbit"), metric_named("accuracy"), 16)
    task = prepare(about, tmp_path, tmp_path / "data")
    message = r"makes no token of any of the 8 training texts, from train:0 on. Check the text column, or use"
    recipe = finetune.FinetuneRecipe(model=str(encoder), task=task.path)
    with pytest.raises(ValueError, match=message):
        finetune.adapt(recipe, tmp_path / "tuned")
    with pytest.raises(ValueError, match=message):
        probe.probe(str(encoder), task)
