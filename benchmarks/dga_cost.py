"""What a step of DGA costs beside one of masked language modelling, and what importance costs before the first.

python benchmarks/dga_cost.py --model MODEL --corpus FILE --out benchmarks/reports/DATE-dga-cost.md
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from page import head, spread, table, write
from turns import Clock, median_ratio, precision_name, timed

from acclimate.methods.dga import BATCH, DgaLoss
from acclimate.methods.importance import head_importance, normalised
from acclimate.models.encoder import load_masked_language_model
from acclimate.models.heads import hidden_and_masked_logits
from acclimate.models.loading import load_tokenizer
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.streams import evaluation_batches, masked_stream
from acclimate.training.loop import adamw, train
from acclimate.training.objective import MaskedLanguageLoss, Objective, masked_cross_entropy
from acclimate.training.pieces import Piece
from acclimate.training.plan import Plan, device

PLAIN, WHOLE = "masked language modelling", "masked language modelling, all of its last layer"
PAPER_STEPS, PAPER_BATCH, PAPER_SUBSET = 2_500, 256, 10_000


class WholeLanguageLoss(MaskedLanguageLoss):
    """The same loss, with the last layer at all positions, as the views of DGA have it."""

    def forward(self, piece: Piece) -> dict[str, torch.Tensor]:
        _, logits_MV = hidden_and_masked_logits(self.model, piece, piece["positions"])
        return {"mlm": masked_cross_entropy(logits_MV, piece)}


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as directory:
        corpus = write_corpus(islice(read_documents(given.corpus), given.texts), Path(directory) / "corpus")
        importance, each = _importance(given, corpus)
        clocks = _measured(given, corpus, importance)
    where = torch.cuda.get_device_name() if device().type == "cuda" else f"CPU, {given.threads} threads"
    facts = [("device", where), ("model", Path(given.model).name), ("precision", precision_name(given.precision))]
    write(
        given.out,
        [
            head("What DGA costs", facts=facts),
            _method(given, clocks),
            _steps(clocks),
            _before(given, clocks, each),
        ],
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a directory or hub id")
    parser.add_argument("--corpus", type=Path, required=True, help="texts: a file or folder of raw text")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--texts", type=int, default=2_000, help="of the corpus at most")
    parser.add_argument("--batch", type=int, default=32, help="rows of a step")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--piece-tokens", type=int, help="of a step with gradient caching; by default a quarter of it")
    parser.add_argument("--rounds", type=int, default=20, help="steps of each that are counted")
    parser.add_argument("--warm-up", type=int, default=2, help="steps of each before the clock starts")
    parser.add_argument("--subset", type=int, default=128, help="sequences that importance is computed on")
    parser.add_argument("--precision", default="auto", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser.parse_args()


def _importance(given: argparse.Namespace, corpus: Corpus) -> tuple[torch.Tensor, float]:
    """Of the heads, normalised; and processor seconds a token that it took."""
    model = load_masked_language_model(given.model, hidden_dropout=0.1, attention_dropout=0.1)
    tokens = corpus.tokens(load_tokenizer(given.model))
    batches = evaluation_batches(
        tokens, batch=BATCH, longest=given.max_tokens, seed=0, segments_at_most=given.subset + BATCH
    )
    head_importance(model, batches[:1], seed=0)  # warms up
    begun = time.process_time()
    found = head_importance(model, batches[1:], seed=0)
    taken = time.process_time() - begun
    return normalised(found["heads"]), taken / sum(len(batch.ids) for batch in batches[1:])


def _measured(given: argparse.Namespace, corpus: Corpus, importance: torch.Tensor) -> dict[str, Clock]:
    """All by turns on the same batches, each from the same weights."""
    stream = masked_stream(
        corpus.tokens(load_tokenizer(given.model)),
        batch=given.batch,
        longest=given.max_tokens,
        seed=0,
        whole_words=False,
    )
    steps, whole = given.warm_up + given.rounds, 2 * given.batch * given.max_tokens
    cached = given.piece_tokens or whole // 8
    shared = {"steps": steps, "batch": given.batch, "rate": 1e-4, "precision": given.precision}

    def running(make: Callable[..., Objective], **plan: int):
        model = load_masked_language_model(given.model, hidden_dropout=0.1, attention_dropout=0.1)
        objective, stated = make(model), Plan(**shared, **plan)
        return train(objective, stream, stated, adamw(objective, stated))

    heads = {"heads": importance}
    runs = {
        PLAIN: running(MaskedLanguageLoss),
        WHOLE: running(WholeLanguageLoss),
        "DGA": running(lambda model: DgaLoss(model, heads), piece_tokens=whole),
        "DGA, anchor = mlm": running(lambda model: DgaLoss(model, heads, anchor="mlm"), piece_tokens=whole),
        "DGA, gradient caching": running(lambda model: DgaLoss(model, heads), piece_tokens=cached),
        "DGA without contrast": running(lambda model: DgaLoss(model, heads, weight=0.0)),
    }
    return timed(runs, rounds=given.rounds, warm_up=given.warm_up)


def _method(given: argparse.Namespace, clocks: dict[str, Clock]) -> str:
    pieces = f"{given.piece_tokens:,} tokens" if given.piece_tokens else "a quarter of it"
    return (
        "## What is measured\n\n"
        "All train the same encoder, with dropout .1, from the same weights on the same masked batches, in one\n"
        "process, a step of each by turns, in turned order every second round. A step is everything: its batch,\n"
        "forward and backward passes, clipping and the optimiser. *DGA* has each step in one piece; *gradient\n"
        f"caching* has it in pieces of {pieces}, all but the last of which go through the model twice.\n"
        "Masked language modelling computes its last layer, after the attention, at the predicted positions; the\n"
        "views of DGA need all positions, so a step with *all of its last layer* is the unit of its four passes.\n"
        "Processor time is that of the whole process, which other work on the machine lengthens less than the time\n"
        "on the wall.\n\n"
        f"{given.rounds} rounds after {given.warm_up} that are not counted; {given.batch} rows a step, "
        f"{np.mean(clocks[PLAIN].tokens):,.0f} tokens on average."
    )


def _steps(clocks: dict[str, Clock]) -> str:
    rows = []
    for name, clock in clocks.items():
        ratios = [median_ratio(clock.processor, clocks[unit].processor, ".2f") for unit in (WHOLE, PLAIN)]
        rows.append((name, spread(clock.processor, ".2f"), spread(clock.wall, ".2f"), *ratios))
    names = (
        "step",
        "processor seconds: median (least to most)",
        "seconds on the wall",
        f"processor time within a round, by {WHOLE}: median [95% interval]",
        f"by {PLAIN}",
    )
    return f"## Steps\n\n{table(names, rows)}"


def _before(given: argparse.Namespace, clocks: dict[str, Clock], each: float) -> str:
    of_step = np.median(np.array(clocks["DGA"].processor) / np.array(clocks["DGA"].tokens))
    share = PAPER_SUBSET * each / (PAPER_SUBSET * each + PAPER_STEPS * PAPER_BATCH * of_step)
    return (
        "## Importance\n\n"
        f"{each * 1e6:,.0f} microseconds of processor time a token, on {given.subset} sequences; a step of DGA takes "
        f"{of_step * 1e6:,.0f} a token. In a run of the paper's, with importance from {PAPER_SUBSET:,} sequences\n"
        f"before {PAPER_STEPS:,} steps of {PAPER_BATCH}, that is {share:.2%} of the time."
    )


if __name__ == "__main__":
    main()
