"""G4: what the soft mask of DGA forgets of general text, at equal domain loss, beside a lower rate and a random mask.

python benchmarks/claims/soft_mask.py TEXTS OUT

TEXTS is what texts.py wrote. The embedded encoder is adapted on restaurant reviews with masked language modelling alone
(no contrast), five times in each of four ways, and looks at both losses on held-out texts every 50 of 600 steps. The
same command goes on where it was stopped, and writes the outcome once all runs are there.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from loss_paths import Look, equal_domain_loss, measured_every, read_path
from outcomes import of_values, write

from acclimate.methods import dga, mlm
from acclimate.models.loading import EMBEDDED, resolved
from acclimate.text.corpus import write_corpus
from acclimate.text.documents import read_documents
from acclimate.training.plan import Plan

MLM, SLOWER, UPDATE, RANDOM = "MLM", "MLM at a third of the rate", "update", "random update"
ARMS = (MLM, SLOWER, UPDATE, RANDOM)
SEEDS, HELD_OUT, TOKENS = 5, 100, 64
RATE = 2e-4
PLAN = Plan(steps=600, batch=32, rate=RATE, warmup=0.1, weight_decay=0.0)
LOOKS = 50  # steps between two looks


def corpus(place: Path, file: Path, least: int, most: int | None) -> Path:
    """Return a corpus of the file's documents from number `least` to before `most`."""
    if not place.exists():
        write_corpus(islice(read_documents(file), least, most), place)
    return place


def recipe(arm: str, seed: int, trained: Path) -> mlm.MlmRecipe:
    plan = replace(PLAN, seed=seed, rate=RATE / 3 if arm == SLOWER else RATE)
    # dropout: the importance of heads needs some; the embedded encoder was trained without
    shared: dict[str, Any] = {"model": resolved(EMBEDDED), "corpus": trained, "max_tokens": TOKENS, "plan": plan}
    shared |= {"dropout": 0.02, "attention_dropout": 0.0, "epochs": 0.0}
    if arm in (MLM, SLOWER):
        return mlm.MlmRecipe(**shared)
    masked: dict[str, Any] = {"contrast": 0.0, "normalisation": "min-max", "reading": "update"}
    masked |= {"importance": "random"} if arm == RANDOM else {"subset": 1_000}
    return dga.DgaRecipe(**shared, **masked)


def path(arm: str, seed: int, out: Path, trained: Path) -> list[Look]:
    """Adapt, unless it is done, and return the path of both losses."""
    place, stated = out / f"{ARMS.index(arm)}-{seed}", recipe(arm, seed, trained)
    if isinstance(stated, dga.DgaRecipe):
        dga.adapt(stated, place)
    else:
        mlm.adapt(stated, place)
    return read_path(place)


def main(texts: Path, out: Path) -> None:
    torch.set_num_threads(1)
    domain = texts / "domain-restaurant.jsonl"
    trained = corpus(out / "trained", domain, HELD_OUT, None)
    heldout = {
        "domain": corpus(out / "domain", domain, 0, HELD_OUT),
        "general": corpus(out / "general", texts / "general.jsonl", 0, HELD_OUT),
    }
    with measured_every(LOOKS, heldout, longest=TOKENS):
        by_seed = [{arm: path(arm, seed, out, trained) for arm in ARMS} for seed in range(SEEDS)]
    levels, at_level = [], []
    for paths in by_seed:
        found = equal_domain_loss(paths)
        if found is None or (idle := {*ARMS} - {*found[1]}):
            raise ValueError(f"{'all' if found is None else idle}: never lower the domain loss. Adapt with more steps")
        levels.append(found[0])
        at_level.append(found[1])
    over = f"{SEEDS} adaptations"
    start = by_seed[0][MLM][0]

    def less(arm: str, than: str) -> dict[str, Any]:
        return of_values([general[than] - general[arm] for general in at_level], over)

    means = {arm: sum(general[arm] for general in at_level) / SEEDS for arm in ARMS}
    said = ", ".join(f"{arm} {mean - start.general:+.4f}" for arm, mean in means.items())
    write(
        "dga-soft-mask",
        {
            "general loss of MLM at a lower rate minus that of the soft mask": less(UPDATE, SLOWER),
            "general loss of a random mask minus that of the soft mask": less(UPDATE, RANDOM),
            "general loss of MLM minus that of the soft mask": less(UPDATE, MLM),
        },
        out=out,
        losses={"adapted": [(start.domain, paths[MLM][-1].domain) for paths in by_seed]},
        remark=f"The domain loss was {start.domain:.3f} nats and the general loss {start.general:.3f}. Where the "
        f"domain loss had fallen to {sum(levels) / SEEDS:.3f}, the lowest that all reached, the general loss had "
        f"changed by: {said}.",
        facts={
            "paths": [
                {arm: [(look.step, look.domain, look.general) for look in looked] for arm, looked in paths.items()}
                for paths in by_seed
            ],
        },
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
