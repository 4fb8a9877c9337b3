"""Write and read corpora: documents on disk, identified by the hash of their content, and their tokens."""

from __future__ import annotations

import hashlib
import os
import shutil
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from acclimate.core import files
from acclimate.core.types import Document, Watch, counted, unwatched
from acclimate.text.scripts import segmenter_name
from acclimate.text.tokens import Tokens, build_tokens, open_tokens, tokenizer_identity

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_VERSION = 1
_FACTS = "corpus.json"
_DOCUMENTS = "documents.arrow"
_SCHEMA = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "text", "source")])
_BATCH_CHARACTERS = 1 << 20
_BATCH_DOCUMENTS = 1 << 13


@dataclass(frozen=True)
class Corpus:
    """A folder with the Arrow file `documents.arrow` (columns id, text, source) and `corpus.json` (hash and counts).

    `write_corpus` makes it. Later, only token files are added, below `tokens/`.
    Raises ValueError on first use if `path` holds no corpus, or one of another format version, and DamagedError if a
    file is not what was written.
    """

    path: Path

    def documents(self, first: int = 0, last: int | None = None) -> Iterator[Document]:
        """Yield the documents in order. One record batch (about 1 MB) is in memory at a time.

        first, last  numbers of the first document and of the one after the last; None: all

        The file is read, not memory-mapped: every text is copied into a Python string anyway, and mapped pages would
        count towards the memory of the process, up to the size of the file.
        """
        for batch in self._batches(first, last):
            columns = batch.to_pydict()
            yield from map(Document, columns["id"], columns["text"], columns["source"])

    def texts(self, first: int = 0, last: int | None = None) -> Iterator[pa.StringArray]:
        """Yield the documents' texts in order, as an Arrow column for each record batch, for loops over their UTF-8.

        first, last  numbers of the first document and of the one after the last; None: all
        """
        for batch in self._batches(first, last):
            yield batch.column("text")

    def _batches(self, first: int, last: int | None) -> Iterator[pa.RecordBatch]:
        self._check()
        begins, last = self._begins, len(self) if last is None else last
        with pa.OSFile(str(self.path / _DOCUMENTS)) as file, pa.ipc.open_file(file) as batches:
            for number in range(batches.num_record_batches):
                if begins[number] < last and first < begins[number + 1]:
                    within = slice(max(first - begins[number], 0), last - begins[number])
                    yield batches.get_batch(number)[within]

    def take(self, numbers: Iterable[int]) -> Iterator[Document]:
        """Yield the documents with these numbers, in the order of the numbers. Document 0 is the first of `documents`.

        The file is memory-mapped: only the pages that hold these documents are read. Raises IndexError for a number
        that no document has.
        """
        self._check()
        with pa.memory_map(str(self.path / _DOCUMENTS)) as file, pa.ipc.open_file(file) as reader:
            batches = [reader.get_batch(number) for number in range(reader.num_record_batches)]
            begins = list(accumulate((batch.num_rows for batch in batches), initial=0))
            for number in numbers:
                if not 0 <= number < begins[-1]:
                    raise IndexError(f"{self.path} has {begins[-1]:,} documents, so the number {number} does not exist")
                place = bisect_right(begins, number) - 1
                row = int(number) - begins[place]
                yield Document(*(batches[place].column(name)[row].as_py() for name in ("id", "text", "source")))

    def tokens(self, tokenizer: PreTrainedTokenizerBase, *, processes: int = 1, watch: Watch = unwatched) -> Tokens:
        """Return the documents' tokens, memory-mapped. The first call for this corpus and tokenizer builds them.

        Several processes may call this at once: one builds and the others wait. If a build is killed, the next call
        goes on with it.

        processes  number of processes that tokenise; the bytes written do not depend on it. For more than 1 see
                   core/machines.py::map_processes

        Raises ValueError if the tokenizer has no fast backend, mask token or padding token.
        """
        identity = tokenizer_identity(tokenizer)
        words = segmenter_name().replace(" ", "-")  # which decides what word_starts has
        path = self.path / "tokens" / f"{identity[:16]}-{words}"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            with files.locked(path.with_name(f".{path.name}.lock")):
                if not path.exists():
                    directory = path.with_name(f".{path.name}.building")
                    directory.mkdir(exist_ok=True)
                    documents = counted(self.documents(), watch, "tokens", total=len(self))
                    try:
                        build_tokens(documents, tokenizer, directory, corpus=self.hash, processes=processes)
                    except ValueError:
                        shutil.rmtree(directory)
                        raise
                    files.seal(directory)
                    os.replace(directory, path)
        files.check_manifest(path, way_out=f"Remove {path}; then it is built again")
        tokens = open_tokens(path)
        if (tokens.tokenizer, tokens.corpus) != (identity, self.hash):
            raise ValueError(
                f"{path} contains the tokens of another corpus or tokenizer. Remove it; then it is built again"
            )
        return tokens

    @property
    def hash(self) -> str:
        """Return 64 hex digits, the SHA-256 over id, text and source of all documents in order."""
        return str(self._facts["hash"])

    @property
    def characters(self) -> int:
        """Return the number of characters (code points) of all texts together."""
        return int(self._facts["characters"])

    @property
    def empty(self) -> int:
        """Return the number of documents that were left out because they held only white space."""
        return int(self._facts["empty"])

    def __len__(self) -> int:
        return int(self._facts["documents"])

    @cached_property
    def _begins(self) -> list[int]:
        """Return the number of each record batch's first document, then that of all documents. No text is read."""
        with pa.memory_map(str(self.path / _DOCUMENTS)) as file, pa.ipc.open_file(file) as reader:
            sizes = (reader.get_batch(number).num_rows for number in range(reader.num_record_batches))
            return list(accumulate(sizes, initial=0))

    @cached_property
    def _facts(self) -> dict[str, Any]:
        file = self.path / _FACTS
        if not file.is_file() and (self.path / files.MANIFEST).exists():
            files.check_manifest(self.path, names=(_FACTS,))
        if not file.is_file():
            raise ValueError(
                f"{self.path} contains no corpus: it has no {_FACTS}. Create one with `acclimate data corpus`, or "
                "write_corpus in Python"
            )
        facts = files.read_object(file)
        if facts.get("version") == _VERSION or (self.path / files.MANIFEST).exists():
            files.check_manifest(self.path, names=(_FACTS,))
        if facts.get("version") != _VERSION:
            raise ValueError(
                f"{file}: format {facts.get('version')}, but this release reads {_VERSION}. Remove {self.path}, and "
                "write the corpus again"
            )
        return facts

    def _check(self) -> None:
        """Raise ValueError if there is no corpus, DamagedError if its files are not what `write_corpus` wrote."""
        self._facts  # noqa: B018  (raises where there is no corpus)
        files.check_manifest(self.path, names=(_DOCUMENTS,))


def write_corpus(documents: Iterable[Document], path: Path) -> Corpus:
    """Write the documents that hold more than white space, in their order, and return the corpus.

    One record batch is in memory at a time. `path` appears only once everything is on disk.
    Raises FileExistsError if `path` exists and is not an empty folder, ValueError if no document is left, or one cannot
    be written as UTF-8.
    """
    path = Path(path)
    _refuse_taken(path)
    mine = files.process_path(path)  # keeps two writers of one path apart: the later one is refused
    with files.new_directory(mine) as directory:
        facts = _write(documents, directory / _DOCUMENTS)
        if not facts["documents"]:
            raise ValueError(f"{path}: no document to write ({facts['empty']} contained only white space). Add text")
        files.write_json(directory / _FACTS, facts)
    try:
        _refuse_taken(path)
        os.rename(mine, path)
    except OSError:
        shutil.rmtree(mine)
        raise
    return Corpus(path)


def _refuse_taken(path: Path) -> None:
    if (path / _FACTS).is_file():
        raise FileExistsError(f"{path} already contains a corpus. Open it with Corpus(path), or write to another path")
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(
            f"{path} already exists and is neither an empty folder nor a corpus. Remove {path}, or write the "
            "corpus elsewhere"
        )


def _write(documents: Iterable[Document], file: Path) -> dict[str, Any]:
    """Write the Arrow file and return the content of corpus.json."""
    digest = hashlib.sha256()
    count = characters = empty = 0
    pending: list[list[bytes]] = []
    pending_characters = 0
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        for document in documents:
            if not document.text.strip():
                empty += 1
                continue
            columns = [_utf8(value, document) for value in (document.id, document.text, document.source)]
            for content in columns:
                # the length in front keeps ("ab", "c") and ("a", "bc") apart
                digest.update(len(content).to_bytes(8, "little") + content)
            pending.append(columns)
            pending_characters += len(document.text)
            count += 1
            characters += len(document.text)
            if pending_characters >= _BATCH_CHARACTERS or len(pending) >= _BATCH_DOCUMENTS:
                writer.write_batch(_record_batch(pending))
                pending, pending_characters = [], 0
        if pending:
            writer.write_batch(_record_batch(pending))
    return {
        "version": _VERSION,
        "documents": count,
        "characters": characters,
        "empty": empty,
        "hash": digest.hexdigest(),
    }


def _record_batch(rows: list[list[bytes]]) -> pa.RecordBatch:
    return pa.record_batch([_strings(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)


def _strings(contents: Sequence[bytes]) -> pa.StringArray:
    """Return strings, given as UTF-8, as a column. `pa.array` would import pandas where that is installed."""
    ends = np.fromiter(accumulate(map(len, contents), initial=0), np.int32, len(contents) + 1)
    return pa.StringArray.from_buffers(len(contents), pa.py_buffer(ends), pa.py_buffer(b"".join(contents)))


def _utf8(value: str, document: Document) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"document {document.id!r}: character {error.start} is half a surrogate pair, which UTF-8 cannot hold. "
            "Correct or drop the document"
        ) from error
