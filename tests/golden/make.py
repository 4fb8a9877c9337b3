"""Makes `run`, the directory of finished runs that test_golden.py finds complete, with the code of today.

    python tests/golden/make.py

The directory is kept in the repository so that later code meets runs that earlier code made. Make it again only where a
change means to break the format of runs, and say so in CHANGELOG.md: users' runs are then done again, too.

It was made from nothing but tests/toys.py: a labelled task of three topics, raw text, and an encoder of one layer.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PLACE = Path(__file__).parent / "run"
TASK = ["train.jsonl", "--dev", "dev.jsonl", "--test", "test.jsonl", "--corpus", "domain.txt", "--model", "model"]
SHORT = ("max_tokens=32", "epochs=0", "plan.steps=3", "plan.batch=8", "plan.precision=float32")
TUNING = [
    f"finetune.{each}"
    for each in (
        "preset=papers",
        "pooling=mean",
        "looks=1",
        "epochs=0.0",
        "plan.steps=200",
        "plan.batch=8",
        "plan.rate=1e-2",
    )
]
ALIKE = ["--max-tokens", "32", "seeds=2", *TUNING, "finetune.plan.precision=float32"]
COMMANDS = {
    "race": [
        *(
            "race",
            *TASK,
            "--budget",
            "none",
            "--out",
            "race",
            *ALIKE,
            'contestants=["TAPT", "TF-IDF"]',
            "adapt_seeds=1",
        ),
        *(f"tapt.{each}" for each in (*SHORT, "plan.clip=1.0")),
        "dapt.max_tokens=32",
    ],
    "dga": ["study", "dga", *TASK, "--out", "dga", *ALIKE, 'contestants=["MLM"]', *(f"adapt.{each}" for each in SHORT)],
}


def make(place: Path) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import toys
    from acclimate.models.encoder import new_encoder, save_model
    from acclimate.text.corpus import write_corpus
    from acclimate.text.documents import read_documents
    from acclimate.text.vocabulary import train_tokenizer

    toys.write_inputs(place)
    (place / "general.txt").unlink()
    for name, lines in (("train.jsonl", 24), ("dev.jsonl", 12), ("test.jsonl", 15), ("domain.txt", 30)):
        kept = (place / name).read_text().splitlines(keepends=True)[:lines]
        (place / name).write_text("".join(kept))
    words = train_tokenizer(write_corpus(read_documents(place / "domain.txt"), place / "corpus"), size=60)
    shutil.rmtree(place / "corpus")
    shape = {"layers": 1, "hidden": 8, "heads": 2, "vocabulary_size": len(words), "longest": 32}
    save_model(new_encoder(**shape, pad=words.pad_token_id, seed=0), words, place / "model")
    os.environ["ACCLIMATE_CACHE"] = tempfile.mkdtemp()  # with a ledger that knows no earlier look at these test labels
    for command in COMMANDS.values():
        subprocess.run([sys.executable, "-m", "acclimate", *command], cwd=place, check=True)
    for lock in place.glob("*/study.lock.json"):  # says in which directory the command was given
        lock.write_text(lock.read_text().replace(str(place), "PLACE"))
    for page in place.rglob("*.html"):  # large, and written again by `report` and `regenerate`
        page.unlink()


if __name__ == "__main__":
    shutil.rmtree(PLACE, ignore_errors=True)
    make(PLACE)
