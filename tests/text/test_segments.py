from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from acclimate.core.types import Document
from acclimate.text import segments as segments_module
from acclimate.text.corpus import write_corpus
from acclimate.text.rows import masked_segments
from acclimate.text.segments import long_documents, segments


def possible_cuts(starts, room):
    """Places of one document where it may be cut: word starts, and anywhere in a word longer than `room`."""
    edges = [*np.flatnonzero(starts).tolist(), len(starts)]
    possible = set(edges)
    for begin, end in pairwise(edges):
        possible |= set(range(begin, end)) if end - begin > room else set()
    return sorted(possible)


def fewest(starts, room):
    """The fewest pieces of a document, by dynamic programming."""
    best = {0: 0}
    for place in possible_cuts(starts, room)[1:]:
        reachable = [best[before] for before in best if place - before <= room]
        best[place] = 1 + min(reachable)
    return best[len(starts)]


@pytest.fixture
def random_tokens(tokens):
    """Seed -> Tokens with random lengths of documents and words; some documents are empty, some words very long."""

    def make(seed):
        generator = np.random.default_rng(seed)
        lengths = generator.choice([0, 1, 5, 8, 9, 16, 30, 61], 40)
        documents = np.concatenate([[0], np.cumsum(lengths)])
        starts = generator.random(documents[-1]) < generator.choice([0.1, 0.5, 0.9])
        starts[documents[:-1][lengths > 0]] = True
        return replace(tokens, ids=np.arange(documents[-1]), word_starts=starts, documents=documents)

    return make


@pytest.mark.parametrize("at_once", [1 << 20, 50])
@pytest.mark.parametrize("seed", range(4))
def test_documents_are_cut_into_the_fewest_pieces_at_word_starts(random_tokens, seed, at_once, monkeypatch):
    monkeypatch.setattr(segments_module, "_TOKENS_AT_ONCE", at_once)
    tokens = random_tokens(seed)
    room = 8
    boundaries = segments(tokens, room + tokens.frame)
    assert boundaries[0] == 0
    assert boundaries[-1] == len(tokens.ids)
    assert np.diff(boundaries).min() >= 1
    assert np.diff(boundaries).max() <= room
    for begin, end in zip(tokens.documents[:-1].tolist(), tokens.documents[1:].tolist(), strict=True):
        cuts = boundaries[(boundaries >= begin) & (boundaries <= end)] - begin
        starts = tokens.word_starts[begin:end]
        assert set(cuts.tolist()) <= set(possible_cuts(starts, room))
        assert end == begin or end in boundaries
        if end > begin:
            assert len(cuts) - 1 == fewest(starts, room)


def test_pieces_are_of_nearly_equal_length_where_there_is_room_for_text(tokens):
    alone = replace(
        tokens, ids=np.zeros(1000, int), word_starts=np.ones(1000, bool), documents=np.array([0, 70, 300, 1000])
    )
    boundaries = segments(alone, 64 + tokens.frame)
    for begin, end, count in ((0, 70, 2), (70, 300, 4), (300, 1000, 11)):
        lengths = np.diff(boundaries[(boundaries >= begin) & (boundaries <= end)])
        assert len(lengths) == count
        assert lengths.max() - lengths.min() <= 1
    with pytest.raises(ValueError, match=r"at most 2 tokens have no room.*Set longest to at least 3"):
        segments(tokens, 2)


@pytest.fixture
def words(tmp_path):
    texts = ["two words", "naloxone,\tin\n\nrats now", " three of them ", "(one)"]
    return write_corpus((Document(str(number), text) for number, text in enumerate(texts)), tmp_path / "words")


def test_words_are_what_white_space_parts_and_some_document_has_to_have_enough(words):
    for least in range(1, 5):
        assert long_documents(words, least).tolist() == [count >= least for count in (2, 4, 3, 1)]
    with pytest.raises(ValueError, match="longest of 4 documents has 4 words"):
        long_documents(words, 5)


def test_only_segments_of_kept_documents_are_rows(words, tokenizers):
    tokens = words.tokens(tokenizers["wordpiece"])
    kept = np.array([False, True, False, True])
    rows = masked_segments(tokens, longest=6, whole_words=True, documents=kept)
    batch = rows(np.arange(len(rows)), rate=0.2, generator=np.random.default_rng(0))
    assert set(batch.names) == {"document 1", "document 3"}
    lengths = [tokens.documents[number + 1] - tokens.documents[number] for number in (1, 3)]
    assert len(batch.ids) - len(batch) * tokens.frame == sum(lengths)
    assert rows.mean_tokens == pytest.approx(len(batch.ids) / len(batch))
