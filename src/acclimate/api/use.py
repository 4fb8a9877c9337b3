"""predict, embed and ship: put the model of a race to use."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from acclimate.api.call import python_function, watched
from acclimate.core.names import shown
from acclimate.data.as_files import HubChoice, dicts_of, is_table, rows_file

if TYPE_CHECKING:
    import numpy as np

    from acclimate.shipping.predict import Prediction
    from acclimate.shipping.ship import Shipped
    from acclimate.shipping.writers import Predicted


@python_function()
def predict(
    model: str | PathLike[str],
    file: Any,
    *,
    out: str | Path | None = None,
    text: str | None = None,
    pair: str | None = None,
    id: str | None = None,
    keep: Sequence[str] = (),
    format: str = "",
    split: str = "",
    skip_bad: bool = False,
    explain: str | Path | None = None,
    contestant: str = "",
    progress: bool = True,
) -> list[Prediction] | Predicted:
    """Predict the labels of new texts, with probabilities.

    model           a shipped folder, a race (its Study or directory), its `baseline`, a checkpoint or a hub id
    file            a file with the columns that the race had, a table in memory, a list of texts or of dicts, or a
                    dataset of the hub
    out             file to write; None: the predictions are returned, in the order of the rows
    text, pair, id  columns, if not those of the race
    split           of a dataset with several
    contestant      of a race, whose model to take in place of the model to use: the best encoder or the baseline
    keep, format, skip_bad   where `out` is a file: columns to copy to it, the format of `file` if its ending does not
                             say it, and whether to leave out rows that cannot be read
    explain         where `out` is a file: .html or .jsonl file of how much each word contributes to the predicted label

    >>> acclimate.predict("runs/race", ["a new text"])[0].label
    """
    from acclimate.shipping.predict import predict as make
    from acclimate.shipping.predict import predict_file

    columns = {"text": text, "pair": pair, "id": id}
    if isinstance(file, str) and " " in file and not Path(file).exists():
        raise ValueError(f"{shown(file)} is not a file. Give texts in a list: predict(model, [{shown(file)}])")
    if isinstance(file, str | Path):
        file = rows_file(file, HubChoice(split=split))
    elif split:
        raise TypeError("predict(): split applies only to a dataset folder or a dataset of the hub. Remove it")
    rows = [*dicts_of(file)] if is_table(file) else file.tolist() if hasattr(file, "tolist") else file
    with watched(progress) as watch:
        if out is None:
            if unused := [
                name
                for name, value in (("keep", keep), ("format", format), ("skip_bad", skip_bad), ("explain", explain))
                if value
            ]:
                raise TypeError(
                    f"predict(): {unused[0]} applies only to predictions that are written to a file. Add out=, or "
                    "remove it"
                )
            return make(model, rows, **columns, contestant=contestant, watch=watch)
        if not isinstance(rows, str | Path):
            raise TypeError(
                "predict(): texts in memory cannot be written with out=. Write them to a file first, or remove out="
            )
        options: dict[str, Any] = {**columns, "keep": keep, "format": format, "skip_bad": skip_bad}
        options["contestant"] = contestant
        if explain is not None:
            from acclimate.shipping.explain import predict_and_explain

            return predict_and_explain(model, rows, out, Path(explain), **options, watch=watch)
        return predict_file(model, rows, out, **options, watch=watch)


@python_function()
def embed(
    model: str | PathLike[str],
    file: Any,
    *,
    out: str | Path | None = None,
    text: str | None = None,
    id: str | None = None,
    format: str = "",
    split: str = "",
    contestant: str = "",
    progress: bool = True,
) -> np.ndarray | tuple[int, int]:
    """Return the vectors of texts as a float32 array with a row for each text, or write them to a file.

    They are the numbers that sentence-transformers computes from the same directory: its pooling, layers and
    normalisation if it has modules.json, else the mean of the last hidden states. A classifier that was shipped with
    modules.json gives the vector before its last layer.

    model       an encoder (a directory, a Checkpoint, a hub id), a shipped folder, or a race (its Study or directory)
    file        a list of texts or of dicts, a table in memory, a file, or a dataset of the hub
    out         .npy or .parquet file to write; None: the vectors are returned, else their number and size
    text, id    columns; by default that of the race or "text", and no ids
    format, split   where `file` is a file or a dataset: its format, and which split
    contestant  of a race, whose model to take in place of the model to use

    >>> acclimate.embed("embedded", ["a text", "another"]).shape
    (2, 384)
    """
    import numpy as np

    from acclimate.shipping.embed import embed as make
    from acclimate.shipping.embed import embed_file

    if isinstance(file, str) and " " in file and not Path(file).exists():
        raise ValueError(f"{shown(file)} is not a file. Give texts in a list: embed(model, [{shown(file)}])")
    if not isinstance(file, str | Path):
        for name, value in (("out", out), ("id", id), ("format", format), ("split", split)):
            if value:
                raise TypeError(f"embed(): {name} applies only to a file of texts. Remove it for texts in memory")
        rows = [*dicts_of(file)] if is_table(file) else file.tolist() if hasattr(file, "tolist") else file
        with watched(progress) as watch:
            return make(model, rows, text=text, contestant=contestant, watch=watch)
    path = rows_file(file, HubChoice(split=split))
    columns: dict[str, Any] = {"text": text, "id": id}
    with watched(progress) as watch:
        if out is not None:
            return embed_file(model, path, out, **columns, format=format, contestant=contestant, watch=watch)
        with TemporaryDirectory(prefix="acclimate-") as place:
            array = Path(place) / "vectors.npy"
            embed_file(model, path, array, **columns, format=format, contestant=contestant, watch=watch)
            return cast("np.ndarray", np.load(array))


@python_function()
def ship(
    run: str | PathLike[str],
    to: str | Path,
    *,
    onnx: bool = False,
    license: str = "",
    language: str | Sequence[str] = (),
    contestant: str = "",
    push: str | None = None,
    progress: bool = True,
) -> Shipped:
    """Make the model of a race ready for use: checked against its scores, with a model card, in the directory `to`.

    run       directory of a finished race, or its Study, or the `baseline` in it
    contestant   whose model to ship in place of the model to use: the best encoder or the baseline
    onnx      also write ONNX copies in 32 and 8 bits, and measure their agreement and speed
    license, language   for the card: "apache-2.0"; "en", or several such codes
    push      also upload it to this hub id

    >>> acclimate.ship("runs/race", "shipped", license="apache-2.0").card
    """
    from acclimate.shipping.hub import check_repository
    from acclimate.shipping.hub import push as upload
    from acclimate.shipping.ship import ship as make

    if push is not None:
        check_repository(push)
    with watched(progress) as watch:
        codes = [language] if isinstance(language, str) else language
        card: dict[str, Any] = {"license": license, "language": codes}
        shipment = make(Path(run), to, contestant=contestant, onnx=onnx, **card, watch=watch)
    if push is not None:
        upload(to, push)
    return shipment
