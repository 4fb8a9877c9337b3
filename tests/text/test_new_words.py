"""Words that a tokenizer breaks, what they save, and tokenizers that have them: the same ids wherever they are not."""

import json
import random
import re
from collections import Counter

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from acclimate.core.types import Document
from acclimate.text.new_words import Cutter, broken_words, count_parts, extended, fertility, listed_words, woken
from acclimate.text.vectors.of_vocabulary import fit_map
from acclimate.text.words import word_spans

KINDS = ("wordpiece", "bytes", "unigram")
TEXTS = (
    "the bradycardic rats were bradycardic again",
    "Bradycardic rats (bradycardic, 10 mg/kg) and unhypotensive ones",
    "unhypotensive rats\nbradycardic\tnaïveté",
    "a bradycardically naïve owner and the owners of café bradycardia",
)


class Texts:
    def __init__(self, *texts):
        self.texts = texts

    def documents(self):
        return (Document(str(number), text) for number, text in enumerate(self.texts))

    def __len__(self):
        return len(self.texts)


@pytest.fixture(scope="module", params=KINDS)
def cutter(request, tokenizers):
    return Cutter(with_decoder(tokenizers, request.param))


def with_decoder(tokenizers, kind):
    backend = Tokenizer.from_str(tokenizers[kind].backend_tokenizer.to_str())
    backend.decoder = {
        "wordpiece": decoders.WordPiece(),
        "bytes": decoders.ByteLevel(),
        "unigram": decoders.Metaspace(),
    }[kind]
    return backend


def ids(backend, text):
    return backend.encode(text, add_special_tokens=False).ids


def test_parts_are_what_the_tokenizer_makes_of_the_texts(cutter):
    texts = [" ".join(text.split()) for text in TEXTS]  # pieces of white space itself are left out
    found = fertility(count_parts(Texts(*texts), cutter), cutter)
    made = [piece for text in texts for piece in ids(cutter.backend, text)]
    assert found.tokens == len(made)
    assert found.words == sum(len(re.findall(r"\w+", text)) for text in texts)
    assert found.pieces == sum(in_words(cutter.backend, text) for text in texts)
    assert found.unknown == made.count(cutter.unknown)
    assert found.pieces_a_word == found.pieces / found.words


def in_words(backend, text):
    """Pieces of words, of which some character is a word's; a lone mark of a blank is none."""
    made = backend.encode(text, add_special_tokens=False)
    pieces = zip(made.tokens, made.offsets, strict=True)
    return sum(re.search(r"\w", text[first:last]) is not None for piece, (first, last) in pieces if piece not in "Ġ▁")


def test_words_that_save_most_come_first(cutter):
    """Against counting by hand: pieces less one, times occurrences, of every way to spell a word."""
    parts = count_parts(Texts(*TEXTS), cutter)
    found = broken_words(parts, cutter, most=1000, least=1)
    for word in found:
        assert word.saved == word.count * (len(word.pieces) - 1 + word.unknown)
        assert word.pieces == tuple(piece.id for piece in cutter.backend.model.tokenize(word.form))
        assert cutter.backend.token_to_id(word.form) is None
    assert [word.saved for word in found] == sorted((word.saved for word in found), reverse=True)
    counts = Counter({word.text: 0 for word in found})
    for word in found:
        counts[word.text] += word.count
    written = " ".join(TEXTS).lower() if cutter.kind == "WordPiece" else " ".join(TEXTS)
    words = Counter(written[first:last] for first, last in word_spans(written))
    assert counts["bradycardic"] == words["bradycardic"] >= 4
    assert found[0].text == "bradycardic"
    assert broken_words(parts, cutter, most=2, least=1) == found[:2]
    assert all(word.count >= 2 for word in broken_words(parts, cutter, most=1000, least=2))


def test_words_of_a_list_are_added_in_its_order_and_terms_word_by_word(cutter):
    parts = count_parts(Texts(*TEXTS), cutter)
    found = listed_words(["zebrafish", "", "bradycardic rats-"], parts, cutter)
    assert [word.text for word in found if word.count][:1] == ["bradycardic"]
    assert list(dict.fromkeys(word.text for word in found if word.text in ("zebrafish", "bradycardic"))) == [
        "zebrafish",
        "bradycardic",
    ]
    again = listed_words(["bradycardic"], parts, Cutter(extended(cutter, [word.form for word in found])))
    assert again == []


def new_forms(cutter):
    return [word.form for word in broken_words(count_parts(Texts(*TEXTS), cutter), cutter, most=6, least=1)]


def test_new_words_are_taken_whole_and_old_entries_keep_their_ids(cutter):
    forms = new_forms(cutter)
    made = extended(cutter, forms)
    old = cutter.backend.get_vocab()
    assert {entry: made.token_to_id(entry) for entry in old} == old
    assert [made.token_to_id(form) for form in forms] == list(range(len(old), len(old) + len(forms)))
    assert made.token_to_id(forms[0]) in ids(made, "the bradycardic rats")
    assert len(ids(made, TEXTS[0])) < len(ids(cutter.backend, TEXTS[0]))
    assert made.decode(ids(made, TEXTS[0])) == cutter.backend.decode(ids(cutter.backend, TEXTS[0]))
    after = fertility(count_parts(Texts(*TEXTS), cutter), Cutter(made))
    assert after == fertility(count_parts(Texts(*TEXTS), Cutter(made)), Cutter(made))


def test_texts_without_new_words_get_the_ids_that_they_had(cutter, sentences):
    """Of random texts of all characters that the tokenizers know, those without a new word as a string in them."""
    forms = new_forms(cutter)
    made = extended(cutter, forms)
    words = [cutter.text(form).lower() for form in forms]
    normal = cutter.backend.normalizer.normalize_str if cutter.backend.normalizer else str
    generator = random.Random(0)
    pool = sorted({word for text in (*sentences, *TEXTS) for word in text.split()})
    letters = "bradycnhoevtius "
    texts = [" ".join(generator.choices(pool, k=8)) for _ in range(300)]
    texts += ["".join(generator.choices(letters, k=40)) for _ in range(700)]
    without = [text for text in texts if not any(word in normal(text).lower() for word in words)]
    assert len(without) > 600
    assert [ids(made, text) for text in without] == [ids(cutter.backend, text) for text in without]


def test_longer_word_begins_with_a_new_one_until_it_is_new_itself(cutter):
    made = extended(cutter, [cutter.forms(part)[0] for part in cutter.parts(" bradycardic")])
    both = Cutter(made)
    [form] = [form for part in both.parts(" bradycardics") for form in both.forms(part)]
    assert (len(both.pieces(form)) == 2) == (cutter.kind != "BPE")  # which takes words by themselves alone
    assert len(Cutter(extended(both, [form])).pieces(form)) == 1


def test_byte_level_words_change_no_other_word_that_has_the_same_pieces(tokenizers):
    cutter = Cutter(with_decoder(tokenizers, "bytes"))
    made = extended(cutter, ["Ġbradycardic"])
    for text in ("xbradycardic", "bradycardics", " Bradycardic", "unbradycardic"):
        assert ids(made, text)[1:] == ids(cutter.backend, text)[1:]
    assert json.loads(made.to_str())["model"]["merges"] == json.loads(cutter.backend.to_str())["model"]["merges"]


def test_old_entries_that_merges_never_spelt_are_counted():
    # "abc" is an entry, but "bc" is joined first, and nothing joins "a" and "bc"
    vocabulary = {piece: number for number, piece in enumerate(["a", "b", "c", "d", "bc", "ab", "abc", "cd"])}
    raw = Tokenizer(models.BPE(vocabulary, [("b", "c"), ("a", "b"), ("ab", "c"), ("c", "d")]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    before = Cutter(raw)
    after = Cutter(extended(before, ["dd"]))
    assert (len(before.pieces("abc")), len(after.pieces("abc"))) == (2, 1)
    assert woken(before, after) == 1
    assert woken(after, after) == 0


def test_tokens_that_were_added_behind_the_vocabulary_keep_their_ids(cutter):
    backend = Tokenizer.from_str(cutter.backend.to_str())
    backend.add_special_tokens(["[PROMPT 0]", "[PROMPT 1]"])
    cutter_added = Cutter(backend)
    made = Tokenizer.from_str(extended(cutter_added, new_forms(cutter_added)).to_str())
    assert [made.token_to_id(f"[PROMPT {number}]") for number in range(2)] == [
        backend.token_to_id(f"[PROMPT {number}]") for number in range(2)
    ]
    assert ids(made, "rats [PROMPT 1] of") == ids(backend, "rats [PROMPT 1] of")


def test_rare_strings_are_left_out_where_memory_is_bounded_and_told(tokenizers, monkeypatch):
    cutter = Cutter(tokenizers["wordpiece"].backend_tokenizer)
    texts = ["rat " * 50 + "owner " * 20] + [" ".join(f"w{number}x{each}" for each in range(9)) for number in range(9)]
    whole = count_parts(Texts(*texts), cutter)
    monkeypatch.setattr("acclimate.text.new_words._MOST", 60)
    few = count_parts(Texts("x" * (1 << 20), *texts), cutter)
    assert (whole.counts["rat"], whole.counts["owner"], whole.left_out) == (50, 20, 0)
    assert few.counts["rat"] >= 49  # the one at the beginning has no blank before it, so it is rare
    assert few.counts["owner"] == 20
    assert few.left_out > 0
    assert few.counts.total() + few.left_out == whole.counts.total() + 1
    assert few.words == whole.words + 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"), "kind WordLevel"),
        (models.WordPiece({"a": 0, "[UNK]": 1}, unk_token="[UNK]"), "no rules that split text into words"),
    ],
)
def test_tokenizers_that_take_no_words_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        Cutter(Tokenizer(model))


def test_bpe_that_marks_the_ends_of_words_is_refused(tokenizers):
    rules = json.loads(with_decoder(tokenizers, "bytes").to_str())
    rules["model"] |= {"end_of_word_suffix": "</w>", "vocab": {"a": 0, "a</w>": 1}, "merges": []}
    with pytest.raises(ValueError, match="marks the ends or insides of words"):
        Cutter(Tokenizer.from_str(json.dumps(rules)))


def test_map_is_the_least_squares_with_a_constant():
    generator = np.random.default_rng(0)
    vectors, way = generator.normal(size=(60, 4)), generator.normal(size=(5, 3))
    exact = np.hstack([vectors, np.ones((60, 1))]) @ way
    found = fit_map(vectors, exact)
    np.testing.assert_allclose(found.map_GD, way, atol=1e-9)
    assert found.explained == pytest.approx(1)
    np.testing.assert_allclose(found(vectors), exact, atol=1e-5)
    noise = fit_map(vectors, generator.normal(size=(60, 3)))
    assert noise.explained < 0.2
    with pytest.raises(ValueError, match=r"9 words have a vector .* at least 10"):
        fit_map(vectors[:9], exact[:9])
