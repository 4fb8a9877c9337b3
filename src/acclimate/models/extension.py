"""Add words to an encoder's vocabulary: rows of its embeddings and its output layer, and rules of its tokenizer.

Old rows do not change, so a text without new words gives the same hidden states and, for the old pieces, the same
logits. Shape suffixes: N new words, D hidden.
"""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers
from tokenizers import Tokenizer
from torch import Tensor, nn

from acclimate.core.prompt import FIELD
from acclimate.core.randomness import seeded
from acclimate.models.encoder import encoder_of, word_embeddings
from acclimate.models.loading import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def add_rows(model: PreTrainedModel, pieces: Sequence[Sequence[int]], first: int, *, start_ND: Tensor | None) -> None:
    """Add to the model, in place, an embedding for each new word, and a row and a bias if it has an output layer.

    pieces    for each word the ids that it was split into so far. Its embedding, its bias and its row of an untied
              output layer start as the means of theirs
    first     id of the first new word
    start_ND  first values of the embeddings, in place of the means; None: the means

    Raises ValueError if the model has fewer embeddings than `first`.
    """
    embedded = word_embeddings(model).detach()
    if first > len(embedded):
        raise ValueError(
            f"the tokenizer has {first:,} entries, but the model has only {len(embedded):,} embeddings, so they do "
            "not match. Give a model with the tokenizer that it was trained with"
        )
    head, separate = _output(model)
    rows_ND = _means(embedded, pieces) if start_ND is None else start_ND
    output_ND = None if head is None or head.weight is word_embeddings(model) else _means(head.weight.detach(), pieces)
    bias = head.bias if head is not None else separate
    bias_N = None if bias is None else _means(bias.detach()[:, None], pieces)[:, 0]
    size = max(len(embedded), first + len(pieces))
    with seeded(0), torch.no_grad():
        grown = encoder_of(model) if separate is not None else model
        if size > len(embedded):
            grown.resize_token_embeddings(size, mean_resizing=False)
            if separate is not None:
                room = separate.new_zeros(size - len(separate))
                cast(Any, model).lm_predictions.lm_head.bias = nn.Parameter(torch.cat([separate, room]))
        new = slice(first, first + len(pieces))
        word_embeddings(model)[new] = rows_ND
        head, separate = _output(model)
        if output_ND is not None and head is not None:
            head.weight[new] = output_ND
        bias = head.bias if head is not None else separate
        if bias_N is not None:
            cast(Tensor, bias)[new] = bias_N


def _output(model: PreTrainedModel) -> tuple[nn.Linear | None, nn.Parameter | None]:
    """Return the output layer and None; None and a bias if the embeddings are the output layer; two None if there is
    no output layer.

    The second is DeBERTa's with legacy=false: transformers' get_output_embeddings gives the layer before it.
    """
    head = cast(Any, model).get_output_embeddings()
    if head is None:
        return None, None
    if predictions := getattr(model, "lm_predictions", None):
        return None, cast(nn.Parameter, predictions.lm_head.bias)
    return cast(nn.Linear, head), None


def _means(rows: Tensor, pieces: Sequence[Sequence[int]]) -> Tensor:
    """Return the (N, ...) means of each word's rows, computed in float64, in the rows' type."""
    return torch.stack([rows[list(ids)].double().mean(0) for ids in pieces]).to(rows.dtype)


def with_backend(tokenizer: PreTrainedTokenizerBase, backend: Tokenizer) -> PreTrainedTokenizerBase:
    """Return a copy of the tokenizer with the rules of `backend`.

    It has the tokenizer's class if that class keeps the rules when it is loaded, or else PreTrainedTokenizerFast, which
    takes a file's rules as they are. RobertaTokenizer builds its rules from vocabulary and merges: `ignore_merges` is
    lost.
    """
    kind: Any = type(tokenizer)
    plain = copy.deepcopy(tokenizer)
    with tempfile.TemporaryDirectory() as folder, quiet():
        config = Path(folder) / "tokenizer_config.json"
        plain.save_pretrained(folder)
        for file in Path(folder).iterdir():
            if file != config:  # vocabularies of other formats would be read beside the new one
                file.unlink()
        backend.save(str(Path(folder) / "tokenizer.json"))
        again: PreTrainedTokenizerBase = kind.from_pretrained(folder)
    if _rules(again.backend_tokenizer) != _rules(backend):
        again = _as_fast(tokenizer, backend)
    again.name_or_path = tokenizer.name_or_path
    again.init_kwargs["name_or_path"] = tokenizer.name_or_path
    return again


def _rules(backend: Tokenizer) -> dict[str, Any]:
    """Return the content of the tokenizer's tokenizer.json, without the truncation and padding of its last call."""
    rules: dict[str, Any] = json.loads(backend.to_str())
    return {**rules, "truncation": None, "padding": None}


def _as_fast(tokenizer: PreTrainedTokenizerBase, backend: Tokenizer) -> PreTrainedTokenizerBase:
    """Return a PreTrainedTokenizerFast with the tokenizer's settings and special tokens, and the rules of `backend`.

    Raises ValueError if that class changes the rules too.
    """
    special_tokens = {
        name: str(value) for name, value in tokenizer.special_tokens_map.items() if isinstance(value, str)
    }
    extra = [token for token in tokenizer.all_special_tokens if token not in special_tokens.values()]
    prompt = {FIELD: tokenizer.init_kwargs[FIELD]} if FIELD in tokenizer.init_kwargs else {}
    fast: Any = transformers.PreTrainedTokenizerFast
    again: PreTrainedTokenizerBase = fast(
        tokenizer_object=backend,
        **special_tokens,
        extra_special_tokens=extra,
        model_input_names=list(tokenizer.model_input_names),
        model_max_length=tokenizer.model_max_length,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        **prompt,
    )
    if _rules(again.backend_tokenizer) != _rules(backend):
        raise ValueError(f"transformers cannot add words to this {type(tokenizer).__name__}. Use another model")
    return again
