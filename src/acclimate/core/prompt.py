"""The length of a learnt prompt (models/light.py), for code that counts tokens.

A prompt comes after the row and takes nothing from its length: settings such as max_tokens do not count it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FIELD = "prompt_tokens"  # field of tokenizer_config.json and of config.json


def prompt_length(tokenizer: PreTrainedTokenizerBase) -> int:
    """Return the number of prompt tokens that the tokenizer puts behind each row; 0 for an ordinary tokenizer."""
    return int(tokenizer.init_kwargs.get(FIELD, 0))
