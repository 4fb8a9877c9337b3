"""Write the labelled files of ten tasks on which no preset was chosen, with 500 and 1,500 rows each.

    python benchmarks/loop_tasks.py DATA OUT
    acclimate data prepare OUT/TASK-ROWS/train.jsonl --dev OUT/TASK-ROWS/dev.jsonl --test OUT/TASK-ROWS/test.jsonl \\
        --max-tokens 128 --out tasks/TASK-ROWS

14% of the rows are dev, as a race holds them out. Test has at most 1,000 rows. Pairs need --pair pair, and bc2gm needs
--text words --label tags --kind tokens.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import sys
from pathlib import Path

DATA, OUT = Path(sys.argv[1]), Path(sys.argv[2])
SIZES, DEV, TEST = (500, 1500), 0.14, 1000


def read(name):
    path = DATA / name
    return gzip.open(path, "rt", encoding="utf-8").read() if path.suffix == ".gz" else path.read_text("utf-8")


def lines(name):
    return [json.loads(line) for line in read(name).splitlines() if line.strip()]


def columns(name):
    return [line.split("\t") for line in read(name).splitlines() if line.strip()]


def once(rows):
    """Rows with each text once: no training row is a test row."""
    return [
        *{(row["text"], row.get("pair"), row.get("words") and " ".join(row["words"])): row for row in rows}.values()
    ]


def write(task, train, test=None):
    random.Random(1).shuffle(train := once(train))
    if test is None:
        test, train = train[:TEST], train[TEST:]
    else:
        known = {row["text"] for row in test}
        train = [row for row in train if row["text"] not in known]
        random.Random(2).shuffle(test := once(test))
    for size in SIZES:
        rows = train[:size]
        if len(rows) < 0.8 * size:
            continue
        dev = round(DEV * len(rows))
        for split, part in (("train", rows[dev:]), ("dev", rows[:dev]), ("test", test[:TEST])):
            path = OUT / f"{task}-{size}" / f"{split}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(json.dumps(row) + "\n" for row in part), "utf-8")


def abstracts(name):
    return [
        {"text": text, "label": label}
        for row in lines(name)
        for text, label in zip(row["sentences"], row["labels"], strict=True)
        if len(text.split()) > 3
    ]


PMC, CS = "tlm/rct_substitutes/pmc_structured_abstracts", "tlm/rct_substitutes/csabstruct"
write("rct", abstracts(f"{PMC}/train.jsonl.gz"), abstracts(f"{PMC}/test.jsonl.gz"))
write("csabstruct", abstracts(f"{CS}/train.jsonl.gz"), abstracts(f"{CS}/test.jsonl"))

TOPICS = {"1": "world", "2": "sports", "3": "business", "4": "technology"}
news = csv.reader(io.StringIO(read("tlm/agnews/test.csv.gz")))
write("agnews", [{"text": f"{title}. {text}", "label": TOPICS[topic]} for topic, title, text in news])

SIGNS = {"0": "negative", "1": "positive"}
sst2 = [line.rsplit("\t", 1) for line in read("glue/sst2/train.tsv.gz").splitlines()[1:]]
write("sst2", [{"text": text.strip(), "label": SIGNS[sign]} for text, sign in sst2 if len(text.split()) > 8])


def aspects(name):
    rows = json.loads(read(name)).values()
    return [{"text": row["sentence"], "pair": row["term"], "label": row["polarity"]} for row in rows]


write("restaurant", aspects("dga/restaurant/train.json.gz"), aspects("dga/restaurant/test.json"))

papers = lines("arxiv/arxiv_fields.jsonl.gz")
write("arxiv-field", [{"text": row["title"], "label": row["field"]} for row in papers])
KEPT = (
    "cs.AI",
    "cs.CE",
    "cs.CL",
    "cs.CV",
    "cs.GR",
    "cs.GT",
    "cs.IT",
    "cs.LG",
    "eess.IV",
    "stat.ML",
    "math.IT",
    "cs.RO",
)


def categories(row):
    names = row["all"].split() if isinstance(row["all"], str) else row["all"]
    return [name for name in names if name in KEPT]


write("arxiv-labels", [{"text": row["title"], "label": categories(row)} for row in papers])

ANSWERS = {"0": "unrelated", "1": "associated"}
gad = [columns(f"blurb/gad/{name}")[1:] for name in ("train.tsv.gz", "dev.tsv", "test.tsv")]
gad_train, *gad_held = [[{"text": row[1], "label": ANSWERS[row[2]]} for row in rows if len(row) == 3] for rows in gad]
write("gad", gad_train, [row for rows in gad_held for row in rows])


def sentences(name):
    parts = [part.splitlines() for part in read(name).split("\n\n") if part.strip()]
    pairs = [[line.split("\t") for line in part] for part in parts]
    columns_of = [[[*column] for column in zip(*pair, strict=True)] for pair in pairs]
    rows = [{"text": " ".join(words), "words": words, "tags": tags} for words, tags in columns_of]
    return [row for row in rows if 4 < len(row["words"]) < 60]


write("bc2gm", sentences("blurb/bc2gm/train.tsv.gz"), sentences("blurb/bc2gm/test.tsv.gz"))


def similarities(name):
    return [{"text": row[5], "pair": row[6], "label": float(row[4])} for row in columns(name)]


write("stsb", similarities("glue/stsb/sts-train.tsv.gz"), similarities("glue/stsb/sts-test.tsv"))
