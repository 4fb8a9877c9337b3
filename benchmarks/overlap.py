"""How fast texts of a test set are found in a corpus, and which share of planted leaks.

    python benchmarks/overlap.py --corpus general_corpus.jsonl.zst --references test.jsonl.zst \
        --out benchmarks/reports/2026-11-20-overlap.md

The references are to be texts that the corpus is known not to hold: what is found of them without planting is then a
false alarm. Peers, in turn with ours: a plain Python scan with sets of 13-grams, and datasketch where it is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from page import head, spread, table, tell, write
from planted import Texts, plant, shingles

from acclimate.text.documents import read_documents
from acclimate.text.overlap.references import Match, References
from acclimate.text.overlap.words import GRAM, jaccard, normalised_words

SHORTEST = 8  # words of a reference
SPEEDS = ("", "MB/s: best", "median (least to most)", "MB a processor second: best", "best by that of plain Python")
FIRST = """
import time; begun = time.perf_counter()
from acclimate.text.overlap.groups import duplicate_groups
from acclimate.text.overlap.references import References
list(References([("a", "some words of a test set")]).scan([("b", "some words of a corpus")]))
duplicate_groups(["a few words", "and others"])
print(time.perf_counter() - begun)
"""


def main() -> None:
    given = arguments()
    generator = random.Random(given.seed)
    references = _references(given, generator)
    corpus = _corpus(given)
    tell("planting")
    planted, expected = plant(references, [text for _, text in corpus], given.planted, generator)
    parts = [_recall(references, planted, expected), _alarms(references, corpus), _speed(given, references, corpus)]
    if given.starts:
        parts.append(_first(given.starts))
    facts = [
        (
            "references",
            f"{len(references):,} texts, {_megabytes(references):.1f} MB, cut at random to {SHORTEST} words or more",
        ),
        ("corpus", f"{len(corpus):,} texts, {_megabytes(corpus):.1f} MB, {_share(corpus)} of them not plain ASCII"),
    ]
    write(given.out, [head("Overlap of a corpus with a test set", facts=facts), *parts])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, required=True, help="a .jsonl, .jsonl.zst ... file with the field text")
    parser.add_argument("--references", type=Path, help="another such file; none: texts of the corpus's beginning")
    parser.add_argument("--out", type=Path, required=True, help="the report, Markdown")
    parser.add_argument("--megabytes", type=float, default=100.0, help="of the corpus")
    parser.add_argument("--reference-texts", type=int, default=5000)
    parser.add_argument("--planted", type=int, default=2000, help="leaks of each kind")
    parser.add_argument("--rounds", type=int, default=5, help="of the speed measurement")
    parser.add_argument("--peer-megabytes", type=float, default=3.0, help="of the corpus, for the plain Python scan")
    parser.add_argument(
        "--starts", type=int, default=3, help="processes for the time of a first use; 0: none, else 2 or more"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _references(given: argparse.Namespace, generator: random.Random) -> Texts:
    """Different texts, half of them cut: from a sentence to all of the text."""
    found: dict[str, str] = {}
    for document in read_documents(given.references or given.corpus):
        words = document.text.split()
        if len(words) < SHORTEST:
            continue
        if generator.random() < 0.5:
            words = words[: generator.randint(SHORTEST, len(words))]
        found.setdefault(normalised_words(" ".join(words)), " ".join(words))
        if len(found) == given.reference_texts:
            break
    return [(f"r{number}", text) for number, text in enumerate(found.values())]


def _corpus(given: argparse.Namespace) -> Texts:
    skipped = 0 if given.references else given.reference_texts
    texts: Texts = []
    size = 0.0
    for number, document in enumerate(read_documents(given.corpus)):
        if number >= skipped:
            texts.append((f"c{number}", document.text))
            size += len(document.text.encode()) / 1e6
        if size >= given.megabytes:
            break
    return texts


def _recall(references: Texts, planted: Texts, expected: dict[str, tuple[str, str]]) -> str:
    tell("looking for what was planted")
    ours = [
        {match.reference for match in each if _fits(match, expected)} for each in References(references).scan(planted)
    ]
    theirs = _datasketch(references, planted)
    rows = []
    for kind in dict.fromkeys(kind for kind, _ in expected.values()):
        places = [place for place, (name, _) in enumerate(planted) if expected[name][0] == kind]
        sought = {place: expected[planted[place][0]][1] for place in places}
        cells = [
            f"{sum(sought[place] in found[place] for place in places) / len(places):.2%}" for found in (ours, *theirs)
        ]
        rows.append((kind, len(places), *cells))
    names = ("planted", "texts", "ours", *(["datasketch, 128 permutations"] if theirs else []))
    return f"""## Planted leaks that are found

Each is made of a reference and counts as found where it is told together with that very reference, and as exact or
near where it is so. Near ones: words replaced, left out, put in, exchanged or misspelt until the Jaccard similarity of
the character 5-grams, computed in full, lies in the band. datasketch looks for near ones only, with the same 5-grams.

{table(names, rows)}
"""


def _fits(match: Match, expected: dict[str, tuple[str, str]]) -> bool:
    return match.kind == "13-gram" if " run " in expected[match.id][0] else match.kind != "13-gram"


def _datasketch(references: Texts, scanned: Texts) -> list[list[set[str]]]:
    """Those with a similarity of .8 by its estimate; nothing at all where it is not installed."""
    if importlib.util.find_spec("datasketch") is None:
        return []
    look = _datasketch_index(references)
    return [[set(look(text)) for _, text in scanned]]


def _datasketch_index(references: Texts) -> Callable[[str], list[str]]:
    from datasketch import MinHash, MinHashLSH

    def hashed(text: str) -> MinHash:
        found = MinHash(num_perm=128)
        found.update_batch([piece.encode() for piece in shingles(normalised_words(text))])
        return found

    index = MinHashLSH(threshold=0.8, num_perm=128)
    for name, text in references:
        index.insert(name, hashed(text))
    return lambda text: index.query(hashed(text))


def _alarms(references: Texts, corpus: Texts) -> str:
    """Every match is checked in plain Python."""
    tell("false alarms")
    by_name = dict(references)
    texts = dict(corpus)
    counts = dict.fromkeys(("exact", "near", "13-gram"), 0)
    wrong = flagged = 0
    for matches in References(references).scan(corpus):
        flagged += bool(matches)
        for kind in {match.kind for match in matches}:
            counts[kind] += 1
        wrong += sum(not _true(match, texts[match.id], by_name[match.reference]) for match in matches)
    rows = [(kind, count, f"{count / len(corpus):.4%}") for kind, count in counts.items()]
    rows.append(("any", flagged, f"{flagged / len(corpus):.4%}"))
    return f"""## Texts of the corpus that are flagged, nothing planted

Of {len(corpus):,} texts. {wrong} of the matches are none when they are checked in plain Python: the rest are true by
the rule, whether they mean a leak or not (a common quotation).

{table(("kind", "texts", "share"), rows)}
"""


def _true(match: Match, text: str, reference: str) -> bool:
    one, other = normalised_words(text), normalised_words(reference)
    if match.kind == "exact":
        return one == other
    if match.kind == "near":
        return jaccard(shingles(one), shingles(other)) >= 0.8
    return bool(_runs(one) & _runs(other))


def _runs(words: str) -> set[tuple[str, ...]]:
    split = words.split()
    return {tuple(split[place : place + GRAM]) for place in range(len(split) - GRAM + 1)}


def _plain(references: Texts) -> Callable[[Texts], list[bool]]:
    """What one would write in an afternoon: exact texts in a set, 13-grams in another."""
    whole = {normalised_words(text) for _, text in references}
    runs = {run for _, text in references for run in _runs(normalised_words(text))}

    def look(texts: Texts) -> list[bool]:
        found = []
        for _, text in texts:
            words = normalised_words(text)
            found.append(words in whole or not runs.isdisjoint(_runs(words)))
        return found

    return look


def _speed(given: argparse.Namespace, references: Texts, corpus: Texts) -> str:
    runs_only, everything, plain = References(references, near=0), References(references), _plain(references)
    few = _first_of(corpus, given.peer_megabytes)
    contestants: dict[str, tuple[Texts, Callable[[], object]]] = {}
    for threads in (1, 2):
        named = f"{threads} thread{'s' * (threads > 1)}"
        for what, which in (("exact and 13-gram", runs_only), ("exact, 13-gram and near", everything)):
            contestants[f"ours, {what}, {named}"] = (
                corpus,
                lambda which=which, threads=threads: [bool(each) for each in which.scan(corpus, threads=threads)],
            )
    contestants["plain Python sets, exact and 13-gram"] = (few, lambda: plain(few))
    if importlib.util.find_spec("datasketch"):
        look, fewer = _datasketch_index(references), _first_of(corpus, given.peer_megabytes / 5)
        contestants["datasketch, near, 128 permutations"] = (fewer, lambda: [bool(look(text)) for _, text in fewer])
    list(everything.scan(few))  # loads what is compiled
    agreeing = [bool(each) for each in runs_only.scan(few)] == plain(few)
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    of_processor: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(given.rounds):
        for name, (texts, work) in contestants.items():
            tell(f"round {number + 1}: {name}")
            begun, used = time.perf_counter(), time.process_time()
            work()
            speeds[name].append(_megabytes(texts) / (time.perf_counter() - begun))
            of_processor[name].append(_megabytes(texts) / (time.process_time() - used))
    base = max(speeds["plain Python sets, exact and 13-gram"])
    rows = []
    for name, found in speeds.items():
        alone = f"{max(of_processor[name]):,.1f}"
        rows.append((name, f"{max(found):,.1f}", spread(found, ",.1f"), alone, f"{max(found) / base:.1f}"))
    return f"""## Speed

{given.rounds} rounds, each contestant once in each. Index ready, texts in memory as Python strings, results as lists of
matches. The best counts where others use the machine at the same time: see the load average above, and the MB a second
of processor time, summed over threads, which a load changes little. On the texts that plain Python scanned, both
flag {"the same ones" if agreeing else "**different ones**"}.

{table(SPEEDS, rows)}
"""


def _first(starts: int) -> str:
    """Whole processes with an empty and with a filled place for compiled code."""
    tell("first use")
    with tempfile.TemporaryDirectory() as directory:
        seconds = []
        for _ in range(starts):
            environment = os.environ | {"NUMBA_CACHE_DIR": directory}
            done = subprocess.run(
                [sys.executable, "-c", FIRST], env=environment, check=True, capture_output=True, text=True
            )
            seconds.append(float(done.stdout))
    rows = [
        ("nothing compiled yet", f"{seconds[0]:.2f}"),
        ("compiled by an earlier process", f"{min(seconds[1:]):.2f}"),
    ]
    return f"""## First use in a process

Import, index, scan and grouping of one text each.

{table(("", "seconds"), rows)}
"""


def _first_of(texts: Texts, megabytes: float) -> Texts:
    size, found = 0.0, []
    for each in texts:
        found.append(each)
        size += len(each[1].encode()) / 1e6
        if size >= megabytes:
            break
    return found


def _megabytes(texts: Texts) -> float:
    return sum(len(text.encode()) for _, text in texts) / 1e6


def _share(texts: Texts) -> str:
    return f"{sum(not text.isascii() for _, text in texts) / max(len(texts), 1):.0%}"


if __name__ == "__main__":
    main()
