import random

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from acclimate.text import tokens
from acclimate.text.tokens import Chunked, _plain_backend, encode_whole

PARTS = [*" \t\n\r\u00a0\u200b\u0301\u3000é中🙂\u0007\u001c\u0085\ufffdİΣςßﬀ½_\u00ad-.,()'", *([" "] * 40)]
PARTS += [*"abRs", "rats", "don't", "'ll", "[MASK]", "<mask>", "<s>", "[UNK]", "naloxone", "Hypotension", "  ", "10"]


@pytest.fixture(scope="module")
def backends(tokenizers):
    found = {kind: _plain_backend(tokenizer) for kind, tokenizer in tokenizers.items()}
    found["words, tokens of its own"] = copy(found["wordpiece"], AddedToken("naloxone"), AddedToken("Rats"))
    mask = AddedToken("<mask>", lstrip=True, normalized=False)
    found["bytes, greedy mask"] = copy(found["bytes"], mask, AddedToken("hypotension", single_word=True))
    composed = copy(found["bytes"], AddedToken("   ", normalized=True))
    composed.normalizer = normalizers.NFC()
    composed.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found["bytes, composed"] = composed
    spaced = Tokenizer(models.BPE())
    spaced.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    runs = ["a \n \t b", "a\n \tb", "a\n ", " \n\n ", "a \u00a0 b"] * 9
    spaced.train_from_iterator(
        runs, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet, show_progress=False)
    )
    found["bytes, merging runs of white space"] = spaced
    return found


def copy(backend, *added):
    found = Tokenizer.from_str(backend.to_str())
    found.add_tokens([*added])
    return found


def same(one, other):
    return all(np.array_equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("wordpiece", "words"),
        ("words, tokens of its own", "words"),
        ("bytes", "bytes"),
        ("bytes, untrimmed", "bytes"),
        ("bytes, greedy mask", "bytes"),
        ("bytes, composed", "bytes"),
        ("bytes, merging runs of white space", "bytes"),
        ("unigram", ""),
    ],
)
def test_chunks_give_the_tokens_and_words_of_the_whole_text(backends, name, kind):
    chunked, generator = Chunked(backends[name]), random.Random(0)
    assert chunked._kind == kind
    for _ in range(20):
        texts = ["".join(generator.choices(PARTS, k=generator.randint(1, 40))) for _ in range(10)]
        assert same(chunked.encode(texts), encode_whole(backends[name], texts))
        for text in texts:
            assert same(chunked.encode([text]), encode_whole(backends[name], [text])), repr(text)


@pytest.mark.parametrize("text", ["x\n \ty", "x \n \t y", "a\n ", " \n\n ", "a \u00a0 b", "x\n y", "x\n a \n "])
def test_white_space_in_a_row_stays_together(backends, text):
    backend = backends["bytes, merging runs of white space"]
    assert same(Chunked(backend).encode([text]), encode_whole(backend, [text]))


def test_chunks_that_were_forgotten_are_learnt_again(backends, sentences, monkeypatch):
    monkeypatch.setattr(tokens, "_KNOWN", 5)
    chunked = Chunked(backends["bytes"])
    for _ in range(3):
        assert same(chunked.encode(sentences), encode_whole(backends["bytes"], sentences))
        assert not chunked._known


@pytest.mark.parametrize(
    "change",
    [
        lambda backend: backend.add_tokens([AddedToken("of course", normalized=True)]),
        lambda backend: setattr(backend, "normalizer", normalizers.Lowercase()),
        lambda backend: setattr(backend, "pre_tokenizer", pre_tokenizers.Metaspace()),
    ],
)
def test_tokenizers_that_may_look_over_a_blank_get_whole_texts(backends, change):
    backend = copy(backends["bytes"])
    change(backend)
    assert Chunked(backend)._kind == ""
