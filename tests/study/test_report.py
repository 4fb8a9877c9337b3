import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from acclimate.study.report import Curves, Study, render, write_report
from acclimate.study.tables import LabelScore

VOID = {"meta", "link", "br"}


class Page(HTMLParser):
    """Elements with their attributes, and the balance of opening and closing tags outside drawings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def all(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.elements if name == tag)


def test_the_page_is_well_formed_and_ids_are_unique(study: Study) -> None:
    text = render(study)
    page = Page(text)
    assert text.startswith("<!doctype html>")
    assert not page.open
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_loads_nothing_from_outside(study: Study) -> None:
    text = render(study)
    for tag, attributes in Page(text).elements:
        assert not attributes.keys() & {"src", "srcset", "action"}
        for key in ("href", "xlink:href"):
            assert not attributes.get(key) or attributes[key].startswith(("#", "data:,")), tag
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_the_verdict_is_the_heading(study: Study) -> None:
    text = render(study)
    assert f"<h1>{study.verdict}</h1>" in text
    assert text.index("<h1>") < text.index("<table") < text.index("<svg")


def test_tables_and_sorting_work_for_keyboard_and_screen_reader(study: Study) -> None:
    text = render(study)
    page = Page(text)
    assert text.count("<caption>") == text.count("<table")
    assert all("scope" in attributes for attributes in page.all("th"))
    sortable = [attributes for attributes in page.all("th") if "aria-sort" in attributes]
    assert {attributes["aria-sort"] for attributes in sortable} == {"none"}
    assert len(sortable) == text.count('<button type="button">')
    assert text.count('role="region"') == text.count('tabindex="0"') - 1  # the commands can be scrolled too


def test_markup_in_data_stays_text(study: Study) -> None:
    nasty = "<script>alert(1)</script>"
    settings = {name: values | {nasty: nasty} for name, values in study.given.items()}
    page = render(
        replace(
            study,
            title=nasty,
            verdict=nasty,
            rows=[replace(row, contestant=f"{nasty}{i}") for i, row in enumerate(study.rows)],
            task={nasty: nasty},
            losses={nasty: (2.0, 1.0)},
            given=settings | {nasty: {}},
            winner=nasty,
            labels=[LabelScore(nasty, 3, 0.5, 0.6)],
            commands=[nasty],
            versions={nasty: nasty},
            hashes={nasty: nasty},
            environment={nasty: nasty},
            notes=[nasty],
            curves={nasty: Curves(nasty, nasty, {nasty: [(0, 1), (1, 2)]})},
        )
    )
    assert page.count("<script>") == 1  # ours
    assert "alert(1)" in page
    assert not Page(page).open


def test_parts_without_content_leave_no_section(study: Study) -> None:
    bare = Study(study.title, study.verdict, study.rows, study.task)
    text = render(bare)
    assert not Page(text).open
    for absent in ("What each contestant was given", "Label by label", "Notes", "held-out"):
        assert absent not in text


def test_settings_that_differ_stand_out(study: Study) -> None:
    same = re.findall(r'<tr class="same"><th scope="row">([^<]+)</th>', render(study))
    assert "adapting steps" not in same
    assert {"seeds", "epochs"} <= set(same)


def test_facts_read_naturally(study: Study) -> None:
    facts = {
        "steps": 12_000,
        "rate": 5e-5,
        "bf16": False,
        "device": None,
        "labels": ["a", "b"],
        "sizes": {"train": 1_200},
    }
    shown = dict(re.findall(r"<dt>(\w+)</dt><dd>([^<]*)</dd>", render(replace(study, task=facts))))
    expected = {"steps": "12,000", "rate": "5e-05", "bf16": "no", "device": "\N{EN DASH}", "labels": "a, b"}
    assert shown == expected | {"sizes": "train 1,200"}


def test_writing_is_whole_deterministic_and_small(study: Study, tmp_path: Path) -> None:
    path = write_report(tmp_path / "report.html", study)
    assert path.read_text() == render(study)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.stat().st_size < 2_000_000


def test_a_page_too_large_is_refused_and_the_old_one_stays(study: Study, tmp_path: Path) -> None:
    path = write_report(tmp_path / "report.html", study)
    with pytest.raises(ValueError, match="thin its curves"):
        write_report(path, replace(study, notes=["x" * 2_000_000]))
    assert path.read_text() == render(study)
