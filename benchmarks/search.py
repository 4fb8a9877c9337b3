"""A first comparison for search: BM25, two encoders as they are, and the same encoders adapted or trained on pairs.

The questions of BioASQ's golden files are the queries, and the snippets that its experts marked for them are the
documents: a document is relevant for the questions that it was marked for. The files of this set are written in BEIR's
folder format, and `acclimate.race` does the rest.

python benchmarks/search.py --bioasq data/qa/bioasq --model path/to/MiniLM --out REPORT.md
"""

from __future__ import annotations

import argparse
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from page import head, table, tell, write

import acclimate
from acclimate.core.figures import points
from acclimate.tasks.metrics import METRICS

FILES = {"test": 7, "dev": 6, "train": 5, "more": 4}  # split -> number of BioASQ's golden file
REPORTED = ("ndcg_at_10", "mrr_at_10", "recall_at_100")


def main() -> None:
    options = arguments()
    parts, adds_embedded = [], options.model != "embedded"
    adapted = ["SimCSE", "TSDAE"] if options.steps else []
    parts_of_report = [("Without training queries", [*adapted, "TF-IDF"], ("dev", "test"))]
    if options.train:
        parts_of_report.append(("With training queries", ["TF-IDF"], ("train", "dev", "test")))
    with tempfile.TemporaryDirectory() as place:
        for name, contestants, splits in parts_of_report:
            folder = Path(place) / name.replace(" ", "-").lower()
            documents = write_folder(folder, options, splits)
            raw = folder / "raw.txt"
            raw.write_text("".join(text + "\n" for text in snippets(options)[: options.raw]))
            tell(f"{name}: {documents:,} documents")
            plan = {"steps": options.steps, "batch": 16, "rate": options.rate}
            adapting = {"max_tokens": options.max_tokens, "epochs": 0.0, "plan": plan}
            adapts = "SimCSE" in contestants
            study = acclimate.race(
                folder,
                corpus=raw if adapts else None,
                model=options.model,
                checkpoints={"embedded": "embedded"} if adds_embedded and "train" not in splits else None,
                contestants=contestants,
                seeds=options.seeds,
                max_tokens=options.max_tokens,
                budget="none",
                out=Path(place) / f"{folder.name}-run",
                **({"sequence_contrast": adapting, "tsdae": adapting} if adapts else {}),
                finetune={"epochs": options.epochs, "plan": {"batch": 16}},
            )
            parts.append(part(name, study, documents))
    adapting = f"""SimCSE and TSDAE adapt on {options.raw:,} snippets of the four files, {options.steps} steps of 16
texts at rate {options.rate:g}."""
    models = "The untouched model was trained as a sentence encoder on a billion pairs; the embedded encoder was not."
    tuning = f"Fine-tuning on pairs has {options.epochs:g} epochs of the training queries, in batches of 16."
    about = f"{models if adds_embedded else ''} {tuning if options.train else ''}".strip()
    text = f"""The queries are questions of BioASQ's golden files {FILES["test"]}B (test), {FILES["dev"]}B (dev) and
{FILES["train"]}B (training). The documents are the snippets that experts marked for these questions, so each query has
relevant documents, and the collection is far easier than all of PubMed. A snippet that answers a question but was
marked for another one counts as not relevant. {adapting if adapted else ""}

{about} Sets and trainings are small: this shows that the comparison works, and is no advice on a method.

Intervals are over queries and seeds, and differences are paired by query.
"""
    write(options.out, [head("Search: encoders beside BM25 on BioASQ's snippets"), text, *parts])


def part(name: str, study: Any, documents: int) -> str:
    """A table of all contestants, and the answer of the race."""
    scores: dict[str, list[Any]] = {}
    for score in study.outcome.scores:
        scores.setdefault(score.contestant, []).append(score)
    rows = []
    for contestant, several in scores.items():
        values = [
            points(sum(METRICS[metric].compute(score.gold, score.predicted) for score in several) / len(several))
            for metric in REPORTED
        ]
        rows.append((contestant, *values))
    [first] = {score.ids for score in study.outcome.scores}
    size = f"{documents:,} documents, {len(first):,} test queries"
    printed = "\n".join(line for line in str(study).splitlines() if str(study.path) not in line)
    means = table(("contestant", "nDCG@10", "MRR@10", "recall@100"), rows)
    return f"## {name}\n\n{size}\n\n{means}\n\n```text\n{printed}\n```\n"


def questions(options: argparse.Namespace, split: str) -> list[dict[str, Any]]:
    path = options.bioasq / f"{FILES[split]}B_golden.json.gz"
    questions = json.loads(gzip.decompress(path.read_bytes()))["questions"]
    return [question for question in questions if question["snippets"]]


def snippets(options: argparse.Namespace) -> list[str]:
    """The different snippets of all files."""
    marked = (snippet for split in FILES for question in questions(options, split) for snippet in question["snippets"])
    return list(dict.fromkeys(filter(None, (" ".join(snippet["text"].split()) for snippet in marked))))


def write_folder(folder: Path, options: argparse.Namespace, splits: tuple[str, ...]) -> int:
    """Write the set in BEIR's format, and return its number of documents."""
    (folder / "qrels").mkdir(parents=True)
    documents: dict[str, str] = {}
    queries = []
    for split in splits:
        lines = ["query-id\tcorpus-id\tscore"]
        for question in questions(options, split)[: getattr(options, split)]:
            texts = dict.fromkeys(" ".join(own["text"].split()) for own in question["snippets"])
            ids = [documents.setdefault(text, f"d{len(documents)}") for text in texts if text]
            queries.append({"_id": question["id"], "text": question["body"]})
            lines += [f"{question['id']}\t{id}\t1" for id in ids]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    rows = [{"_id": id, "title": "", "text": text} for text, id in documents.items()]
    for name, several in (("corpus", rows), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in several))
    return len(documents)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bioasq", type=Path, required=True, help="folder with 4B_golden.json.gz to 7B_golden.json.gz")
    parser.add_argument("--model", default="embedded", help="encoder that races and is adapted")
    parser.add_argument("--raw", type=int, default=2000, help="snippets of raw text")
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--test", type=int, default=150, help="test questions")
    parser.add_argument("--dev", type=int, default=50, help="dev questions")
    parser.add_argument("--train", type=int, default=150, help="training questions; 0: without that part")
    parser.add_argument("--steps", type=int, default=60, help="steps of adapting; 0: nothing is adapted")
    parser.add_argument("--rate", type=float, default=1e-4, help="of adapting")
    parser.add_argument("--epochs", type=float, default=3.0, help="of fine-tuning on pairs")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    main()
