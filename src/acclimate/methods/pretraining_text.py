"""What a run of `scratch` reads: one text or two, of which documents may be left out, in one phase or two.

Nothing is written but `out/documents/`: a file for each text of which documents are left out, a byte a document.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from pathlib import Path
from typing import Protocol

import numpy as np
from transformers import PreTrainedTokenizerBase

from acclimate.core import files, ranks
from acclimate.core.types import Document, Progress, Stream, Watch
from acclimate.methods.mlm import with_steps
from acclimate.text.corpus import Corpus
from acclimate.text.long_documents import long_documents
from acclimate.text.masking import rising_rate
from acclimate.text.mixture import in_turn, shares, side_by_side
from acclimate.text.pairs import masked_pairs
from acclimate.text.rows import Rows, masked_segments
from acclimate.text.streams import even, sampled
from acclimate.training.plan import Plan

DOCUMENTS = "documents"
MOST_MASKED = 0.6  # of a rate that rises


class Settings(Protocol):
    """What a recipe says of what is read, and how long."""

    @property
    def max_tokens(self) -> int: ...
    @property
    def masking(self) -> float: ...
    @property
    def masking_schedule(self) -> str: ...
    @property
    def whole_words(self) -> bool: ...
    @property
    def epochs(self) -> float: ...
    @property
    def tokens(self) -> int: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def general_share(self) -> float | None: ...
    @property
    def next_sentence(self) -> bool: ...
    @property
    def long_tokens(self) -> int: ...
    @property
    def long_share(self) -> float: ...


@dataclass(frozen=True, eq=False)
class Text:
    """A corpus, of which some documents take part: (D,) bool, None for all. name: of a document, before its number."""

    corpus: Corpus
    kept: np.ndarray | None = None
    name: str = "document"

    def documents(self) -> Iterator[Document]:
        """Those that take part."""
        own = self.corpus.documents()
        return own if self.kept is None else compress(own, self.kept)

    def __len__(self) -> int:
        return len(self.corpus) if self.kept is None else int(self.kept.sum())


@dataclass(frozen=True, eq=False)
class Together:
    """Several texts as one, for a vocabulary of all."""

    texts: Sequence[Text]

    def documents(self) -> Iterator[Document]:
        for text in self.texts:
            yield from text.documents()

    def __len__(self) -> int:
        return sum(map(len, self.texts))


def open_text(corpus: Corpus, out: Path, least_words: int, *, name: str, watch: Watch) -> Text:
    """The documents of at least so many words; somebody is told how many are left out. name: "corpus" or "general".

    Raises ValueError where none is left.
    """
    called = "document" if name == "corpus" else f"{name} document"
    if not least_words:
        return Text(corpus, name=called)
    path = out / DOCUMENTS / f"{name}-{least_words}-{corpus.hash[:12]}.bin"

    def find() -> np.ndarray:
        if not path.exists():
            kept = long_documents(corpus, least_words, watch=watch)
            path.parent.mkdir(exist_ok=True)
            files.write_bytes(path, kept.tobytes())
        return np.frombuffer(path.read_bytes(), bool)

    text = Text(corpus, ranks.first_then_all(find), called)
    told = f"{name}: {len(text):,} of {len(corpus):,} documents have at least {least_words} words; the rest is left out"
    watch(Progress("pretrain", 0, 0, "steps", {"note": told}))
    return text


@dataclass(frozen=True, eq=False)
class Phase:
    """Part of a run. rows: of the domain, and of general text where there is some, which makes `share` of all rows."""

    rows: Sequence[Rows]
    share: float

    @property
    def epoch_rows(self) -> float:
        """Rows, general ones too, until each of the domain was seen once."""
        return len(self.rows[0]) / (1 - self.share) if self.share else len(self.rows[0])

    @property
    def mean_tokens(self) -> float:
        """Of a row."""
        own = self.rows[0].mean_tokens
        return (1 - self.share) * own + self.share * self.rows[1].mean_tokens if self.share else own


class Reading:
    """The batches of a run, and its plan with the steps that its epochs or tokens take."""

    def __init__(
        self, recipe: Settings, texts: Sequence[Text], tokenizer: PreTrainedTokenizerBase, *, watch: Watch
    ) -> None:
        self.recipe, self.tokenizer = recipe, tokenizer
        self.texts = texts
        corpora = [text.corpus for text in texts]
        self.tokens = [ranks.first_then_all(partial(each.tokens, tokenizer, watch=watch)) for each in corpora]
        lengths = [recipe.max_tokens, *([recipe.long_tokens] if recipe.long_share else [])]
        self.phases = [self._phase(longest) for longest in lengths]
        self.parts = [1 - recipe.long_share, recipe.long_share] if recipe.long_share else [1.0]

    @cached_property
    def plan(self) -> Plan:
        plan, parts = self.recipe.plan, list(zip(self.parts, self.phases, strict=True))
        if self.recipe.tokens:
            of_step = plan.batch * sum(part * phase.mean_tokens for part, phase in parts)
            if self.recipe.tokens < of_step:
                raise ValueError(
                    f"tokens = {self.recipe.tokens:,} is less than one step reads, about {of_step:,.0f} with "
                    f"plan.batch = {plan.batch}. Give more, or lower plan.batch"
                )
            return replace(plan, steps=math.ceil(self.recipe.tokens / of_step))
        if len(parts) == 1:
            return with_steps(plan, self.recipe.epochs, self.phases[0].epoch_rows)
        return with_steps(plan, self.recipe.epochs, 1 / sum(part / phase.epoch_rows for part, phase in parts))

    @cached_property
    def stream(self) -> Stream:
        steps = self.plan.steps
        turn = round(steps * self.parts[0])
        streams = [self._stream(phase, number, first_step=number * turn) for number, phase in enumerate(self.phases)]
        return streams[0] if len(streams) == 1 else in_turn(streams[0], streams[1], at=turn)

    def _phase(self, longest: int) -> Phase:
        rows = [self._rows(number, longest) for number in range(len(self.texts))]
        if len(rows) == 1:
            return Phase(rows, 0.0)
        stated = self.recipe.general_share
        return Phase(rows, len(rows[1]) / sum(map(len, rows)) if stated is None else stated)

    def _rows(self, number: int, longest: int) -> Rows:
        tokens, text = self.tokens[number], self.texts[number]
        whole_words = self.recipe.whole_words
        if self.recipe.next_sentence:
            return masked_pairs(
                tokens, self.tokenizer, longest=longest, whole_words=whole_words, documents=text.kept, name=text.name
            )
        return masked_segments(tokens, longest=longest, whole_words=whole_words, documents=text.kept, name=text.name)

    def _stream(self, phase: Phase, number: int, *, first_step: int) -> Stream:
        plan = self.plan
        rising = self.recipe.masking_schedule == "steps"
        rate = rising_rate(self.recipe.masking, plan.steps) if rising else self.recipe.masking
        if len(phase.rows) == 1:
            return sampled(phase.rows[0], even(plan.batch, first_step), seed=plan.seed, rate=rate, beside=2 * number)
        windows = shares(plan.batch, phase.share, first_step)
        return side_by_side(
            [
                sampled(rows, window, seed=plan.seed, rate=rate, beside=2 * number + place)
                for place, (rows, window) in enumerate(zip(phase.rows, windows, strict=True))
            ]
        )


def check_reading(recipe: Settings, *, general: bool) -> None:
    """Raises ValueError for settings out of range, or against each other. general: whether general text is given."""
    share = recipe.general_share
    rules = {
        "tokens": (recipe.tokens >= 0, "at least 0"),
        "general_share": (share is None or 0 < share < 1, "above 0 and below 1"),
        "long_share": (0 <= recipe.long_share < 1, "at least 0, and below 1"),
    }
    for name, (holds, wanted) in rules.items():
        if not holds:
            raise ValueError(f"{name} = {getattr(recipe, name)} is out of range: {wanted}")
    if recipe.tokens and recipe.epochs:
        raise ValueError(
            f"epochs = {recipe.epochs} and tokens = {recipe.tokens} both say how long the run is. Leave one of them 0"
        )
    if share is not None and not general:
        raise ValueError(f"general_share = {share}, but there is no general text. Add general=TEXTS, or leave it out")
    if recipe.long_share and recipe.long_tokens <= recipe.max_tokens:
        raise ValueError(
            f"long_tokens = {recipe.long_tokens} of the second phase are no more than max_tokens = {recipe.max_tokens} "
            "of the first. Raise long_tokens, or set long_share=0"
        )
    if recipe.masking_schedule == "steps" and recipe.masking > MOST_MASKED:
        raise ValueError(
            f"masking = {recipe.masking} rises to five thirds of it, more than all tokens. Set at most {MOST_MASKED}, "
            'or masking_schedule="constant"'
        )
    by_share = {"long_share": recipe.long_share, "masking_schedule": recipe.masking_schedule}
    shared = [name for name, none in (("long_share", 0), ("masking_schedule", "constant")) if by_share[name] != none]
    if shared and recipe.plan.schedule != "linear":
        name = shared[0]
        raise ValueError(
            f"plan.schedule = '{recipe.plan.schedule}' is for runs that may get longer, but {name} = "
            f"{by_share[name]!r} goes by "
            f'shares of the steps. Leave {name} out, or set plan.schedule="linear"'
        )
