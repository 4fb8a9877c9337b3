"""Hyperpartisan news (SemEval-2019, task 4, by article): articles in one XML file, their labels in another, by id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from acclimate.core.types import Example, Rejected
from acclimate.tasks.catalogue import file_in
from acclimate.tasks.formats.delimited import example_of, one_of
from acclimate.tasks.formats.xml import elements
from acclimate.text.packed import LIMITS, Limits, blocks, named
from acclimate.text.recognise import printable

ARTICLES = "articles-training-byarticle-20181122.xml"
LABELS = "ground-truth-training-byarticle-20181122.xml"
CLASSES = ("true", "false")


def hyperpartisan_examples(folder: Path, *, limits: Limits = LIMITS) -> Iterator[Example | Rejected]:
    """An Example or a Rejected for each article: its title, and its text without the tags in it."""
    articles, truth = file_in(folder, ARTICLES), file_in(folder, LABELS)
    stated = {
        article.get("id", ""): article.get("hyperpartisan", "")
        for article, _ in elements(blocks(truth, limits), "article", where=named(truth), root="articles")
    }
    for article, lines in elements(blocks(articles, limits), "article", where=named(articles), root="articles"):
        place, id = f"{printable(articles.name)}:{lines[article]}", article.get("id", "")
        if id not in stated:
            yield Rejected(place, f"{LABELS} has no label for the article {id!r}; fetch both files again")
            continue
        text = " ".join(" ".join([article.get("title", ""), *article.itertext()]).split())
        yield example_of(place, id, text, stated[id], one_of(CLASSES))
