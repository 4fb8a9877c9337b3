"""What TAPTER's second term adds to a step of masked language modelling.

python benchmarks/tapter_overhead.py --model MODEL --corpus FILE --out benchmarks/reports/2026-11-26-tapter-overhead.md
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from page import head, spread, table, write
from turns import Clock, median_ratio, precision_name, timed

from acclimate.methods.tapter import TapterLoss, train_on, with_regularised
from acclimate.models.encoder import load_masked_language_model, word_embeddings
from acclimate.models.loading import load_tokenizer
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.documents import read_documents
from acclimate.text.streams import masked_stream
from acclimate.text.vectors.of_vocabulary import VocabularyVectors, vocabulary_vectors
from acclimate.text.vectors.skipgram import Skipgram
from acclimate.text.vectors.vectors import open_vectors
from acclimate.training.loop import Step, adamw, train
from acclimate.training.objective import MaskedLanguageLoss, Objective
from acclimate.training.plan import Plan, device

PLAIN, TERM = "masked language modelling", "with the second term"


def main() -> None:
    given = arguments()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        corpus = write_corpus(islice(read_documents(given.corpus), given.texts), place / "corpus")
        begun = time.process_time()
        settings = Skipgram(dim=given.dim, epochs=1, buckets=given.buckets, lower=True, threads=1)
        vectors = train_on([corpus], place / "vectors", settings)
        trained = time.process_time() - begun
        tokenizer = load_tokenizer(given.model)
        rows = len(word_embeddings(load_masked_language_model(given.model)))
        begun = time.process_time()
        found = vocabulary_vectors(tokenizer, open_vectors(vectors), size=rows, lower=True)
        looked_up = time.process_time() - begun
        clocks, share = _measured(given, corpus, found)
    where = torch.cuda.get_device_name() if device().type == "cuda" else f"CPU, {given.threads} threads"
    facts = [("device", where), ("model", Path(given.model).name), ("precision", precision_name(given.precision))]
    write(
        given.out,
        [
            head("What TAPTER's second term costs", facts=facts),
            _method(given, clocks, found, share),
            _steps(clocks),
            f"Before the first step: the vectors of {rows:,} pieces in {looked_up:.1f} seconds of processor time; one "
            f"epoch of fastText from nothing on the texts, compiling included, in {trained:.1f}.",
        ],
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a directory or hub id")
    parser.add_argument("--corpus", type=Path, required=True, help="texts: a file or folder of raw text")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--texts", type=int, default=2_000, help="of the corpus at most")
    parser.add_argument("--dim", type=int, default=300, help="of the vectors")
    parser.add_argument("--buckets", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=64, help="rows of a step")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=30, help="steps of each that are counted")
    parser.add_argument("--warm-up", type=int, default=3, help="steps of each before the clock starts")
    parser.add_argument("--precision", default="auto", choices=("auto", "float32", "bfloat16"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser.parse_args()


def _measured(given: argparse.Namespace, corpus: Corpus, found: VocabularyVectors) -> tuple[dict[str, Clock], float]:
    """Both by turns on the same batches, each from the same weights; and the share of the tokens that R has."""
    tokens = corpus.tokens(load_tokenizer(given.model))
    stream = masked_stream(tokens, batch=given.batch, longest=given.max_tokens, seed=0, whole_words=False)
    steps = given.warm_up + given.pairs
    plan = Plan(steps=steps, batch=given.batch, rate=5e-5, precision=given.precision)

    def model():
        return load_masked_language_model(given.model)

    def begun(objective: Objective, of) -> Iterator[Step]:
        return train(objective, of, plan, adamw(objective, plan))

    term = TapterLoss(model(), found.vectors_VF, found.regularised_V)
    running = {
        PLAIN: begun(MaskedLanguageLoss(model()), stream),
        TERM: begun(term, lambda step: with_regularised(stream(step), found.regularised_V)),
    }
    clocks = timed(running, rounds=given.pairs, warm_up=given.warm_up)
    counts = [term.counts(with_regularised(stream(step), found.regularised_V))["embedding"] for step in range(steps)]
    return clocks, sum(counts[given.warm_up :]) / sum(clocks[TERM].tokens)


def _method(given: argparse.Namespace, clocks: dict[str, Clock], found: VocabularyVectors, share: float) -> str:
    return (
        "## What is measured\n\n"
        "Both train the same encoder from the same weights on the same masked batches, in one process, a step of one\n"
        "and a step of the other by turns, whoever is second going first in the next pair. *With the second term* is\n"
        "`src/acclimate/methods/tapter.py::TapterLoss`, its batches marked as they are made; *masked language\n"
        "modelling* is `src/acclimate/training/objective.py::MaskedLanguageLoss`, a step of TAPT. A step is\n"
        "everything: its batch, forward and backward passes, clipping and the optimiser. Processor time is that of\n"
        "the whole process, which other work on the machine lengthens less than the time on the wall.\n\n"
        f"{given.pairs} pairs after {given.warm_up} that are not counted; {given.batch} rows a step, "
        f"{np.mean(clocks[PLAIN].tokens):,.0f} tokens on average, of which R has {share:.0%}; vectors of {given.dim} "
        f"numbers for {int(found.regularised_V.sum()):,} of {len(found.regularised_V):,} pieces."
    )


def _steps(clocks: dict[str, Clock]) -> str:
    rows = [(name, spread(clock.processor, ".3f"), spread(clock.wall, ".3f")) for name, clock in clocks.items()]
    first = table(("step", "processor seconds: median (least to most)", "seconds on the wall"), rows)
    ratios = []
    for what in ("processor", "wall"):
        with_term, plain = (getattr(clocks[name], what) for name in (TERM, PLAIN))
        ratios.append((what, median_ratio(with_term, plain), f"{sum(with_term) / sum(plain):.3f}"))
    names = ("time", "ratio within a pair: median [95% interval of the median]", "ratio of the sums")
    return f"## Steps\n\n{first}\n\n### With the term by without\n\n{table(names, ratios)}"


if __name__ == "__main__":
    main()
