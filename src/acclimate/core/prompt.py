"""How many tokens of every row are a learnt prompt: what they say is in models/light.py, this is for who counts tokens.

A prompt stands behind a row that is as long as it may be without: settings such as max_tokens leave it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FIELD = "prompt_tokens"  # of tokenizer_config.json, and of config.json


def prompt_length(tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens that the tokenizer puts behind each row beside its own special ones; 0 for an ordinary one."""
    return int(tokenizer.init_kwargs.get(FIELD, 0))
