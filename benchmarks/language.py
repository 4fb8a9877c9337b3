"""Languages recognised by py3langid beside the list of common words that acclimate had before, and what each takes.

    python benchmarks/language.py --old OLD.py --texts DIR --corpus texts.jsonl --out DATE-language.md

OLD.py    acclimate/text/language.py of release 0.1, the list of common words
DIR       a text a language, paragraphs apart by empty lines, named LANGUAGE.txt: Vim's tutorial, say
--corpus  texts in English, an object a line with the field `text`; few are in other languages
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from page import head, table, write

from acclimate.text.documents import read_documents
from acclimate.text.language import language

SHORT = 60  # characters of a short text, the first of a paragraph
TEXTS = 8000
Recognise = Callable[[str], str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--texts", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    ways: dict[str, Recognise] = {"common words": _old(given.old), "py3langid": language}
    paragraphs = {path.stem: _paragraphs(path) for path in sorted(given.texts.glob("*.txt"))}
    rows = []
    for name, texts in paragraphs.items():
        counts = [
            _counted(way, name, [text[:longest] for text in texts])
            for longest in (None, SHORT)
            for way in ways.values()
        ]
        rows.append([name, len(texts), *map(_shown, counts)])
    totals = [sum(counts, Counter()) for counts in _columns(ways, paragraphs)]
    rows.append(["all", sum(map(len, paragraphs.values())), *map(_shown, totals)])
    english = [document.text for document in itertools.islice(read_documents(given.corpus), TEXTS)]
    found = []
    for name, way in ways.items():
        way(english[0])
        begun = time.process_time()
        languages = Counter(map(way, english))
        seconds = time.process_time() - begun
        listed = ", ".join(f"{each} {count:,}" for each, count in languages.most_common())
        found.append([name, f"{1e6 * seconds / len(english):.0f}", listed])
    names = [f"{length}, {name}" for length in ("paragraphs", f"first {SHORT} characters") for name in ways]
    write(
        given.out,
        [
            head("Languages recognised: py3langid and the list of common words"),
            "Right / unknown / wrong. An unknown text stays in a corpus, a wrong one is lost or kept wrongly.\n",
            table(["language", "texts", *names], rows),
            f"\n{len(english):,} texts of a corpus in English, which has abstracts in French and Chinese, too:\n",
            table(["", "processor microseconds a text", "found"], found),
        ],
    )


def _columns(ways: dict[str, Recognise], paragraphs: dict[str, list[str]]) -> list[list[Counter[str]]]:
    return [
        [_counted(way, name, [text[:longest] for text in texts]) for name, texts in paragraphs.items()]
        for longest in (None, SHORT)
        for way in ways.values()
    ]


def _counted(recognise: Recognise, name: str, texts: list[str]) -> Counter[str]:
    answers = {name: "right", "und": "unknown"}
    return Counter(answers.get(recognise(text), "wrong") for text in texts)


def _shown(counts: Counter[str]) -> str:
    return f"{counts['right']} / {counts['unknown']} / {counts['wrong']}"


def _paragraphs(path: Path) -> list[str]:
    parts = (" ".join(part.split()) for part in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")))
    return [part for part in parts if len(part.split()) >= 25 or (not part.isascii() and len(part) >= 100)]


def _old(path: Path) -> Recognise:
    specification = importlib.util.spec_from_file_location("common_words", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.language


if __name__ == "__main__":
    main()
