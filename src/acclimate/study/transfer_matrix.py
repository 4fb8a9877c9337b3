"""What intermediate tasks were measured to give, out of the CSV that `acclimate grid stilt` writes, or any like it."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from acclimate.study.transfer_evidence import Values

MODEL, TARGET = "model", "target"
CANDIDATE = ("first", "intermediate")  # either name is read: what `grid stilt` writes, and the plain one
DIFFERENCE = ("alone_difference", "difference")
CHANCE = ("alone_p_holm", "p_holm")  # where the file has it


@dataclass(frozen=True)
class Measured:
    """differences: (target, intermediate), names in lower case -> difference to the target alone, as a fraction.
    p: of those that were tested, corrected.
    """

    model: str
    differences: dict[tuple[str, str], float]
    p: dict[tuple[str, str], float]

    def among(self, names: Sequence[str]) -> Values:
        """(K, K) of the tasks of these names, NaN where nothing was measured and for a task with itself."""
        found = np.full((len(names), len(names)), np.nan)
        for row, target in enumerate(names):
            for column, candidate in enumerate(names):
                if row != column:
                    found[row, column] = self.differences.get((target.lower(), candidate.lower()), np.nan)
        return found


def read_matrix(path: Path, model: str) -> Measured:
    """The differences of one model. Lines without a number (a cell that failed) are passed over.

    model  as the file names it; where it has one model only, that one, whatever it is called

    Raises ValueError for a file that is not there, lacks a column or a model, or has two lines for one cell.
    """
    if not path.is_file():
        raise ValueError(f"--matrix {path}: there is no such file")
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        lines = [(reader.line_num, line) for line in reader]
        columns = reader.fieldnames or ()
    candidate, difference, chance = (
        next((name for name in either if name in columns), "") for either in (CANDIDATE, DIFFERENCE, CHANCE)
    )
    told = {TARGET: TARGET in columns, CANDIDATE[1]: candidate, DIFFERENCE[1]: difference}
    if absent := [name for name, there in told.items() if not there]:
        raise ValueError(
            f"--matrix {path}: has no column {', '.join(map(repr, absent))}, only {', '.join(map(repr, columns))}. "
            f"Give the CSV that `acclimate grid stilt` writes, or name the columns so"
        )
    models = sorted({line.get(MODEL) or "" for _, line in lines})
    if len(models) > 1 and model not in models:
        raise ValueError(
            f"--matrix {path}: was measured with {', '.join(map(repr, models))}, none of which is '{model}'. Say which "
            f"one counts with matrix_model=NAME"
        )
    own = models[0] if len(models) == 1 else model
    differences: dict[tuple[str, str], float] = {}
    p: dict[tuple[str, str], float] = {}
    for number, line in lines:
        if (line.get(MODEL) or "") != own or not (line[difference] or "").strip():
            continue
        cell = (line["target"].strip().lower(), line[candidate].strip().lower())
        if cell in differences:
            raise ValueError(
                f"{path}:{number}: a second difference for target '{line['target']}' and intermediate "
                f"'{line[candidate]}'. Leave one line for each cell, of one metric and of the mean over seeds"
            )
        differences[cell] = _number(line[difference], difference, f"{path}:{number}")
        if chance and (line[chance] or "").strip():
            p[cell] = _number(line[chance], chance, f"{path}:{number}")
    return Measured(own, differences, p)


def _number(text: str, column: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}: {column} '{text}' is no number. Correct it, or leave it empty where a cell failed")
    return value
