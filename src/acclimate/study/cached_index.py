"""The BM25 index of a corpus, kept for all runs that search it with the same settings."""

from __future__ import annotations

from pathlib import Path

from acclimate.core import files
from acclimate.core.cluster import Work
from acclimate.core.types import Watch, unwatched
from acclimate.text.corpus import Corpus
from acclimate.text.shards import Shards, build_shards


def cached_index(
    corpus: Corpus,
    out: Path,
    *,
    analyzer: str,
    k1: float,
    b: float,
    shards: int = 1,
    work: Work | None = None,
    watch: Watch = unwatched,
) -> Shards:
    """The one in the user's cache directory, built where it is missing; in `out` where the cache cannot be written."""
    name = f"{corpus.hash[:16]}-{analyzer}-{float(k1)}-{float(b)}-{shards}"
    place = _place(out) / name
    return build_shards(corpus, place, shards=shards, work=work, k1=k1, b=b, analyzer=analyzer, watch=watch)


def _place(out: Path) -> Path:
    place = files.cache() / "retrieval"
    try:
        place.mkdir(parents=True, exist_ok=True)
        files.write_text(place / "README.txt", "BM25 indexes of `acclimate retrieve`; what is removed is built anew.\n")
    except OSError:
        return out / "index"
    return place
