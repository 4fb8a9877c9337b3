import json
import random
import warnings
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from acclimate.core.types import Document
from acclimate.text import chunks
from acclimate.text import tokens as tokens_module
from acclimate.text.chunks import Chunked, encode_whole
from acclimate.text.corpus import write_corpus
from acclimate.text.tokens import _plain_backend, build_tokens, loss_of_frequencies, open_tokens, tokenizer_identity

KINDS = ["wordpiece", "bytes", "bytes, untrimmed", "unigram"]


def words(tokens, tokenizer):
    """Each document's words, as lists of tokens."""
    found = []
    for begin, end in zip(tokens.documents[:-1], tokens.documents[1:], strict=True):
        document = []
        pieces = tokenizer.convert_ids_to_tokens(tokens.ids[begin:end].tolist())
        for piece, starts in zip(pieces, tokens.word_starts[begin:end], strict=True):
            document += [[piece]] if starts else []
            document[-1] += [] if starts else [piece]
        found.append(document)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_ids_equal_those_of_transformers(corpus, tokenizers, kind):
    tokens = corpus.tokens(tokenizers[kind])
    documents = list(corpus.documents())
    assert len(tokens.documents) == len(documents) + 1
    for number, document in enumerate(documents):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = tokenizers[kind](document.text)["input_ids"]
        ids = tokens.ids[tokens.documents[number] : tokens.documents[number + 1]].tolist()
        assert [*tokens.prefix, *ids, *tokens.suffix] == expected
    assert tokens.mask == tokenizers[kind].mask_token_id
    assert tokens.pad == tokenizers[kind].pad_token_id
    assert tokens.vocabulary == len(tokenizers[kind])
    assert set(tokens.special) == set(tokenizers[kind].all_special_ids)
    assert tokens.corpus == corpus.hash


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_the_same_under_every_tokenizer(tmp_path, tokenizers, kind):
    texts = ["(rats)  blood-pressure", "blood pressure, 3,204 µg", "中文 naïve"]
    corpus = write_corpus((Document(str(row), text) for row, text in enumerate(texts)), tmp_path / "corpus")
    found = words(corpus.tokens(tokenizers[kind]), tokenizers[kind])
    assert [len(document) for document in found] == [6, 7, 3]
    bare = ["".join(piece.strip("Ġ▁").removeprefix("##") for piece in word) for word in found[0]]
    assert bare == ["(", "rats", ")", "blood", "-", "pressure"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("wordpiece", [["("], ["naloxone"], [")"], ["d", "##on"], ["'"], ["t"]]),
        ("bytes", [["Ġ("], ["naloxone"], [")"], ["Ġ", "d", "on"], ["'t"]]),
        ("unigram", [["▁(naloxone"], [")"], ["▁", "d", "on"], ["'"], ["t"]]),
    ],
)
def test_lone_blanks_go_with_their_word_and_tokens_over_several_words_begin_one(tmp_path, tokenizers, kind, expected):
    corpus = write_corpus([Document("1", "(naloxone) don't")], tmp_path / "corpus")
    assert words(corpus.tokens(tokenizers[kind]), tokenizers[kind])[0] == expected


def test_tokens_of_one_character_are_one_word(tmp_path, tokenizers):
    corpus = write_corpus([Document("1", "a 🤖🤖 b")], tmp_path / "corpus")
    found = words(corpus.tokens(tokenizers["bytes"]), tokenizers["bytes"])[0]
    assert [len(word) > 2 for word in found] == [False, True, True, False]


def test_batches_change_nothing(corpus, tokenizers, tmp_path, monkeypatch):
    whole = corpus.tokens(tokenizers["bytes"])
    monkeypatch.setattr(tokens_module, "_BATCH_CHARACTERS", 100)
    build_tokens(corpus.documents(), tokenizers["bytes"], tmp_path, corpus=corpus.hash)
    cut = open_tokens(tmp_path)
    for name in ("ids", "word_starts", "documents"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(cut, name))


@pytest.fixture
def long_corpus(tmp_path, sentences, monkeypatch):
    """A corpus of some 40 batches, of which a build saves every third."""
    monkeypatch.setattr(tokens_module, "_BATCH_CHARACTERS", 300)
    monkeypatch.setattr(tokens_module, "_SAVED", 3)
    texts = [f"{number} {sentences[number % 5]} {sentences[number % 3]}" for number in range(100)]
    return write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "long")


def bytes_of(tokens):
    return {file.name: file.read_bytes() for file in tokens.path.iterdir()}


@pytest.mark.parametrize("killed", [(2, ""), (10, ""), (38, ""), (38, "ids.bin"), (38, "begun.json")])
def test_a_build_that_was_killed_goes_on_to_the_same_bytes(long_corpus, tokenizers, tmp_path, monkeypatch, killed):
    killed_at, damaged = killed
    whole = bytes_of(write_corpus(long_corpus.documents(), tmp_path / "whole").tokens(tokenizers["bytes"]))
    encode, calls = Chunked.encode, []

    def kill(chunked, texts):
        calls.append(len(texts))
        if len(calls) == killed_at:
            raise KeyboardInterrupt
        return encode(chunked, texts)

    monkeypatch.setattr(Chunked, "encode", kill)
    with pytest.raises(KeyboardInterrupt):
        long_corpus.tokens(tokenizers["bytes"])
    assert [path.name[-9:] for path in (long_corpus.path / "tokens").glob(".*") if path.is_dir()] == [".building"]
    saved = sum(calls[: 3 * ((killed_at - 1) // 3)])
    killed_at, calls = 0, []
    for path in long_corpus.path.rglob(damaged) if damaged else ():
        content = path.read_bytes()
        path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    assert bytes_of(long_corpus.tokens(tokenizers["bytes"])) == whole
    assert sum(calls) == len(long_corpus) - (0 if damaged else saved)
    assert not [path for path in (long_corpus.path / "tokens").glob(".*") if path.is_dir()]


def test_several_processes_write_the_same_tokens(long_corpus, tokenizers, tmp_path):
    whole = bytes_of(write_corpus(long_corpus.documents(), tmp_path / "whole").tokens(tokenizers["wordpiece"]))
    assert bytes_of(long_corpus.tokens(tokenizers["wordpiece"], processes=2)) == whole


def test_a_refused_build_leaves_nothing(tmp_path, tokenizers):
    corpus = write_corpus([Document("1", "\u0007")], tmp_path / "corpus")
    with pytest.raises(ValueError, match="makes no token"):
        corpus.tokens(tokenizers["wordpiece"])
    assert not [path for path in (corpus.path / "tokens").iterdir() if path.is_dir()]


def test_arrays_are_small_and_read_only(tokens):
    assert (tokens.ids.dtype, tokens.word_starts.dtype, tokens.documents.dtype) == (np.uint16, bool, np.int64)
    assert not tokens.ids.flags.writeable


@pytest.mark.parametrize(("masked", "random"), [(0.8, 0.1), (1.0, 0.0), (0.0, 0.0), (0.5, 0.5)])
def test_without_context_the_loss_is_the_entropy_of_a_piece_that_knows_what_is_shown(masked, random, tokens):
    counted = replace(tokens, ids=np.array([7, 7, 9, 5], np.uint16), vocabulary=10, special=(0, 1, 2, 3))
    shares = np.array([0, 0.25, 0, 0.5, 0, 0.25])  # of the pieces 4 to 9
    shown = np.column_stack([(1 - masked - random) * np.eye(6) + random / 6, np.full(6, masked)])
    joint = shares[:, None] * shown
    places = zip(*joint.nonzero(), strict=True)
    expected = -sum(joint[piece, at] * np.log(joint[piece, at] / joint[:, at].sum()) for piece, at in places)
    assert loss_of_frequencies(counted, masked=masked, random=random) == pytest.approx(expected, abs=1e-12)


def test_large_vocabularies_take_four_bytes(corpus, tokenizers):
    large = PreTrainedTokenizerFast(
        tokenizer_object=tokenizers["unigram"].backend_tokenizer, pad_token="<pad>", mask_token="<mask>"
    )
    large.add_tokens([f"word{number}" for number in range(65_536 - len(large))])
    assert corpus.tokens(large).ids.dtype == np.uint32


def test_saved_truncation_and_padding_play_no_part(corpus, tokenizers, tmp_path):
    plain = corpus.tokens(tokenizers["wordpiece"])
    tokenizers["wordpiece"].save_pretrained(tmp_path / "saved")
    rules = json.loads((tmp_path / "saved" / "tokenizer.json").read_text())
    rules["truncation"] = {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0}
    (tmp_path / "saved" / "tokenizer.json").write_text(json.dumps(rules))
    short = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert tokenizer_identity(short) == plain.tokenizer
    build_tokens(corpus.documents(), short, tmp_path, corpus=corpus.hash)
    np.testing.assert_array_equal(open_tokens(tmp_path).ids, plain.ids)
    assert short.backend_tokenizer.truncation is not None


def test_tokenizer_without_fast_backend_is_refused(corpus):
    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match="Slow has no fast backend"):
        corpus.tokens(Slow())


@pytest.mark.parametrize("missing", ["mask_token", "pad_token"])
def test_tokenizer_without_mask_or_padding_is_refused(corpus, tokenizers, missing):
    given = {"mask_token": "<mask>", "pad_token": "<pad>"}
    given.pop(missing)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizers["bytes"].backend_tokenizer, **given)
    with pytest.raises(ValueError, match=f"has no {missing}"):
        corpus.tokens(tokenizer)


PARTS = [*" \t\n\r\u00a0\u200b\u0301\u3000é中🙂\u0007\u001c\u0085\ufffdİΣςßﬀ½_\u00ad-.,()'", *([" "] * 40)]
BLANKS = ["x\n \ty", "x \n \t y", "a\n ", " \n\n ", "a \u00a0 b", "x\n y", "x\n a \n "]
PARTS += [*"abRs", "rats", "don't", "'ll", "[MASK]", "<mask>", "<s>", "[UNK]", "naloxone", "Hypotension", "  ", "10"]


@pytest.fixture(scope="module")
def backends(tokenizers):
    found = {kind: _plain_backend(tokenizer) for kind, tokenizer in tokenizers.items()}
    found["words, added tokens"] = copy(found["wordpiece"], AddedToken("naloxone"), AddedToken("Rats"))
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
        ("words, added tokens", "words"),
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
    for text in BLANKS:
        assert same(Chunked(backends[name]).encode([text]), encode_whole(backends[name], [text])), repr(text)


def test_chunks_that_were_forgotten_are_learnt_again(backends, sentences, monkeypatch):
    monkeypatch.setattr(chunks, "_KNOWN", 5)
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
