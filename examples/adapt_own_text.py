"""TAPT or DAPT of a checkpoint on your raw text, and the loss on held-out text before and after.

python examples/adapt_own_text.py MODEL TEXT HELDOUT DIRECTORY [KEY=VALUE ...]

MODEL is a local directory or a hub id; TEXT and HELDOUT are files (or folders) of .txt, .jsonl or .parquet; a line of a
.txt file is a document.
"""

import sys
from pathlib import Path

from acclimate.core import settings
from acclimate.core.types import Progress
from acclimate.data.materials import corpus_at
from acclimate.methods import mlm

model, text, heldout, directory = sys.argv[1], *map(Path, sys.argv[2:5])


def watch(progress: Progress) -> None:
    if "loss" in progress.values and progress.done % 10 == 0:
        print(f"step {progress.done} of {progress.total}: loss {progress.values['loss']:.3f}")


recipe = mlm.MlmRecipe(model=model, corpus=corpus_at(text, directory).path)
recipe = settings.override(recipe, sys.argv[5:])
checkpoint = mlm.adapt(recipe, directory, watch=watch)

unseen = corpus_at(heldout, directory).path
before, after = (
    mlm.heldout_loss(name, unseen, max_tokens=recipe.max_tokens).loss for name in (model, str(checkpoint.path))
)
print(f"held-out loss {before:.3f} -> {after:.3f}; load it with AutoModel.from_pretrained({str(checkpoint.path)!r})")
