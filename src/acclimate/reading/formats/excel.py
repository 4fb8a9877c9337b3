"""Rows of the one filled sheet of an Excel workbook (.xlsx). Needs openpyxl, the extra `excel`."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acclimate.core.names import shown
from acclimate.text.documents import check_size
from acclimate.text.untrusted import ReadLimits, named, printable

CSV = "Or save the sheet as CSV (UTF-8) in Excel"


def workbook_rows(path: Path, limits: ReadLimits) -> Iterator[tuple[int, list[Any]]]:
    """Yield the number, from 1, and the values of each row that is not empty; dates and times as ISO 8601.

    Empty cells at the end of a row have no value. The size that the file states is not used: it may be wrong.

    Raises ValueError if openpyxl is not installed, the file is damaged or too large, or several sheets have rows.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise ValueError(
            f"{named(path)}: reading an Excel workbook needs openpyxl: pip install 'acclimate[excel]'. {CSV}"
        ) from error
    with _damage_named(path), zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    check_size(path, unpacked, limits)
    with _damage_named(path):
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheets = {sheet.title: list(_filled(sheet)) for sheet in book.worksheets}
        book.close()
    filled = {title: rows for title, rows in sheets.items() if rows}
    if len(filled) > 1:
        raise ValueError(
            f"{named(path)}: several sheets have rows: {', '.join(map(shown, filled))}. Keep only one of them. {CSV}"
        )
    for rows in filled.values():
        yield from rows


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever the readers of zip, XML and cells meet in damaged bytes
        raise ValueError(
            f"{named(path)}: damaged Excel workbook ({printable(str(error))[:200]}). Save it again. {CSV}"
        ) from error


def _filled(sheet: Any) -> Iterator[tuple[int, list[Any]]]:
    sheet.reset_dimensions()
    for number, cells in enumerate(sheet.iter_rows(values_only=True), 1):
        values = [cell.isoformat() if isinstance(cell, datetime.date | datetime.time) else cell for cell in cells]
        while values and values[-1] in (None, ""):
            values.pop()
        if values:
            yield number, values
