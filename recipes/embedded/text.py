"""Select the text that the embedded encoder is trained on, and hold out text to measure it on.

python text.py CORPUS TASKS OUT

CORPUS      what `acclimate data corpus` made of the general text
TASKS       the folder of labelled data

Training text comes from the sources of sources.tsv only, each with a licence that allows a derived model to be
redistributed. Passages that equal a text of a task's train, dev or test, nearly equal it, or share a run of 13 words
with it are removed. One document in 125 is held out, with all its passages. One passage in 125 of the other
domains of CORPUS, which the encoder must not know, is kept to measure their loss.

It writes OUT/train, OUT/heldout-DOMAIN for each domain, and OUT/left_out.json with the numbers of passages removed for
each task.
"""

import gzip
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from csv import DictReader
from pathlib import Path

from acclimate.core.types import Document
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.overlap.references import References

SOURCES = {row["source"] for row in DictReader((Path(__file__).parent / "sources.tsv").open(), delimiter="\t")}
DOMAINS = {
    "wikipedia_": "wikipedia",
    "books_": "books",
    "biomed_": "biomed",
    "cs_arxiv_": "arxiv",
    "reviews_": "reviews",
}
TRAINING_TEXT = ("biomed_jnlpba_train", "biomed_hoc_train", "biomed_bc2gm_train")  # of tasks
COLUMNS = ("bc2gm", "bc5cdr_chem", "bc5cdr_disease", "ebm_pico", "jnlpba", "ncbi_disease")  # a word a line
ROWS = (
    *("blurb/biosses", "blurb/bioasq_yesno_7b", "blurb/chemprot", "blurb/ddi", "blurb/gad", "blurb/hoc"),
    *(
        "blurb/pubmedqa",
        "tlm/acl_arc",
        "tlm/scierc_relation",
        "tlm/chemprot_13class",
        "tlm/imdb",
        "tlm/rct_substitutes",
    ),
    *("dga/acl", "dga/ai", "dga/pubmed", "dga/restaurant", "dga/camera_phone", "glue/rte", "glue/stsb", "glue/cola"),
    *("glue/sst2", "qa/squadshifts", "qa/squad_cs224n_val", "qa/bioasq", "arxiv"),
)
HELD_OUT = 125


def task_texts(tasks: Path) -> Iterator[tuple[str, str]]:
    """Yield (name of the task, text) of every row of the tasks."""
    for task in COLUMNS:
        for file in files_in(tasks / "blurb" / task):
            for sentence in re.split(r"\n\s*\n", read(file)):
                yield task, " ".join(line.split("\t")[0] for line in sentence.splitlines())
    for task in ROWS:
        for file in files_in(tasks / task):
            for text in fields_of(file):
                yield task, text


def fields_of(file: Path) -> Iterator[str]:
    content, name = read(file), file.name.removesuffix(".gz")
    if name.endswith(".json"):
        yield from strings(json.loads(content))
    else:
        for line in content.split("\n"):
            yield from strings(json.loads(line)) if name.endswith(".jsonl") and line else line.split("\t")


def files_in(folder: Path) -> list[Path]:
    kinds = (".tsv", ".jsonl", ".json", ".txt")
    return sorted(file for file in folder.rglob("*") if file.name.removesuffix(".gz").endswith(kinds))


def read(file: Path) -> str:
    content = file.read_bytes()
    return (gzip.decompress(content) if file.suffix == ".gz" else content).decode("utf-8", "replace")


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from strings(each)


def document_name(passage: str) -> str:
    """Return the document of a passage that is named `source:document.passage` or `source:document~hash`."""
    return re.sub(r"[.~][^.~]*$", "", passage)


def hashed(name: str) -> int:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)


def part_of(document: Document) -> str | None:
    """Return "train", the "heldout-DOMAIN" that the passage belongs to, or None if it is not used."""
    prefix = next((prefix for prefix in DOMAINS if document.source.startswith(prefix)), None)
    if prefix is None or document.source in TRAINING_TEXT:
        return None
    trained = document.source in SOURCES
    if hashed(document_name(document.id) if trained else document.id) % HELD_OUT == 0:
        return f"heldout-{DOMAINS[prefix]}"
    return "train" if trained else None


def main() -> None:
    corpus, tasks, out = map(Path, sys.argv[1:])
    named = [(f"{task}#{number}", text) for number, (task, text) in enumerate(task_texts(tasks))]
    references = References((name, text) for name, text in named if len(text.split()) >= 8)
    counts = Counter({"texts of tasks": len(named)})

    def passages() -> Iterator[tuple[str, Document]]:
        return ((part, document) for document in Corpus(corpus).documents() if (part := part_of(document)) is not None)

    parts: dict[str, list[Document]] = {}
    scanned = references.scan(((document.id, document.text) for _, document in passages()), threads=1)
    for (part, document), matches in zip(passages(), scanned, strict=True):
        if matches:
            counts.update({f"left out for {match.reference.partition('#')[0]}" for match in matches})
            counts["left out"] += 1
        else:
            parts.setdefault(part, []).append(document)
    for part, documents in parts.items():
        write_corpus(documents, out / part)
        counts[part] = len(documents)
        counts[f"{part}, characters"] = sum(len(document.text) for document in documents)
    (out / "left_out.json").write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    print((out / "left_out.json").read_text())


if __name__ == "__main__":
    main()
