"""Make the text that the embedded encoder learns from, without any text of the tasks that it is tested on.

python text.py CORPUS TASKS DOCSTRINGS OUT

CORPUS      what `acclimate data corpus` made of the general text
TASKS       the folder of labelled data (shared/data)
DOCSTRINGS  where the docstrings are built

The script leaves out three sources that are training text of tasks, and every passage that equals a text of a task's
train, dev or test, nearly equals it, or shares a run of 13 words with it. It holds out one document in 125, all
its passages together. It writes OUT/train and OUT/heldout, and OUT/left_out.json: how many passages it left out for
which task.
"""

import gzip
import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from acclimate.core.types import SPLITS, Document
from acclimate.tasks.datasets.docstrings import build_docstrings
from acclimate.text.corpus import Corpus, write_corpus
from acclimate.text.overlap.references import References

TRAINING_TEXT = ("biomed_jnlpba_train", "biomed_hoc_train", "biomed_bc2gm_train")
COLUMNS = ("bc2gm", "bc5cdr_chem", "bc5cdr_disease", "ebm_pico", "jnlpba", "ncbi_disease")  # a word a line
ROWS = (
    *("blurb/biosses", "blurb/bioasq_yesno_7b", "blurb/chemprot", "blurb/ddi", "blurb/gad", "blurb/hoc"),
    *("blurb/pubmedqa", "tlm/acl_arc", "tlm/scierc_relation", "tlm/chemprot_13class", "glue/rte", "glue/stsb"),
)
HELD_OUT = 125


def task_texts(tasks: Path, docstrings: Path) -> Iterator[tuple[str, str]]:
    """Yield (name of the task, text) of every row of the tasks."""
    built = build_docstrings(docstrings)
    for split in SPLITS:
        for row in built.task.read(built.path, split):
            yield "docstrings", row.text
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


def is_held_out(name: str) -> bool:
    """Return True if the document of a passage is held out. name: `source:document.passage`, `source:document~hash`."""
    document = re.sub(r"[.~][^.~]*$", "", name)
    return int(hashlib.sha256(document.encode()).hexdigest(), 16) % HELD_OUT == 0


def main() -> None:
    corpus, tasks, docstrings, out = map(Path, sys.argv[1:])
    named = [(f"{task}#{number}", text) for number, (task, text) in enumerate(task_texts(tasks, docstrings))]
    references = References((name, text) for name, text in named if len(text.split()) >= 8)
    counts = Counter({"texts of tasks": len(named)})

    def passages() -> Iterator[Document]:
        return (document for document in Corpus(corpus).documents() if document.source not in TRAINING_TEXT)

    kept: dict[bool, list[Document]] = {True: [], False: []}
    scanned = references.scan(((document.id, document.text) for document in passages()), threads=1)
    for document, matches in zip(passages(), scanned, strict=True):
        if matches:
            counts.update({f"left out for {match.reference.partition('#')[0]}" for match in matches})
            counts["left out"] += 1
        else:
            kept[is_held_out(document.id)].append(document)
    for name, held_out in (("train", False), ("heldout", True)):
        write_corpus(kept[held_out], out / name)
        counts[name] = len(kept[held_out])
        counts[f"{name}, characters"] = sum(len(document.text) for document in kept[held_out])
    (out / "left_out.json").write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n")
    print((out / "left_out.json").read_text())


if __name__ == "__main__":
    main()
