"""Write the vectors of a user's texts: of texts in memory, or of a file, in parts.

methods/ranking/embedder.py computes them. Shape suffixes: n texts, D numbers of a vector.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from acclimate.core import files
from acclimate.core.door import option
from acclimate.core.types import BASELINE_FILE, COMBINED_FILE, Rejected, Watch, unwatched
from acclimate.jobs.lock import ENCODER
from acclimate.methods.ranking.embedder import Embedder, embedder_of
from acclimate.models.loading import resolved
from acclimate.shipping.predict import chunked
from acclimate.shipping.texts import (
    Asking,
    Text,
    asking_of,
    checkpoint_in,
    ids_in,
    open_input,
    read_texts,
    texts_of_rows,
)
from acclimate.shipping.writers import VECTORS, check_path


def load_embedder(model: str | PathLike[str], *, contestant: str = "", watch: Watch = unwatched) -> Embedder:
    """Return the encoder of a model, ready to compute vectors.

    model       an encoder (a directory, a hub id, `embedded`), a shipment, or the out folder of a race
    contestant  as of `checkpoint_in`

    Raises ValueError for a model without an encoder, and for modules that are not known here.
    """
    source = resolved(model)
    if contestant or not (Path(source) / "config.json").is_file():
        source = checkpoint_in(source, contestant, watch=watch)
    folder = Path(source)
    if (folder / BASELINE_FILE).is_file():
        raise ValueError(
            f"{source} is a model without an encoder, so it has no vectors. Name a contestant with an encoder by "
            f"{option('contestant')}"
        )
    column = asking_of(source).text if folder.is_dir() else None
    if (folder / COMBINED_FILE).is_file():
        source, folder = str(folder / ENCODER), folder / ENCODER
    return embedder_of(source, column=column)


def embed(
    model: str | PathLike[str] | Embedder,
    rows: Iterable[Any],
    *,
    text: str | None = None,
    contestant: str = "",
    watch: Watch = unwatched,
) -> np.ndarray:
    """Return (n, D) float32, the vectors of texts, or of mappings by column, in their order.

    model  as of `load_embedder`, or what that returns
    text   the column; None: that of the race, or "text"

    Raises ValueError for a row without a text, with its number.
    """
    embedder = model if isinstance(model, Embedder) else load_embedder(model, contestant=contestant, watch=watch)
    texts = _usable(texts_of_rows(rows, Asking(kind="sequence", text=text or embedder.column), "sequence"))
    chunks = [embedder([text.example.text for text in chunk], watch=watch) for chunk in chunked(texts)]
    return np.concatenate(chunks) if chunks else np.zeros((0, embedder.size), np.float32)


def embed_file(
    model: str | PathLike[str],
    file: str | Path,
    out: str | Path,
    *,
    text: str | None = None,
    id: str | None = None,
    format: str = "",
    contestant: str = "",
    stdin: IO[bytes] | None = None,
    watch: Watch = unwatched,
) -> tuple[int, int]:
    """Write the vectors of a file's texts, in memory that does not grow with it. Return (n, D).

    model     as of `load_embedder`
    file      its path; "-": standard input
    out       .npy, the (n, D) float32 array; or .parquet with `row` (from 1) or `id`, and `vector`. It appears once
              it is whole
    text, id  columns; None: that of the race or "text", and no ids
    format    of the file, if its ending does not say it: csv, tsv, jsonl, parquet, txt

    Raises ValueError for what cannot be read or written, before any vector is computed.
    """
    check_path(out, file, VECTORS)
    embedder = load_embedder(model, contestant=contestant, watch=watch)
    asking = Asking(kind="sequence", text=embedder.column).with_columns(text=text, id=id)
    with open_input(file, asking, format, stdin) as opened:

        def texts() -> Iterator[Text]:
            return _usable(read_texts(opened, asking, "sequence"))

        for _ in texts():
            pass
        ids = ids_in(opened, asking)
        chunks = (
            (chunk, embedder([text.example.text for text in chunk])) for chunk in chunked(texts(), watch, doing="embed")
        )
        with files.new_file(Path(out)) as into:
            write = _write_array if Path(out).suffix == ".npy" else _write_parquet
            return write(chunks, into, embedder.size, "id" if ids else "row"), embedder.size


def _write_array(chunks: Iterable[tuple[list[Text], np.ndarray]], into: IO[bytes], size: int, _first: str) -> int:
    """Write the .npy file, its header last: it states the number of vectors. numpy pads it for any number."""
    number = 0
    header = {"descr": "<f4", "fortran_order": False}
    np.lib.format.write_array_header_1_0(into, {**header, "shape": (0, size)})
    begin = into.tell()
    for _, vectors_nD in chunks:
        into.write(vectors_nD.astype("<f4", copy=False).tobytes())
        number += len(vectors_nD)
    into.seek(0)
    np.lib.format.write_array_header_1_0(into, {**header, "shape": (number, size)})
    assert into.tell() == begin
    return number


def _write_parquet(chunks: Iterable[tuple[list[Text], np.ndarray]], into: IO[bytes], size: int, first: str) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    schema = pa.schema(
        [(first, pa.string() if first == "id" else pa.int64()), ("vector", pa.list_(pa.float32(), size))]
    )
    with pq.ParquetWriter(into, schema) as writer:
        for texts, vectors_nD in chunks:
            names = [text.example.id if first == "id" else text.number for text in texts]
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(vectors_nD.ravel(), pa.float32()), size)
            writer.write_table(pa.table([pa.array(names, schema.field(0).type), vectors], schema=schema))
            number += len(texts)
    return number


def _usable(texts: Iterable[Text | Rejected]) -> Iterator[Text]:
    for text in texts:
        if isinstance(text, Rejected):
            raise ValueError(f"{text.place}: {text.reason}")
        yield text
