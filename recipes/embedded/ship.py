"""Write the folder of the encoder that comes with the package: weights, tokenizer, card, licence, log.

python ship.py CHECKPOINT [OUT [PAGE]]

CHECKPOINT  `latest` or `checkpoint` of a run of train.py; the run's logs lie beside it
OUT         src/acclimate/models/embedded of this repository, unless stated; it is replaced as a whole
PAGE        docs/embedded.md, unless stated: its figures are written again

OUT gets model.safetensors (bfloat16), config.json and the tokenizer's files, README.md (the model card), LICENSE,
NOTICE, log.jsonl (means over many steps), curve.jsonl (one line for each look), embedded.json (what the tests check)
and manifest.json (hashes of all files).
"""

import json
import re
import shutil
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from csv import DictReader
from itertools import takewhile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from acclimate.core import files
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.loading import load_tokenizer
from acclimate.text.corpus import Corpus
from acclimate.training.checkpoint import LOG, read_log

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
OUT = REPOSITORY / "src" / "acclimate" / "models" / "embedded"
PAGE = REPOSITORY / "docs" / "embedded.md"
WEIGHTS, FACTS, CURVE, CARD = "model.safetensors", "embedded.json", "curve.jsonl", "README.md"
COPIED = ("config.json", "tokenizer.json", "tokenizer_config.json")
MOST_BYTES = 20_000_000
LOG_LINES = 250
# what a look measures -> what the card and the page call it; version 1 had the first three
MEASURED = {
    "heldout": "loss on held-out text",
    "probe": "probe, 32 a label",
    "probe_all": "probe, all of train",
    "heldout-wikipedia": "loss on Wikipedia",
    "heldout-books": "loss on novels",
    "heldout-biomed": "loss on biomedical text",
    "heldout-arxiv": "loss on arXiv abstracts",
    "heldout-reviews": "loss on reviews",
    "probe_sst2": "probe, SST-2",
    "probe_chemprot": "probe, ChemProt",
}
LIMITED = re.compile(r"\bnone\b|\bunknown\b|research|academic|non-?commercial|\bNC\b", re.IGNORECASE)
BEGIN, END = "<!-- figures of the shipped log -->", "<!-- end of the figures -->"

TEACHER = {
    "name": "sentence-transformers/all-MiniLM-L6-v2",
    "revision": "1110a243",
    "licence": "Apache-2.0",
    "sha256": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
}
# A test computes the loss of these again, so that damaged or mistaken weights are found without any other text.
SENTENCES = (
    "Paris is the capital of France.",
    "She opened the door and went into the house.",
    "The patients were treated with aspirin for two weeks.",
    "We train a neural network on a large corpus of text.",
)

Line = Mapping[str, Any]


def ship(checkpoint: Path, out: Path = OUT, page: Path | None = PAGE) -> Path:
    """Write the folder of the package from a checkpoint and the logs beside it, and the figures of the page.

    Raises ValueError if the folder would be larger than 20 MB, or if a source of the text is not listed in sources.tsv.
    """
    run = checkpoint.resolve().parent
    settings = tomllib.loads((run / "settings.toml").read_text("utf-8"))
    begun = earlier(Path(settings["model"]))
    curve = looks(run)
    log = thinned([line for line in read_log(run) if line["step"] <= curve[-1]["step"]])
    curve, log = ([*begun[name], *after(begun[name], lines)] for name, lines in ((CURVE, curve), (LOG, log)))
    with files.new_directory(out) as folder:
        write_weights(checkpoint, folder)
        for name in COPIED:
            shutil.copyfile(checkpoint / name, folder / name)
        config = json.loads((folder / "config.json").read_text("utf-8")) | {"dtype": "float32"}
        (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
        write_lines(folder / CURVE, curve)
        write_lines(folder / LOG, log)
        facts = {
            "sha256": files.sha256_of(folder / WEIGHTS),
            "parameters": load_masked_language_model(folder).num_parameters(),
            **{name: curve[-1][name] for name in ("step", "tokens", "flops", "seconds")},
            **{name: value for name, value in curve[-1].items() if name in MEASURED},
            "sentences": sentence_loss(folder),
            "baselines": json.loads((run / "baselines.json").read_text("utf-8")),
            "text": characters(text_of(run, settings)),
            "settings": settings_record(settings),
            "settings before": begun["settings"] + trunk_settings(run, settings),
        }
        (folder / FACTS).write_text(json.dumps(facts, indent=1) + "\n", "utf-8")
        (folder / CARD).write_text(card(facts, config), "utf-8")
        shutil.copyfile(REPOSITORY / "LICENSE", folder / "LICENSE")
        (folder / "NOTICE").write_text(notice(), "utf-8")
        size = sum(file.stat().st_size for file in folder.iterdir())
        if size > MOST_BYTES:
            raise ValueError(
                f"{checkpoint}: the folder would have {size:,} bytes, and at most {MOST_BYTES:,} are allowed"
            )
    if page is not None:
        page.write_text(with_figures(page.read_text("utf-8"), out), "utf-8")
    return out


def write_weights(checkpoint: Path, folder: Path) -> None:
    """Write the weights as bfloat16, which halves the folder; all loaders of this package compute in float32."""
    weights = {
        name: weight.to(torch.bfloat16) if weight.is_floating_point() else weight
        for name, weight in load_file(checkpoint / WEIGHTS).items()
    }
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # safetensors lets the owner alone read it


def looks(run: Path) -> list[Line]:
    """Return the lines of curve.jsonl in the order of their steps; of a repeated look the last."""
    lines = [json.loads(line) for line in (run / CURVE).read_text("utf-8").splitlines()]
    return [line for _, line in sorted({line["step"]: line for line in lines}.items())]


def earlier(start: Path) -> dict[str, list[Any]]:
    """Return curve, log and settings of the trainings that made the model from which this one began, if ship.py wrote
    it; else empty lists.
    """
    if not (start / FACTS).is_file():
        return {CURVE: [], LOG: [], "settings": []}
    facts = json.loads((start / FACTS).read_text("utf-8"))
    lines = {
        name: [json.loads(line) for line in (start / name).read_text("utf-8").splitlines()] for name in (CURVE, LOG)
    }
    return {**lines, "settings": [*facts.get("settings before", []), facts["settings"]]}


def trunk_settings(run: Path, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the settings of the trunks of a run, the first training first; [] if it is no branch.

    `until` of each is the last step that the run shares with that trunk, by their logs.
    """
    if settings.get("branch", ".") == ".":
        return []
    trunk = Path(settings["branch"])
    trunk_log = {line["step"]: line for line in read_log(trunk)}
    shared = takewhile(lambda line: trunk_log.get(line["step"]) == line, read_log(run))
    until = max((line["step"] for line in shared), default=0)
    settings = tomllib.loads((trunk / "settings.toml").read_text("utf-8"))
    return [*trunk_settings(trunk, settings), {**settings_record(settings), "until": until}]


def after(before: Sequence[Line], lines: Sequence[Line]) -> list[Line]:
    """Return the lines as those of one training with the lines before; the look before its first step goes."""
    if not before:
        return list(lines)
    last = before[-1]
    added = ("step", "tokens", "flops", "seconds")
    return [
        {name: value + last[name] if name in added else value for name, value in line.items()}
        for line in lines
        if line["step"] > 0
    ]


def thinned(log: Sequence[Line]) -> list[Line]:
    """Return at most LOG_LINES lines: means of losses, gradient and rate over equally many steps; tokens and FLOPs of
    all steps up to the last of them.
    """
    steps = -(-len(log) // LOG_LINES)
    lines: list[Line] = []
    tokens, flops = 0, 0.0
    for start in range(0, len(log), max(steps, 1)):
        part = log[start : start + steps]
        tokens += sum(line["tokens"] for line in part)
        flops += sum(line["flops"] for line in part)
        means = {
            name: round(sum(line[name] for line in part) / len(part), 6)
            for name in part[0]
            if name.startswith("loss") or name in ("gradient", "rate")
        }
        lines.append({"step": part[-1]["step"], "tokens": tokens, "flops": flops, **means})
    return lines


def sentence_loss(folder: Path) -> float:
    """Return the mean loss, in nats a piece, of SENTENCES, each piece masked alone."""
    model, tokenizer = load_masked_language_model(folder), load_tokenizer(folder)
    losses: list[torch.Tensor] = []
    for sentence in SENTENCES:
        ids = tokenizer(sentence, return_tensors="pt")["input_ids"][0]
        places = torch.arange(1, len(ids) - 1)
        rows = ids.repeat(len(places), 1)
        rows[torch.arange(len(places)), places] = tokenizer.mask_token_id
        with torch.no_grad():
            logits = model(input_ids=rows).logits[torch.arange(len(places)), places].float()
        losses.append(torch.nn.functional.cross_entropy(logits, ids[places], reduction="none"))
    return float(torch.cat(losses).mean())


def text_of(run: Path, settings: Mapping[str, Any]) -> Path:
    """Return the folder of the text, which is stated relative to where the run was started."""
    stated = Path(settings["text"])
    for place in (Path(), *run.parents):
        if (place / stated / "train").is_dir():
            return place / stated
    raise ValueError(
        f"{run / 'settings.toml'}: text = {str(stated)!r} is not found from here or above the run. Run this in the "
        f"folder in which the run was started"
    )


def characters(text: Path) -> dict[str, int]:
    """Return source -> number of characters of the training text, the largest first.

    Raises ValueError for a source that sources.tsv does not list: the card could not state its licence.
    """
    counts: Counter[str] = Counter()
    for document in Corpus(text / "train").documents():
        counts[document.source] += len(document.text)
    if unknown := sorted(set(counts) - sources().keys()):
        raise ValueError(f"{text}: {unknown[0]} is not in {HERE / 'sources.tsv'}. Add what it is and its licence")
    return dict(counts.most_common())


def sources() -> dict[str, dict[str, str]]:
    """Return source -> its line of sources.tsv. Raises ValueError for a licence that does not allow every use."""
    with open(HERE / "sources.tsv", encoding="utf-8", newline="") as file:
        lines = {line["source"]: line for line in DictReader(file, delimiter="\t")}
    for name, line in lines.items():
        if not is_free(line["licence"]):
            raise ValueError(
                f"{HERE / 'sources.tsv'}: {name} has the licence {line['licence']!r}. Remove the source: everybody may "
                f"use the weights, for any purpose"
            )
    return lines


def is_free(licence: str) -> bool:
    """Return False for a licence that is empty, not stated, or for research or non-commercial use only."""
    return bool(licence and licence.strip()) and LIMITED.search(licence) is None


def settings_record(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a run without paths, and without the shape of random weights if it had a model."""
    paths = ("out", "text", "tasks", "model", "vocabulary", "teacher", "branch")
    omitted = (*paths, *(("layers", "hidden", "heads") if settings["model"] else ()))
    return {name: value for name, value in settings.items() if name not in omitted}


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


def card(facts: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """Return the model card, with metadata for the hub."""
    known, total = sources(), sum(facts["text"].values())
    rows = [
        f"| {known[name]['what']} | {known[name]['origin']} | {known[name]['licence']} | {count / total:.1%} |"
        for name, count in facts["text"].items()
    ]
    about = {**facts, **config, **{f"teacher_{name}": value for name, value in TEACHER.items()}}
    about["epochs"] = facts["tokens"] / facts["baselines"]["tokens"]
    measured = "\n".join(f"| {MEASURED[name]} | {facts[name]:.3f} |" for name in MEASURED if name in facts)
    template = (HERE / "card.md").read_text("utf-8")
    return template.format(**about, measured=measured, rows="\n".join(rows), million_characters=total / 1e6)


def notice() -> str:
    return f"""The embedded encoder of acclimate
Copyright the acclimate authors. Licensed under the Apache License, Version 2.0 (see LICENSE).

Weights, word pieces and configuration derive from {TEACHER["name"]},
revision {TEACHER["revision"]}, by the sentence-transformers authors, licensed under the Apache License, Version 2.0.
That model derives from nreimers/MiniLM-L6-H384-uncased and Microsoft's MiniLM (MIT licence, below).
Changes: layers and word pieces were removed, the language modelling head is new, and all weights were trained further.

MIT License of Microsoft's MiniLM

Copyright (c) Microsoft Corporation

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def with_figures(page: str, folder: Path) -> str:
    """Return the page with the figures of the folder's logs between its two marks. Raises ValueError without marks."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"the page needs the marks '{BEGIN}' and '{END}', each once")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    return f"{before}{BEGIN}\n{figures(folder)}{END}{after}"


def figures(folder: Path) -> str:
    """Return the cost and the learning curve of the encoder in the folder, as Markdown."""
    facts = json.loads((folder / FACTS).read_text("utf-8"))
    curve = [json.loads(line) for line in (folder / CURVE).read_text("utf-8").splitlines()]
    every = -(-len(curve) // 8)
    shown = [line for number, line in enumerate(curve) if number % every == 0 or line is curve[-1]]
    columns = [name for name in MEASURED if name in curve[-1]]
    rows = [
        f"| {line['step']:,} | {line['tokens'] / 1e6:.1f} | {' | '.join(f'{line[name]:.3f}' for name in columns)} |"
        for line in shown
    ]
    baselines, hours = facts["baselines"], facts["seconds"] / 3600
    general = facts.get("heldout", facts.get("heldout-wikipedia"))
    return f"""
{facts["parameters"]:,} parameters; {facts["step"]:,} steps, {facts["tokens"]:,} tokens, {facts["flops"]:.3g} FLOP,
{hours:.1f} hours by the clock. Loss on held-out text: {general:.3f} nats a piece. A constant answer has
{baselines["unigram"]:.3f} if it knows how often each piece occurs, and {baselines["uniform"]:.3f} if it does not.

| step | million tokens | {" | ".join(MEASURED[name] for name in columns)} |
|---|---|{"---|" * len(columns)}
{chr(10).join(rows)}

sha256 of the weights: `{facts["sha256"]}`
"""


def main() -> None:
    checkpoint, *more = map(Path, sys.argv[1:])
    folder = ship(checkpoint, *more)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
