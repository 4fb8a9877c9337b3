"""Masked language modelling: real tokens a second, padding and waiting, ours beside transformers.Trainer.

python benchmarks/mlm_speed.py --corpus general_corpus.jsonl.zst --out benchmarks/reports/2026-11-20-mlm-speed.md
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import replace
from fnmatch import fnmatch
from itertools import chain, zip_longest
from pathlib import Path

import torch
import transformers
from contestants import Contestant, Measurement, Setting, matrix_peak, measure_ours, median
from material import Material, how, lengths_line, prepare
from page import head, spread, table, tell, write
from peer import measure_trainer
from turns import ladder

OURS = [
    Contestant("acclimate", "pieces", "float32"),
    Contestant("acclimate", "pieces", "bfloat16"),
    Contestant("acclimate", "pieces", "bfloat16", 0.0),
]
THEIRS = [
    Contestant("Trainer", rows, precision, dropout)
    for precision, dropout in (("float32", 0.1), ("bfloat16", 0.1), ("bfloat16", 0.0))
    for rows in ("padded", "grouped", "chunks")
]
TUNED = [
    Contestant("Trainer", "grouped", precision, dropout, "masked")
    for precision, dropout in (("float32", 0.1), ("bfloat16", 0.1), ("bfloat16", 0.0))
]
THEIRS += TUNED
EQUAL_FP32, EQUAL_BF16, BEST = OURS
# what is compared: a sentence, ours, and which of theirs it meets (the one with the highest median)
DUELS = [
    ("equal settings, fp32", EQUAL_FP32, lambda other: other.precision == "float32"),
    (
        "equal settings, bf16",
        EQUAL_BF16,
        lambda other: (other.precision, other.attention_dropout) == ("bfloat16", 0.1),
    ),
    ("ours as it comes, theirs as it comes", EQUAL_BF16, lambda other: other == THEIRS[0]),
    ("fp32, theirs tuned by an expert", EQUAL_FP32, lambda other: other == TUNED[0]),
    ("bf16, theirs tuned by an expert", EQUAL_BF16, lambda other: other == TUNED[1]),
    ("ours at its best, theirs at its best with the recipe's dropout", BEST, lambda other: other.attention_dropout > 0),
    ("ours at its best, theirs at its best without attention dropout", BEST, lambda other: True),
]
# what closes the gap between a Trainer that knows no trick and ours
LADDERS = [
    (THEIRS[0], THEIRS[1], TUNED[0], EQUAL_FP32),
    (THEIRS[3], THEIRS[4], TUNED[1], EQUAL_BF16),
]

Rounds = dict[Contestant, list[Measurement]]


def main() -> None:
    given = arguments()
    if given.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # ours takes a GPU wherever it sees one
    torch.set_num_threads(given.threads)
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as directory:
        tell("learning the vocabulary")
        material = prepare(
            given.corpus, Path(directory), texts=given.texts, vocabulary=given.vocabulary, sentences=given.sentences
        )
        sections = [_section(size, given, material) for size in given.sizes.split(",")]
        where = torch.cuda.get_device_name() if given.device == "cuda" else f"CPU, {given.threads} threads"
        facts = [
            ("device", where + (", torch.compile for both" if given.compile else "")),
            ("rows", lengths_line(material.rows)),
            ("vocabulary", f"{len(material.tokenizer):,} word pieces, learnt from these texts"),
        ]
        write(given.out, [head("Speed of masked language modelling", facts=facts), _method(given), *sections])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="a .jsonl, .jsonl.zst ... file with the field text")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--sizes", default="2x128,6x384,12x768", help="layers x hidden width, separated by commas")
    parser.add_argument("--texts", type=int, default=10_000, help="how many of the corpus to use")
    parser.add_argument("--sentences", type=int, default=3, help="of a row at most; 0: the texts as they are")
    parser.add_argument("--vocabulary", type=int, default=30_522, help="word pieces")
    parser.add_argument("--batch", type=int, default=32, help="rows of a step")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3, help="how often all contestants have their turn")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a measurement, after warm-up")
    parser.add_argument("--least-steps", type=int, default=3, help="of a measurement, should they take longer")
    parser.add_argument("--warm-up", type=int, default=2, help="steps before each measurement")
    parser.add_argument("--workers", default="0", help="numbers of data loader workers to try for Trainer, on a GPU")
    parser.add_argument("--contestants", default="*", help="only those whose names fit one of these patterns, by ;")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--compile", action="store_true", help="torch.compile for both (give a longer warm-up)")
    return parser.parse_args()


def _section(size: str, given: argparse.Namespace, material: Material) -> str:
    setting = Setting(
        size, given.batch, given.seconds, given.least_steps, given.warm_up, given.device, compile=given.compile
    )
    setting, tried = _with_best_workers(setting, given.workers, material)
    rounds, peaks = _rounds(setting, given, material)
    parts = [
        f"## {size}",
        _speeds(rounds, peaks),
        "### Ours against the best of theirs",
        _duels(rounds),
        *_ladders(rounds),
        f"Trainer's data loader: {tried}.",
        "Matrix peak, the most of all rounds: "
        + ", ".join(f"{name} {peak / 1e9:,.0f} GFLOP/s" for name, peak in peaks.items())
        + ".",
    ]
    return "\n\n".join(parts)


def _with_best_workers(setting: Setting, workers: str, material: Material) -> tuple[Setting, str]:
    """Trainer's fastest number of workers, tried on its rows grouped by length, and a sentence on what was found."""
    options = [replace(setting, workers=int(number)) for number in workers.split(",")]
    if len(options) == 1:
        return options[0], f"{options[0].workers} workers, as given"
    contestant = Contestant("Trainer", "grouped", "bfloat16")
    speeds = {option: measure_trainer(contestant, option, material, seed=0).speed for option in options}
    best = max(speeds, key=lambda option: speeds[option])
    tried = ", ".join(f"{option.workers} workers {speed:,.0f} tokens/s" for option, speed in speeds.items())
    return best, f"{best.workers} workers for all, the faster in a trial ({contestant.name}: {tried})"


def _rounds(setting: Setting, given: argparse.Namespace, material: Material) -> tuple[Rounds, dict[str, float]]:
    """Every contestant's measurements, one a round, ours and theirs in turn; and the matrix peak by precision."""
    turns = [other for pair in zip_longest(THEIRS, _stretched(OURS, len(THEIRS))) for other in pair if other]
    turns = [other for other in turns if any(fnmatch(other.name, wanted) for wanted in given.contestants.split(";"))]
    rounds: Rounds = {contestant: [] for contestant in turns}
    peaks = {"float32": 0.0, "bfloat16": 0.0}
    for number in range(given.rounds):
        peaks = {
            precision: max(most, matrix_peak(precision, given.device, seconds=min(1.0, given.seconds)))
            for precision, most in peaks.items()
        }
        for contestant in turns if number % 2 == 0 else turns[::-1]:
            measure = measure_ours if contestant.who == "acclimate" else measure_trainer
            seen = measure(contestant, setting, material, seed=number)
            rounds[contestant].append(seen)
            tell(f"{setting.size}, round {number + 1}: {contestant.name}: {seen.speed:,.0f} tokens/s")
    return rounds, peaks


def _stretched(few: list[Contestant], length: int) -> list[Contestant | None]:
    """`few` spread over `length` places, so that each of ours stands among theirs rather than before or after them."""
    step = length // len(few)
    return list(chain.from_iterable([other, *[None] * (step - 1)] for other in few))


def _speeds(rounds: Rounds, peaks: dict[str, float]) -> str:
    rows = []
    for contestant in sorted(rounds, key=[*OURS, *THEIRS].index):
        seen = rounds[contestant]
        share = [each.flops_a_second / peaks[contestant.precision] for each in seen]
        rows.append(
            (
                contestant.name,
                spread([each.speed for each in seen]),
                f"{median([each.padding for each in seen]):.1%}",
                f"{median([each.waiting for each in seen]):.1%}",
                f"{median(share):.0%}",
                sum(each.steps for each in seen),
            )
        )
    names = ("contestant", "real tokens/s: median (least to most)", "padding", "waiting for data", "of peak", "steps")
    return table(names, rows)


def _duels(rounds: Rounds) -> str:
    rows = []
    for sentence, ours, meets in DUELS:
        rivals = [other for other in rounds if other.who == "Trainer" and meets(other)]
        if ours not in rounds or not rivals:
            continue
        rival = max(rivals, key=lambda other: median([each.speed for each in rounds[other]]))
        pairs = zip(rounds[ours], rounds[rival], strict=True)
        ratios = [mine.speed / theirs.speed for mine, theirs in pairs]
        rows.append((sentence, ours.name, rival.name, spread(ratios, ".2f")))
    return table(("compared", "ours", "the best of theirs", "ratio within a round: median (least to most)"), rows)


def _ladders(rounds: Rounds) -> list[str]:
    whole = [names for names in LADDERS if all(each in rounds for each in names)]
    speeds = [{each.name: [seen.speed for seen in rounds[each]] for each in names} for names in whole]
    return ["### What closes the gap", *map(ladder, speeds)] if speeds else []


def _method(given: argparse.Namespace) -> str:
    return f"""## What is measured

{how(given.sentences)}

All train a BERT with random weights by masked language modelling with {given.batch} rows a step: 15% of the sub-words
are predicted (80/10/10), hidden dropout is 0.1, AdamW is fused, gradients are clipped at 1. *Trainer* is
`transformers.Trainer` with `DataCollatorForLanguageModeling`, without logging, saving or reporting: *padded* to the
longest row of the batch; *grouped*, the same with `train_sampling_strategy="group_by_length"`, its batches in random
order (Trainer begins with the longest rows, and a turn of few steps would see no others); *chunks*, the rows joined and
cut every 128 tokens, so that a step holds more tokens, which favours it; *with a masked head*, what an expert adds: a
`compute_loss` of six lines that computes the language modelling head at the predicted positions alone. bf16 is
autocast; weights and optimiser stay
in fp32. A turn is {given.warm_up} steps of warm-up, then whole steps for {given.seconds:g} s and at least
{given.least_steps}; in each of {given.rounds} rounds all have one turn, ours and theirs mixed, every second round in
reverse order.

*Real tokens/s*: tokens that are not padding, special tokens included, by the seconds of whole steps, data and optimiser
included: on a CPU the processor's, on a GPU the clock's.
*Padding*: share of the positions that went through the model. *Waiting*: share of the time between
asking for a batch and having it (Trainer without workers makes its batches in that time; ours makes them beside the
step). *Of peak*: the operations that the matrix products of the real tokens and the predicted positions need, a
second, by the most that a product of two square matrices of the same precision reached in this run; padding and a head
on positions that nobody predicts count as no work. The last layer counts whole, though ours computes the
part of it after the attention at the predicted positions alone, so ours does a little less than its share says."""


if __name__ == "__main__":
    main()
