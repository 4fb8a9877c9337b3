"""The verbs that put a model to use: predict, embed, ship, push."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from acclimate.api.checks import check_ended
from acclimate.cli import options
from acclimate.cli.verb import Session, verb

LEFT_OUT = 5  # rows that are named


def _column(name: str, help: str) -> Any:
    return typer.Option(name, help=help, rich_help_panel=options.COLUMNS)


def _check_predict(parameters: Mapping[str, Any]) -> None:
    from acclimate.data.as_files import HubChoice, is_hub_id, source_of
    from acclimate.shipping.texts import STDIN, check_first_row, checkpoint_in
    from acclimate.shipping.writers import check_explanations, check_out
    from acclimate.text.untrusted import check_file

    checkpoint = checkpoint_in(parameters["model"], parameters["contestant"])
    check_out(parameters["out"], parameters["file"], parameters["keep"] or ())
    if parameters["explain"] is not None:
        check_explanations(parameters["explain"], parameters["file"], parameters["out"])
    # the hub is asked once, by the verb, before it loads torch
    if (
        parameters["file"] != STDIN
        and not is_hub_id(parameters["file"])
        and source_of(parameters["file"], HubChoice()) is None
    ):
        check_file(Path(parameters["file"]))
        columns = {role: parameters[role] for role in ("text", "pair", "id")}
        form, keep = parameters["format"], parameters["keep"] or ()
        check_first_row(Path(parameters["file"]), checkpoint, form=form, keep=keep, **columns)


@verb(check=_check_predict)
def predict(
    session: Session,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A shipped folder, the --out of a race or its baseline, a checkpoint or a hub id."
        ),
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="Texts with the columns of the race: a file, or a dataset of the hub; - reads standard input.",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="FILE",
            help="File to write: .csv, .tsv, .jsonl or .parquet, for a tagger also .conll; - prints JSON lines.",
        ),
    ] = "-",
    text: Annotated[str | None, _column("--text", "Column of the text, if it differs from the race.")] = None,
    pair: Annotated[
        str | None,
        typer.Option(
            "--pair", help="Column of the second text, if it differs from the race.", rich_help_panel=options.COLUMNS
        ),
    ] = None,
    id: Annotated[str | None, _column("--id", "Column of the row ids, if it differs from the race.")] = None,
    keep: Annotated[
        list[str] | None, _column("--keep", "Column of FILE to copy to the output. May be repeated.")
    ] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="Format of FILE, if its ending does not show it: csv, tsv, jsonl, parquet, txt, conll.",
            autocompletion=options.begins_with(lambda: ("csv", "tsv", "jsonl", "parquet", "txt", "conll")),
        ),
    ] = "",
    split: Annotated[str, typer.Option("--split", help="Split of a dataset with several.")] = "",
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip rows that cannot be read.")] = False,
    explain: Annotated[
        Path | None,
        typer.Option(
            "--explain", metavar="FILE", help=".html or .jsonl: how much each word contributes to the predicted label."
        ),
    ] = None,
    contestant: options.ContestantOption = "",
) -> None:
    """Predict the labels of new texts, with probabilities: a row out for each row in."""
    from acclimate.data.as_files import HubChoice, rows_file

    rows = rows_file(file, HubChoice(split=split))  # refuses a split before torch is loaded
    from acclimate.reports.page import amount
    from acclimate.shipping.explain import MOST, predict_and_explain
    from acclimate.shipping.predict import predict_file

    predicting = predict_file if explain is None else partial(predict_and_explain, why=explain)
    with session.watched() as watch:
        output = predicting(
            model,
            rows,
            out,
            text=text,
            pair=pair,
            id=id,
            keep=keep or (),
            format=format,
            skip_bad=skip_bad,
            contestant=contestant,
            watch=watch,
        )
    for row in output.skipped[:LEFT_OUT]:
        session.say(f"Skipped: {row.place}: {row.reason}")
    left_out = f", {amount(output.left_out, 'row')} skipped" if output.left_out else ""
    session.say(f"Predicted: {amount(output.rows, 'row')}{left_out}{'' if out == '-' else f', in {out}'}")
    if explain is not None:
        session.say(f"Explained: the first {amount(min(output.rows, MOST), 'row')}, in {explain}")
    if output.probabilities:
        session.say(output.probabilities)


def _check_embed(parameters: Mapping[str, Any]) -> None:
    from acclimate.data.as_files import HubChoice, is_hub_id, source_of
    from acclimate.shipping.texts import STDIN, check_first_row, checkpoint_in
    from acclimate.shipping.writers import VECTORS, check_path
    from acclimate.text.untrusted import check_file

    check_path(parameters["out"], parameters["file"], VECTORS)
    file = parameters["file"]
    if file != STDIN and not is_hub_id(file) and source_of(file, HubChoice()) is None:
        check_file(Path(file))
        model, contestant = parameters["model"], parameters["contestant"]
        if contestant or (Path(model).is_dir() and not (Path(model) / "config.json").is_file()):
            model = checkpoint_in(model, contestant)
        columns = {role: parameters[role] for role in ("text", "id")}
        check_first_row(Path(file), model, "sequence", form=parameters["format"], **columns)


@verb(check=_check_embed)
def embed(
    session: Session,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="An encoder (directory or hub id), a shipped folder, or the --out of a race."
        ),
    ],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Texts: a file, or a dataset of the hub; - reads standard input.")
    ],
    out: Annotated[str, typer.Option("--out", metavar="FILE", help="File to write: .npy or .parquet.")],
    text: Annotated[str | None, _column("--text", "Column of the text, if not that of the race or text.")] = None,
    id: Annotated[str | None, _column("--id", "Column of the row ids.")] = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            help="Format of FILE, if its ending does not show it: csv, tsv, jsonl, parquet, txt.",
            autocompletion=options.begins_with(lambda: ("csv", "tsv", "jsonl", "parquet", "txt")),
        ),
    ] = "",
    split: Annotated[str, typer.Option("--split", help="Split of a dataset with several.")] = "",
    contestant: options.ContestantOption = "",
) -> None:
    """Write a vector for each text, the same numbers that sentence-transformers computes from MODEL."""
    from acclimate.data.as_files import HubChoice, rows_file

    rows = rows_file(file, HubChoice(split=split))  # refuses a split before torch is loaded
    from acclimate.reports.page import amount
    from acclimate.shipping.embed import embed_file

    with session.watched() as watch:
        number, size = embed_file(model, rows, out, text=text, id=id, format=format, contestant=contestant, watch=watch)
    session.say(f"Embedded: {amount(number, 'text')}, {size} dimensions, in {out}")


def _check_ship(parameters: Mapping[str, Any]) -> None:
    from acclimate.jobs.job import check_format
    from acclimate.jobs.lock import is_part_of_run
    from acclimate.shipping.hub import check_repository

    run = parameters["run"]
    check_ended({"run": run.resolve().parent} if is_part_of_run(run) else parameters)
    check_format(run)
    if parameters["push"] is not None:
        check_repository(parameters["push"])


@verb(check=_check_ship)
def ship(
    session: Session,
    run: options.RaceDirectory,
    to: Annotated[Path, typer.Option("--to", help="Directory to write: checkpoint, tokenizer, model card.")],
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Also write ONNX copies in 32 and 8 bits, and measure agreement and speed.")
    ] = False,
    license: Annotated[
        str, typer.Option("--license", help="License shown on the model card: apache-2.0, mit, ...")
    ] = "",
    language: Annotated[
        list[str] | None,
        typer.Option("--language", help="Language of the texts shown on the model card: en, de. May be repeated."),
    ] = None,
    contestant: options.ContestantOption = "",
    push: Annotated[str | None, typer.Option("--push", metavar="REPO", help="Upload it to this hub id.")] = None,
) -> None:
    """Make the model of a race ready for use: checked against its scores, with a model card."""
    from acclimate.shipping.hub import push as upload
    from acclimate.shipping.ship import ship as make

    with session.watched() as watch:
        shipment = make(
            run, to, contestant=contestant, onnx=onnx, license=license, language=language or (), watch=watch
        )
    session.say(f"Shipped: {to}, with a model card in {to / 'README.md'}")
    for way in shipment.ways:
        session.say(f"  {way.name}: {way.result}")
    if push is not None:
        session.say(f"Uploaded: {upload(to, push).address}")


def _check_push(parameters: Mapping[str, Any]) -> None:
    from acclimate.shipping.hub import check_shipment

    check_shipment(parameters["shipped"])


@verb(check=_check_push)
def push(
    session: Session,
    shipped: Annotated[Path, typer.Argument(metavar="SHIPPED", help="A directory that `acclimate ship` wrote.")],
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Id of the model on the Hugging Face hub.")],
    private: Annotated[
        bool, typer.Option("--private/--public", help="Visibility of a newly created repository.")
    ] = True,
    revision: Annotated[
        str | None, typer.Option("--revision", help="Branch to upload to; created if it is missing.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files without uploading them.")] = False,
) -> None:
    """Upload a shipped model to the Hugging Face hub."""
    from acclimate.core.figures import si
    from acclimate.shipping.hub import push as upload

    result = upload(shipped, repository, private=private, revision=revision, dry_run=dry_run)
    if dry_run:
        for name, size in result.files:
            session.say(f"{si(size, 'B'):>9}  {name}")
    session.say(
        f"{'Would upload' if dry_run else 'Uploaded'}: {len(result.files)} files, {si(result.size, 'B')}, "
        f"to {result.address}"
    )
