import random
import subprocess
import sys
import unicodedata

import pytest
from transformers import AutoTokenizer, BertConfig

from acclimate.core.types import Document
from acclimate.text.corpus import write_corpus
from acclimate.text.tokens import tokenizer_identity
from acclimate.text.vocabulary import KINDS, WordCounts, train_tokenizer

TRAIN = """
import sys
from pathlib import Path
from acclimate.text.corpus import Corpus
from acclimate.text.vocabulary import KINDS, train_tokenizer
for kind in KINDS:
    train_tokenizer(Corpus(Path(sys.argv[1])), kind=kind, size=300).save_pretrained(f"{sys.argv[2]}/{kind}")
"""


def test_same_corpus_gives_the_same_bytes(corpus, tmp_path):
    # a separate process has other hash tables
    subprocess.run([sys.executable, "-c", TRAIN, corpus.path, tmp_path / "2"], check=True)
    for kind in KINDS:
        for name in "01":
            train_tokenizer(corpus, kind=kind, size=300).save_pretrained(tmp_path / name / kind)
        saved = [(tmp_path / name / kind / "tokenizer.json").read_bytes() for name in "012"]
        assert saved[0] == saved[1] == saved[2], kind


@pytest.mark.parametrize("lower", [True, False])
def test_saved_tokenizer_reloads_to_the_same_encodings(corpus, sentences, tmp_path, lower):
    tokenizer = train_tokenizer(corpus, size=220, lower=lower, longest=64)
    tokenizer.save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert type(again) is type(tokenizer)
    assert again.model_max_length == 64
    assert tokenizer_identity(again) == tokenizer_identity(tokenizer)
    for sentence in sentences:
        assert dict(again(sentence, sentences[0])) == dict(tokenizer(sentence, sentences[0]))


def test_vocabulary_is_berts(corpus, sentences):
    tokenizer = train_tokenizer(corpus, size=220)
    assert len(tokenizer) == 220
    assert tokenizer.convert_ids_to_tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert sorted(tokenizer.all_special_ids) == [0, 1, 2, 3, 4]
    assert "naloxone" in tokenizer.tokenize(sentences[2])
    assert "[UNK]" not in tokenizer.tokenize(" ".join(sentences))
    assert tokenizer.tokenize("natslox")[1].startswith("##")
    assert tokenizer(sentences[0])["input_ids"][0] == 2
    assert tokenizer(sentences[0])["input_ids"][-1] == 3
    # were "##b" still a special token, it would be found in the text
    assert tokenizer.tokenize("a##b") == ["a", "[UNK]", "[UNK]", "b"]


def test_case_is_kept_where_asked(corpus):
    assert train_tokenizer(corpus, size=220, lower=False).tokenize("Naloxone")[0].startswith("N")
    assert train_tokenizer(corpus, size=220).tokenize("NALOXONE café") == train_tokenizer(corpus, size=220).tokenize(
        "naloxone cafe"
    )


def test_rare_characters_are_left_out(tmp_path):
    corpus = write_corpus([Document("1", "abc abc abc abd")], tmp_path / "corpus")
    tokenizer = train_tokenizer(corpus, size=20, characters=3)
    assert tokenizer.tokenize("abc abd") == ["abc", "[UNK]"]


@pytest.fixture(params=["bpe", "unigram"])
def kind(request):
    return request.param


@pytest.mark.parametrize("lower", [True, False])
def test_other_kinds_reload_with_their_special_tokens_beside_any_model(kind, lower, corpus, sentences, tmp_path):
    tokenizer = train_tokenizer(corpus, kind=kind, size=320, lower=lower, longest=64)
    tokenizer.save_pretrained(tmp_path)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 16}
    BertConfig(vocab_size=len(tokenizer), **sizes).save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.model_max_length == 64
    assert tokenizer_identity(again) == tokenizer_identity(tokenizer)
    named = [again.cls_token_id, again.pad_token_id, again.sep_token_id, again.unk_token_id, again.mask_token_id]
    assert sorted(named) == [0, 1, 2, 3, 4]
    for sentence in sentences:
        ids = again(sentence, sentences[0])["input_ids"]
        assert ids == tokenizer(sentence, sentences[0])["input_ids"]
        assert (ids[0], ids[-1]) == (again.cls_token_id, again.sep_token_id)
        whole = sentence if kind == "bpe" else unicodedata.normalize("NFKC", sentence)
        decoded = again.decode(again(sentence)["input_ids"], skip_special_tokens=True)
        assert decoded == (whole if not lower else again.backend_tokenizer.normalizer.normalize_str(sentence))


def test_a_mask_takes_the_space_before_it(kind, corpus):
    tokenizer = train_tokenizer(corpus, kind=kind, size=320)
    rats = tokenizer("rats", add_special_tokens=False)["input_ids"]
    ids = tokenizer(f"rats {tokenizer.mask_token} rats", add_special_tokens=False)["input_ids"]
    assert ids[: len(rats) + 1] == [*rats, tokenizer.mask_token_id]


def test_case_and_accents_are_dropped_where_asked_and_syllables_stay_whole(kind, corpus):
    lower = train_tokenizer(corpus, kind=kind, size=320)
    assert lower.tokenize("NALOXONE café") == lower.tokenize("naloxone cafe")
    assert lower.backend_tokenizer.normalizer.normalize_str("\ud55c\uad6d") == "\ud55c\uad6d"
    cased = train_tokenizer(corpus, kind=kind, size=320, lower=False)
    assert cased.tokenize("NALOXONE café") != cased.tokenize("naloxone cafe")


def test_bytes_know_everything_and_characters_that_were_never_met_are_unknown(corpus):
    bytes_, unigram = (train_tokenizer(corpus, kind=kind, size=320) for kind in ("bpe", "unigram"))
    assert bytes_.decode(bytes_("\u0416 \U0001f9ec", add_special_tokens=False)["input_ids"]) == "\u0436 \U0001f9ec"
    assert unigram.unk_token_id in unigram("\u0416")["input_ids"]


@pytest.mark.parametrize("any_kind", KINDS)
def test_a_kind_without_room_or_name_is_refused(any_kind, corpus):
    with pytest.raises(ValueError, match=r"a vocabulary of 20 has no room.*Set more than"):
        train_tokenizer(corpus, kind=any_kind, size=20)
    with pytest.raises(ValueError, match="Known: wordpiece, bpe, unigram"):
        train_tokenizer(corpus, kind="words", size=300)


@pytest.mark.parametrize("any_kind", KINDS)
def test_where_memory_is_bounded_rare_words_are_left_out_and_told(any_kind, tmp_path):
    documents = [Document(str(number), f"naloxone reverses it, x{number}q") for number in range(300)]
    corpus = write_corpus(documents, tmp_path / "corpus")
    told = []
    tokenizer = train_tokenizer(corpus, kind=any_kind, size=400, words=40, watch=told.append)
    assert {"naloxone", "reverses"} <= {piece.lstrip("\u0120\u2581") for piece in tokenizer.get_vocab()}
    [note] = [each.values["note"] for each in told if each.values]
    assert note.startswith("The rarest are not counted, to limit memory: ")
    again = train_tokenizer(corpus, kind=any_kind, size=400, words=40)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    roomy = train_tokenizer(corpus, kind=any_kind, size=400, watch=(everything := []).append)
    assert not [each for each in everything if each.values]
    assert len(roomy) > len(tokenizer)


def test_unigram_pieces_are_of_letters_digits_or_marks_and_of_kept_characters(tmp_path):
    text = "p53-positive p53-positive lymphoma lymphoma"
    documents = [Document(str(number), text) for number in range(9)]
    corpus = write_corpus([*documents, Document("9", "\u0416\u2581lymphoma\u2585 \x00")], tmp_path / "corpus")
    pieces = set(train_tokenizer(corpus, kind="unigram", size=60, characters=15).get_vocab())
    assert {"\u2581lymphoma", "positive", "v", "5"} <= pieces
    assert not [piece for piece in pieces if {"p", "5"} <= {*piece} or {"-", "p"} <= {*piece}]
    assert not {"\u0436", "\u2585", "\x00"} & {*"".join(pieces)}  # each is rarer than the fifteen


def test_a_corpus_without_words_is_refused(tmp_path):
    corpus = write_corpus([Document("1", "\u2581")], tmp_path / "corpus")
    with pytest.raises(ValueError, match="has no words"):
        train_tokenizer(corpus, kind="unigram", size=60)


def test_words_of_no_language_are_not_learnt_from(tmp_path):
    corpus = write_corpus([Document("1", "ACGT" * 60), Document("2", "a gene and a gene")], tmp_path / "corpus")
    told = []
    tokenizer = train_tokenizer(corpus, kind="bpe", size=300, lower=False, watch=told.append)
    assert "ACGT" not in "".join(tokenizer.get_vocab())
    assert "Words of more than 200 characters are not counted: 1." in {each.values.get("note") for each in told}


def test_counts_are_exact_where_all_words_fit():
    counts = WordCounts(4)
    counts.add(["a", "b", "a", "c"])
    counts.add(["d", "a"])
    assert counts.ordered() == [("a", 3), ("b", 1), ("c", 1), ("d", 1)]
    assert counts.dropped == 0


def test_the_rarest_words_go_and_are_told_while_the_frequent_ones_stay():
    generator = random.Random(0)
    words = [f"once{number}" for number in range(2_000)] + ["often"] * 300 + ["seldom"] * 40
    generator.shuffle(words)
    counts = WordCounts(100)
    for first in range(0, len(words), 10):
        counts.add(words[first : first + 10])
        assert len(counts.counts) <= 100
    assert counts.counts["often"] == 300
    assert 20 < counts.counts["seldom"] <= 40  # dropped at first, when it was as rare as the others
    assert counts.dropped == len(words) - sum(counts.counts.values())


def test_of_words_met_once_those_within_the_bound_are_drawn_from_the_whole_text():
    counts = WordCounts(200)
    for number in range(4_000):
        counts.add([f"word {number}"])
    places = [int(word.split()[1]) for word in counts.counts]
    assert sum(place < 3_500 for place in places) > 50  # the last 500 alone would fill it five times
    with pytest.raises(ValueError, match="Set at least 2"):
        WordCounts(1)
