"""Files of BLURB's test predictions, one for each model, seed and dataset, to submit to a leaderboard or an evaluator.

Each has `dataset_name`, `model_name` and `predictions`, which maps the id of a test item to its label:

    NER         the number of the sentence, from 0: "B", "I" or "O" of each word
    EBM PICO    the number of the sentence, from 0: "I-PAR", "I-INT", "I-OUT" or "O" of each word
    relations   the id in the file that BLURB's script writes: the label there
    BIOSSES     the id of the pair: a number
    HoC         the id of the abstract: abbreviations of its hallmarks, as of HALLMARKS
    questions   the id of the question: "yes", "no", for PubMedQA also "maybe"

Reading
  BLURB's leaderboard takes one JSON file per task, zipped and mailed, in a "Universal Schema", as its submit page says;
  the schema's file is not published there. The form here is that of a public package which scores predictions for
  BLURB; it has EBM PICO by document, where a sentence is one entry here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acclimate.races.outcome import Outcome
from acclimate.reading.datasets import blurb
from acclimate.studies.inputs import CONSTANT, NO_ENCODER, folder_of

FOLDER = "submissions"
HALLMARKS = {
    "activating invasion and metastasis": "IM",
    "avoiding immune destruction": "ID",
    "cellular energetics": "CE",
    "enabling replicative immortality": "RI",
    "evading growth suppressors": "GS",
    "genomic instability and mutation": "GI",
    "inducing angiogenesis": "A",
    "resisting cell death": "CD",
    "sustaining proliferative signaling": "PS",
    "tumor promoting inflammation": "TPI",
}


def submissions(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Return path below the directory of the study -> document. Baselines are left out, and scores on dev."""
    documents: dict[str, dict[str, Any]] = {}
    types = {dataset.name: dataset.type for dataset in blurb.DATASETS}
    folders: dict[str, str] = {}  # of each model; names that give the same folder are numbered
    for result in outcome.results if outcome.split == "test" else ():
        if result.row in (CONSTANT, NO_ENCODER):
            continue
        if result.row not in folders:
            folder = folder_of(result.row)
            folders[result.row] = f"{folder}-{len(folders) + 1}" if folder in folders.values() else folder
        for score in result.scores:
            path = f"{FOLDER}/{folders[result.row]}/seed-{score.seed}/{result.column}.json"
            documents[path] = {
                "dataset_name": result.column,
                "model_name": result.row,
                "predictions": predictions(types[result.column], score.ids, score.predicted),
            }
    return documents


def predictions(type: str, ids: tuple[str, ...], predicted: Sequence[Any]) -> Mapping[str, Any]:
    """Return the predictions of a dataset of this type by the ids of its test items."""
    if type in ("NER", "PICO"):
        return {
            str(number): [tag[:1] if type == "NER" else tag for tag in tags] for number, tags in enumerate(predicted)
        }
    if type == "Document Classification":
        return {name: [HALLMARKS[label] for label in labels] for name, labels in zip(ids, predicted, strict=True)}
    return dict(zip(ids, predicted, strict=True))
