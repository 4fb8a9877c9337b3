"""The pages agree with the repository: links resolve, files and functions exist, settings are those of the recipes.

The pages for users are in plain English (CONTRIBUTING.md): short sentences, the words of the field, no source files.
"""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

import acclimate
from acclimate.cli import settings
from acclimate.core.schema import group_of
from acclimate.methods import METHODS
from acclimate.studies import STUDIES

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "acclimate"
PAGES = sorted([*ROOT.glob("*.md"), *(file for name in ("docs", "benchmarks") for file in (ROOT / name).rglob("*.md"))])
GENERATED = ("claims.md", "papers.md", "reliability.md", "settings.md")
USER_PAGES = [ROOT / name for name in ("CHANGELOG.md", "README.md", "SECURITY.md")] + [
    page
    for folder in (ROOT / "docs", ROOT / "docs" / "methods")
    for page in sorted(folder.glob("*.md"))
    if page.name not in (*GENERATED, "architecture.md")  # for developers
]
MOST_WORDS, MEAN_WORDS = 35, 17  # of a sentence, and of the mean sentence of a page
MOST_NUMBERS = 3  # of a paragraph, years and numbers of sections aside; more belong into a table
LONG_SENTENCES: dict[str, int] = {}  # page -> sentences that have to be longer
LONGEST_PAGES = {"methods": 500, "How to": 700, "statistics.md": 700}  # words of a page; by folder or heading too
# Words of our own making, and beginnings of sentences, that readers stumble over
FOREIGN = re.compile(
    r"^(Of|Where)\b|\b(stands?|stood|lies|lay|bears?|bore|told|tells|go(es)? on|going on|went on|anew|came? out"
    r"|comes out|leaves? out|left out|what is done|by luck|luck of|taken for|gives? up|given up|learn(s|t|ed)? nothing"
    r"|a look|twins?|a cover|or so|for what it is worth|as it is now"
    r"|(rows|tokens|texts|steps|queries|words) a (second|minute|step|text|seed|row))\b"
)


@cache
def prose(page: Path) -> str:
    """The page without code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """GitHub's anchors of a page's headings."""
    titles = re.findall(r"^#+ +(.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def found_in_pages(pattern: str, text_of: Callable[[Path], str]) -> Iterator[tuple[Path, Any]]:
    """The page and what the pattern captures, of each match."""
    return ((page, each) for page in PAGES for each in re.findall(pattern, text_of(page)))


def test_links_into_the_repository_resolve():
    """Relative ones, and the README's, which are whole addresses, because it is also the package's page elsewhere."""
    for page, target in found_in_pages(r"\]\(([^)\s]+)\)", prose):
        inside = re.fullmatch(r"https://github.com/acclimate-nlp/acclimate/(?:blob|raw)/main/(.*)", target)
        if inside or not re.match(r"[a-z]+:", target):
            path, _, anchor = (inside[1] if inside else target).partition("#")
            file = ((ROOT if inside else page.parent) / path).resolve() if path else page
            assert file.exists(), (page, target)
            assert not anchor or anchor in anchors(file), (page, target)


def test_files_and_functions_that_a_page_names_exist():
    named = r"\b((?:src|tests|recipes|examples)/[\w./-]*\.(?:py|toml|html))(?:::([\w.]+))?"
    for page, (path, name) in found_in_pages(named, lambda page: page.read_text(encoding="utf-8")):
        if "NAME" not in path:  # of a file to be
            assert (ROOT / path).is_file(), (page, path)
            assert not name or name in defined(ROOT / path), (page, f"{path}::{name}")


def test_files_of_a_run_that_a_page_names_are_files_that_the_code_writes():
    """Such as `learnt.json`; the record and tables of a race or study begin with its name: `tlm-k.outcome.json`."""
    for page, name in found_in_pages(r"`([a-z][\w.-]*\.(?:jsonl?|txt|csv|html))`", prose):
        if page.name == "CHANGELOG.md" or "benchmarks" in page.parts:  # they name files of earlier versions, or theirs
            continue
        start, _, ending = name.partition(".")
        of_study = start.partition("-")[0] in STUDIES and ending in ("outcome.json", "txt", "csv", "html")
        in_tree = (ROOT / name).is_file() or (SOURCE / "reports" / "templates" / name).is_file()
        written = {name, name.partition("-")[2]} & strings()
        assert of_study or in_tree or name == "race.outcome.json" or written, (page, name)


@cache
def test_calls_on_a_page_have_the_parameters_that_the_functions_take():
    called = 0
    for page in PAGES:
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            tree = ast.parse(block)
            found = {
                name.asname or name.name: getattr(import_module(node.module), name.name)
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("acclimate")
                for name in node.names
            }
            for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
                function = found.get(call.func.id) if isinstance(call.func, ast.Name) else None
                if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "acclimate":
                    function = getattr(acclimate, call.func.attr)
                if function is None:
                    continue
                parameters = signature(function).parameters.values()
                names = {parameter.name for parameter in parameters}
                called += 1
                if all(parameter.kind != parameter.VAR_KEYWORD for parameter in parameters):
                    assert {keyword.arg for keyword in call.keywords} - {None} <= names, f"{page}: {ast.unparse(call)}"
    assert called > 10


def strings() -> set[str]:
    """Return all words of the strings of the code that end like names of files."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py"))
    return set(re.findall(r"\b[a-z][\w.-]*\.(?:jsonl?|txt|csv|html)\b", text))


def test_the_tree_of_a_run_has_all_files_of_a_race():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    race = ROOT / "tests" / "golden" / "run" / "race"
    named = {file.name for file in race.rglob("*.*") if file.suffix in (".json", ".jsonl", ".txt", ".csv")}
    assert {"decisions.json", "learnt.json", "wall.json"} <= named
    tree = page[page.index("\n## A run's directory") : page.index("\n## What is deterministic")]
    # files of a checkpoint stand there as "weights, config, tokenizer"
    assert not [name for name in named if name not in tree and not name.startswith(("config", "tokenizer"))]


@cache
def defined(file: Path) -> set[str]:
    """Functions, classes, methods (as `Class.method`) and values that a module defines."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def test_the_settings_page_and_the_file_are_those_of_the_recipes():
    """Where this fails: make settings."""
    content = settings.made()
    assert settings.FILE.read_text(encoding="utf-8") == settings.written(content)
    text = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert text[text.index(settings.BEGIN) :] == settings.page(content)


def test_every_setting_says_what_it_is():
    fields = [
        (kind, name, field)
        for kind, about in settings.schema()["classes"].items()
        for name, field in about["fields"].items()
    ]
    assert len(fields) > 300
    assert not [(kind, name) for kind, name, field in fields if not (field["help"] or group_of(field["type"]))]


def test_the_table_of_errors_has_what_the_source_raises():
    errors = run_path(str(ROOT / "docs" / "errors.py"))
    found, tables = errors["messages"](), errors["tables"]()
    for package, message, module in (
        ("text", "…: is a folder, but a file is needed. Name a file in it…", "text/untrusted.py"),
        ("training", "… contains a run with …. Choose another --out, or remove this one", "training/run.py"),
    ):
        assert found[package][message] == {module}
        assert message.split("…: ")[-1] in tables
    assert sum(map(len, found.values())) > 700


def test_every_method_has_a_page():
    assert {page.stem for page in (ROOT / "docs" / "methods").glob("*.md")} == {*METHODS, "dsir", "tfidf"}


def test_the_evidence_on_dga_shows_the_strength_of_the_mask_as_it_was_measured():
    page = (ROOT / "docs" / "evidence" / "methods" / "dga.md").read_text("utf-8")
    for name, first in (("2026-11-24-soft-mask.md", "optimiser"), ("2026-11-26-soft-mask-real.md", "normalised over")):
        report = (ROOT / "benchmarks" / "reports" / name).read_text("utf-8")
        assert report[report.index(f"| {first} |") :].strip() in page


def sentences(page: Path) -> list[str]:
    """Return the sentences of a page's paragraphs."""
    split = (re.split(r"(?<=[.!?])\s+(?=[\"(A-Z0-9])", paragraph) for paragraph in paragraphs(page))
    return [sentence for sentences in split for sentence in sentences if re.search(r"\w", sentence)]


def paragraphs(page: Path) -> list[str]:
    """Return the paragraphs outside code, tables and headings, links as their words and code as one word."""
    text = re.sub(r"<!-- figures.*?<!-- end of the figures -->", "", prose(page), flags=re.DOTALL)  # generated
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^(#|\||!\[|:::).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "CODE", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)).replace("**", "")
    blocks = re.split(r"\n\s*\n|^\s*(?:[-*>]|\d+\.) ", text, flags=re.MULTILINE)
    return [" ".join(block.split()) for block in blocks]


@pytest.mark.parametrize("page", USER_PAGES, ids=lambda page: page.name)
def test_a_page_for_users_is_in_plain_english(page):
    lengths = {sentence: len(re.findall(r"\w[\w.,'’%-]*", sentence)) for sentence in sentences(page)}
    long = [sentence for sentence, words in lengths.items() if words > MOST_WORDS]
    assert len(long) <= LONG_SENTENCES.get(page.name, 0), long
    assert sum(lengths.values()) <= MEAN_WORDS * max(1, len(lengths))
    assert not [(match[0], sentence) for sentence in lengths if (match := FOREIGN.search(sentence))]
    number = r"(?<![\w.])(?!(?:19|20)\d\d\b)(?!\d+\.\d+\.\d)\d[\d,]*(?:\.\d+)?(?![\w])"
    crowded = [paragraph for paragraph in paragraphs(page) if len(re.findall(number, paragraph)) > MOST_NUMBERS]
    assert not crowded
    text, navigation = page.read_text("utf-8"), (ROOT / "mkdocs.yml").read_text("utf-8")
    assert not re.findall(r"\b(?:src|tests)/[\w/.-]+", text)
    how_to = f": {page.name}\n" in navigation[navigation.index("- How to:") : navigation.index("- Methods:")]
    most = LONGEST_PAGES.get("How to" if how_to else page.parent.name, LONGEST_PAGES.get(page.name, 10_000))
    assert len(text.replace("|", " ").split()) <= most
