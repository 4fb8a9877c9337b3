"""The length of a learnt prompt (models/light.py), for code that counts tokens.

A prompt comes after the row, which is as long as it may be without it: settings such as max_tokens do not count it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FIELD = "prompt_tokens"  # of tokenizer_config.json, and of config.json


def prompt_length(tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens that the tokenizer puts behind each row beside its own special ones; 0 for an ordinary one."""
    return int(tokenizer.init_kwargs.get(FIELD, 0))
