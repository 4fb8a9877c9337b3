"""Small inputs, and a command of each verb that writes: each takes about a second."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torture import zygote
from torture.disk import INPUTS
from torture.zygote import Command

OFTEN = {"ACCLIMATE_SAVE_SECONDS": "0"}  # a command of a second saves no state otherwise
ROWS = {"train": 48, "dev": 24, "test": 12}  # enough for a fine-tuning that stands out from guesses
MORE = 60  # test rows of `settled`, which refuses few
DOCUMENTS = {"domain": 24, "general": 60}
# hold seconds or the command line, or what is drawn of these; the torn sums of a run that was killed
SECONDS = re.compile(
    r"(^|/)(clock\.json|wall\.json|sessions\.json|report\.html|study\.lock\.json|looks\.jsonl|output\.txt|plan\.jsonl|table\.(txt|csv)"
    r"|choices-layers\.(html|txt|csv)|report\.txt|speeds/.*|README\.md|card\.json)$"
)
UNDER_WAY = re.compile(r"(^|/)(\.[^/]*\.(tmp|old|lock)|\.lock|\.holder|running/.*)$|\.part$|\.tmp(/|$)|\.[^/]+-\d+/")

PLAN = ("plan.steps=3", "plan.batch=4", "epochs=0", "max_tokens=16")
FINETUNE = tuple(
    f"finetune.{each}"
    for each in ("preset=papers", "looks=1", "epochs=0.0", "plan.steps=40", "plan.batch=6", "plan.rate=1e-2")
)
RACING = ("--budget", "none", "--model", "model", "--max-tokens", "48", "--out", "out", "search.rates=[]")
ADAPTED = ("--corpus", "in/domain.txt", "seeds=2", 'contestants=["TAPT"]', "tapt.max_tokens=16", "tapt.plan.steps=3")
ADAPTED = (*ADAPTED, "tapt.plan.batch=4", "tapt.epochs=0", "dapt.max_tokens=16")
LABELLED = ("race", "in/train.jsonl", "--dev", "in/dev.jsonl", "--test")
RACE = (*LABELLED, "in/test.jsonl", *RACING, *ADAPTED, *FINETUNE)
SETTLED = (*LABELLED, "in/more.jsonl", *RACING, "--checkpoint", "own=in/own", "--until", "settled", "contestants=[]")
SETTLED = (*SETTLED, *FINETUNE)
SEARCH = ("race", "in/collection", *RACING, *ADAPTED)
STUDY = (
    *("study", "choices", "model", "vary=layers", "--out", "out", "max_tokens=16"),
    'datasets=[{train="in/train.jsonl", dev="in/dev.jsonl", test="in/test.jsonl"}]',
    *('variants=["BiLSTM", "linear"]', "seeds=2", *FINETUNE),
)
ADAPT = ("adapt", "mlm", "model=model", "corpus=in/domain.txt", "--out", "out", *PLAN)
CORPUS = ("data", "corpus", "in/general.txt", "--out", "out", "--processes", "1", "--model", "model")
RETRIEVE = ("data", "retrieve", "in/train.jsonl", "--dev", "in/dev.jsonl", "--test", "in/test.jsonl")
RETRIEVE = (*RETRIEVE, "--corpus", "in/general.txt", "--k", "4", "--out", "out")
PREPARE = ("data", "prepare", "in/train.jsonl", "--dev", "in/dev.jsonl", "--test", "in/test.jsonl", "--out", "out")
FETCH = ("data", "fetch", "blurb", "--to", "out", "--from", "copy")
SHIP = ("ship", "raced", "--to", "out")
EMBED = ("embed", "model", "in/test.jsonl", "--out", "out/vectors.npy")


@dataclass(frozen=True)
class Victim:
    """A command that writes `out`.

    weight  how often it is tried: less often where it takes seconds
    folder  a folder that must be there, in which it writes a file
    """

    name: str
    command: Command
    weight: float = 1.0
    folder: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def emptied(self, place: Path) -> None:
        """Make its directory as before the first run."""
        for path in place.iterdir():
            if path.name not in INPUTS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name in filter(None, ("cache", self.folder)):
            (place / name).mkdir(exist_ok=True)


VICTIMS = {
    victim.name: victim
    for victim in (
        Victim("race", RACE, 1.0, environment=OFTEN),
        Victim("adapt", ADAPT, 2.0, environment=OFTEN),
        Victim("study", STUDY, 0.5, environment=OFTEN),
        Victim("retrieve", RETRIEVE, 1.5),
        Victim("corpus", CORPUS, 1.0),
        Victim("prepare", PREPARE, 0.5),
        Victim("fetch", FETCH, 0.5),
        Victim("ship", SHIP, 1.0),
        Victim("embed", EMBED, 0.5, folder="out"),
        Victim("search", SEARCH, 0.5, environment=OFTEN),
        Victim("settled", SETTLED, 0.1, environment=OFTEN),
    )
}


def write_inputs(place: Path) -> Path:
    """Write the inputs of all victims to `place`: `in`, `model`, `copy`; and warm the zygote on the way."""
    import search_files
    import toys
    from acclimate.core.types import Document
    from acclimate.models.encoder import new_encoder, save_model
    from acclimate.text.corpus import write_corpus
    from acclimate.text.vocabulary import train_tokenizer

    inputs = toys.write_inputs(place / "in")
    for name, rows in {**ROWS, **DOCUMENTS}.items():
        path = inputs / (f"{name}.jsonl" if name in ROWS else f"{name}.txt")
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:rows]))
    draws = random.Random(1)
    more = [{"text": toys.text(topic, 14, draws), "label": topic} for topic in [*toys.TOPICS] * (MORE // 3)]
    (inputs / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in more))
    search_files.write_toy(inputs / "collection")
    texts = [Document(str(at), line) for at, line in enumerate((inputs / "general.txt").read_text().splitlines())]
    tokenizer = train_tokenizer(write_corpus(iter(texts), place / "texts"), size=200)
    pad = tokenizer.pad_token_id
    for seed, folder in enumerate((place / "model", inputs / "own")):
        model = new_encoder(
            layers=1, hidden=16, heads=2, vocabulary_size=len(tokenizer), longest=256, pad=pad, seed=seed
        )
        save_model(model, tokenizer, folder)
    copy = place / "copy" / "bioasq_yesno_7b"
    copy.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        copy.joinpath(f"{split}.tsv").write_text(
            "".join(f"{split}{at}\tIs it {at}?\tIt is {at}.\t{'yes' if at % 2 else 'no'}\n" for at in range(2000))
        )
    (place / "cache").mkdir(exist_ok=True)
    return place


def warmed(place: Path, names: Collection[str] = ()) -> Path:
    """Write the inputs to `place`, and run these victims once in this process, or all; `raced` is a race that ended."""
    os.environ["ACCLIMATE_CACHE"] = "cache"  # of the directory that a command runs in
    write_inputs(place)
    race = VICTIMS["race"]
    zygote.warm([RACE], place)
    os.rename(place / "out", place / "raced")
    rest = [victim for victim in VICTIMS.values() if victim is not race and victim.name in (names or VICTIMS)]
    for victim in rest:
        assert not callable(victim.command)
        victim.emptied(place)
        zygote.warm([victim.command], place)
        victim.emptied(place)
    return place


def copied(place: Path, into: Path) -> Path:
    """Return a directory with the inputs of `place`, in which a victim may run."""
    into.mkdir(parents=True, exist_ok=True)
    for name in INPUTS:
        shutil.copytree(place / name, into / name)
    (into / "cache").mkdir()
    return into


def results(place: Path) -> dict[str, Any]:
    """Return path -> content of all that must not depend on what happened on the way."""
    kept: dict[str, Any] = {}
    for path in sorted((place / "out").rglob("*")):
        name = str(path.relative_to(place / "out"))
        if path.is_file() and not SECONDS.search(name) and not UNDER_WAY.search(name):
            kept[name] = outcome(path) if name.endswith(".outcome.json") else path.read_bytes()
    return kept


def outcome(path: Path) -> Any:
    """Return what a study recorded, without seconds and without what was typed; the text itself if it is damaged."""
    try:
        content = json.loads(path.read_bytes())
        return _timeless(content)
    except ValueError:
        return path.read_bytes()


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = ("seconds", "commands", "looks", "sha256", "notes")
        return {name: _timeless(inner) for name, inner in value.items() if name not in left_out}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """Return the names of files that are missing, more, or of other content."""
    return [name for name in sorted({*expected, *found}) if expected.get(name) != found.get(name)]


def undisturbed(place: Path, victim: Victim) -> tuple[dict[str, Any], float]:
    """Run the victim alone, with and without saving often. Return its results and its seconds.

    Raises RuntimeError if it fails, or if the two differ.
    """
    found: list[dict[str, Any]] = []
    seconds = 0.0
    for environment in ({}, victim.environment):
        victim.emptied(place)
        ended = zygote.run(victim.command, place, environment=environment)
        if ended.status != 0:
            raise RuntimeError(f"{victim.name}: {ended}")
        found.append(results(place))
        seconds = ended.seconds
    if differing := differences(*found):
        raise RuntimeError(f"{victim.name}: two runs left alone differ in {differing}")
    return found[1], seconds
