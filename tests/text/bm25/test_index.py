"""What is on disk of an index: killed, damaged and old ones are never taken for a whole one, and are built anew."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from acclimate.core import files
from acclimate.core.files import DamagedError
from acclimate.core.types import Document
from acclimate.text.bm25 import build
from acclimate.text.bm25.build import build_index, open_index
from acclimate.text.bm25.shards import build_shards, open_shards
from acclimate.text.corpus import Corpus, write_corpus
from killed import Copies

TEXTS = [f"common{number % 3} seen{number % 40} only{number} {'often ' * number}" for number in range(90)]
QUERIES = ["common1 seen7 often", "only50", "often only3"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    documents = (Document(str(number), text) for number, text in enumerate(TEXTS))
    return write_corpus(documents, tmp_path_factory.mktemp("files") / "corpus")


def test_a_build_that_is_killed_between_any_two_writes_is_done_again_by_the_next(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # takes most of the time
    expected = build_shards(corpus, tmp_path / "whole").search(QUERIES, 20)
    path, left, written = tmp_path / "index", set(), 0
    for start in ("nothing", "damaged"):
        if start == "damaged":  # replaces the shard
            shutil.rmtree(path)
            shutil.copytree(tmp_path / "whole", path)
            (path / "shard-00000" / "postings.bin").write_bytes(b"")
            (path / "shards.json").unlink()
        with monkeypatch.context() as patch:
            copies = Copies(patch, [path], tmp_path / start)
            build_shards(corpus, path)
        written += copies.number
        for number in range(copies.number):
            copies.put_back(number)
            digest = hashlib.sha256()  # the next build of equal files would be the same again
            for file in sorted(path.rglob("*")):
                digest.update(f"{file.relative_to(path)}\n".encode() + (file.read_bytes() if file.is_file() else b""))
            if digest.digest() not in left:
                left.add(digest.digest())
                try:
                    found = open_shards(path)
                except ValueError:
                    found = build_shards(corpus, path)
                assert found.search(QUERIES, 20).documents.tolist() == expected.documents.tolist()
    assert written > 25
    assert len(left) > 15


def test_a_bit_that_flipped_or_a_byte_that_is_missing_anywhere_is_told(corpus, tmp_path):
    path = tmp_path / "index"
    build_index(corpus, path)
    generator = np.random.default_rng(0)
    for file in sorted(path.iterdir()):
        content = file.read_bytes()
        for _ in range(8 if content else 0):
            flipped = np.frombuffer(content, np.uint8).copy()
            flipped[generator.integers(len(content))] ^= 1 << generator.integers(8)
            file.write_bytes(flipped.tobytes())
            with pytest.raises(DamagedError, match=str(path)):
                open_index(path)
        for shorter in (content[:-2], b"") if content else (b"x",):
            file.write_bytes(shorter)
            with pytest.raises(DamagedError, match=str(path)):
                open_index(path, hashed=0)
        build_index(corpus, path)
        assert file.read_bytes() == content
        file.unlink()
        with pytest.raises(ValueError, match=str(path)):
            open_index(path)
        file.write_bytes(content)


def test_facts_of_shards_that_were_changed_are_told_and_written_again(corpus, tmp_path):
    path = tmp_path / "index"
    build_shards(corpus, path, shards=3)
    file, generator = path / "shards.json", np.random.default_rng(1)
    content = file.read_bytes()
    for _ in range(60):
        flipped = np.frombuffer(content, np.uint8).copy()
        flipped[generator.integers(len(content))] ^= 1 << generator.integers(8)
        if flipped.tobytes().split() == content.split():  # white space of another kind
            continue
        file.write_bytes(flipped.tobytes())
        with pytest.raises(ValueError, match=str(path)):
            open_shards(path)
        assert len(build_shards(corpus, path, shards=3).shards) == 3
        assert file.read_bytes() == content


@pytest.mark.parametrize(
    "stated", [{"version": 1}, {"version": 1, "unicode": None}, {"version": 99}, {"unicode": "1.0"}]
)
def test_an_index_of_another_layout_is_refused_and_built_anew(corpus, tmp_path, stated):
    path = tmp_path / "index"
    build_index(corpus, path)
    facts = {
        name: value for name, value in (files.read_json(path / "index.json") | stated).items() if value is not None
    }
    if "version" in stated:
        del facts["large_cells"]  # of an older layout, which lacked a file
    files.write_json(path / "index.json", facts)
    files.seal(path)
    with pytest.raises(ValueError, match=r"format \d+, but this release reads 3. Build|letters of Unicode 1\.0"):
        open_index(path)
    assert build_index(corpus, path).search(QUERIES, 5).documents.tolist()
    open_index(path)


def test_shards_of_another_format_are_refused_and_built_anew(corpus, tmp_path):
    path = tmp_path / "index"
    build_shards(corpus, path, shards=2)
    files.write_json(path / "shards.json", {"version": 1, "begins": [0]})
    with pytest.raises(ValueError, match=r"format 1, but this release reads 3\. Build it anew"):
        open_shards(path)
    build_shards(corpus, path, shards=2)
    assert len(open_shards(path).shards) == 2


def test_rows_that_are_made_in_parts_are_the_same(corpus, tmp_path, monkeypatch):
    def content(path: Path) -> dict[str, bytes]:
        build_index(corpus, path)
        return {file.name: file.read_bytes() for file in path.iterdir()}

    whole = content(tmp_path / "whole")
    monkeypatch.setattr(build, "_CELLS", 1)
    assert content(tmp_path / "parts") == whole
