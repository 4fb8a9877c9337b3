"""The rows of a prepared task under a tokenizer, made once for all fine-tunings that a process does one after another.

A race of small models would spend a fifth of its time on making the same rows again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from acclimate.core.prompt import prompt_length
from acclimate.core.types import Batch, Example, Split
from acclimate.tasks.prepared import Prepared
from acclimate.tasks.rows import encode
from acclimate.text.tokens import tokenizer_identity

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

KEPT = 6  # splits whose rows stay in memory, those used last
_rows: OrderedDict[Hashable, Batch] = OrderedDict()


def encoded(
    task: Prepared,
    split: Split,
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    *,
    spans: Callable[[Example], Sequence[tuple[int, int]]] | None = None,
) -> Batch:
    """The rows of the split's examples, as `rows.encode` makes them, which others may have too: not to be changed."""
    if not tokenizer.is_fast:  # of a slow one nobody knows what it hangs on
        return encode(examples, tokenizer, task.max_tokens, task.kind, spans=spans)
    sides = prompt_length(tokenizer), tokenizer.truncation_side, tuple(tokenizer.model_input_names)
    key = (task.hashes[split], task.max_tokens, task.kind, spans, tokenizer_identity(tokenizer), *sides)
    if key not in _rows:
        _rows[key] = encode(examples, tokenizer, task.max_tokens, task.kind, spans=spans)
        while len(_rows) > KEPT:
            _rows.popitem(last=False)
    _rows.move_to_end(key)
    return _rows[key]
