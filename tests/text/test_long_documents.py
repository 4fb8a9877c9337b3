import numpy as np
import pytest

from acclimate.core.types import Document
from acclimate.text.corpus import write_corpus
from acclimate.text.rows import masked_segments
from acclimate.text.segments import long_documents


@pytest.fixture
def words(tmp_path):
    texts = ["two words", "naloxone,\tin\n\nrats now", " three of them ", "(one)"]
    return write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "words")


def test_words_are_what_white_space_parts(words):
    for least in range(1, 5):
        assert long_documents(words, least).tolist() == [count >= least for count in (2, 4, 3, 1)]


def test_a_filter_that_leaves_nothing_is_refused(words):
    with pytest.raises(ValueError, match="longest of 4 documents has 4 words"):
        long_documents(words, 5)


def test_only_segments_of_kept_documents_are_rows(words, tokenizers):
    tokens = words.tokens(tokenizers["wordpiece"])
    kept = np.array([False, True, False, True])
    rows = masked_segments(tokens, longest=6, whole_words=True, documents=kept)
    batch = rows(np.arange(len(rows)), rate=0.2, generator=np.random.default_rng(0))
    assert set(batch.names) == {"document 1", "document 3"}
    own = [tokens.documents[number + 1] - tokens.documents[number] for number in (1, 3)]
    assert len(batch.ids) - len(batch) * tokens.frame == sum(own)
    assert rows.mean_tokens == pytest.approx(len(batch.ids) / len(batch))
