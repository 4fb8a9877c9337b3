import subprocess
import sys

import pytest
from transformers import AutoTokenizer

from acclimate.core.types import Document
from acclimate.text.corpus import write_corpus
from acclimate.text.tokens import tokenizer_identity
from acclimate.text.vocabulary import train_wordpiece

TRAIN = """
import sys
from pathlib import Path
from acclimate.text.corpus import Corpus
from acclimate.text.vocabulary import train_wordpiece
train_wordpiece(Corpus(Path(sys.argv[1])), size=220).save_pretrained(sys.argv[2])
"""


def test_same_corpus_gives_the_same_bytes(corpus, tmp_path):
    train_wordpiece(corpus, size=220).save_pretrained(tmp_path / "0")
    train_wordpiece(corpus, size=220).save_pretrained(tmp_path / "1")
    # a process of its own has hash tables of its own
    subprocess.run([sys.executable, "-c", TRAIN, corpus.path, tmp_path / "2"], check=True)
    saved = [(tmp_path / name / "tokenizer.json").read_bytes() for name in "012"]
    assert saved[0] == saved[1] == saved[2]


@pytest.mark.parametrize("lower", [True, False])
def test_saved_tokenizer_reloads_to_the_same_encodings(corpus, sentences, tmp_path, lower):
    tokenizer = train_wordpiece(corpus, size=220, lower=lower, longest=64)
    tokenizer.save_pretrained(tmp_path / "saved")
    again = AutoTokenizer.from_pretrained(tmp_path / "saved")
    assert type(again) is type(tokenizer)
    assert again.model_max_length == 64
    assert tokenizer_identity(again) == tokenizer_identity(tokenizer)
    for sentence in sentences:
        assert dict(again(sentence, sentences[0])) == dict(tokenizer(sentence, sentences[0]))


def test_vocabulary_is_berts(corpus, sentences):
    tokenizer = train_wordpiece(corpus, size=220)
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
    assert train_wordpiece(corpus, size=220, lower=False).tokenize("Naloxone")[0].startswith("N")
    assert train_wordpiece(corpus, size=220).tokenize("NALOXONE café") == train_wordpiece(corpus, size=220).tokenize(
        "naloxone cafe"
    )


def test_rare_characters_are_left_out(tmp_path):
    corpus = write_corpus([Document("1", "abc abc abc abd")], tmp_path / "corpus")
    tokenizer = train_wordpiece(corpus, size=20, characters=3)
    assert tokenizer.tokenize("abc abd") == ["abc", "[UNK]"]


def test_size_without_room_for_the_characters_is_refused(corpus):
    with pytest.raises(ValueError, match=r"a vocabulary of 20 has no room.*Set size to more than"):
        train_wordpiece(corpus, size=20)
