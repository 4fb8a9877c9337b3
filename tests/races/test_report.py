import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

import studies
from acclimate.core.figures import percent
from acclimate.data.examination import Copies, CorpusFacts, FileFacts, Finding, Leak, ModelFacts, Pieces, Sighting
from acclimate.races.answer import RaceAnswer
from acclimate.races.outcome import Curves, LooksAtTest, SearchRecord, Trial, rows
from acclimate.races.report import LARGEST, RaceReport, differences, race_page, search_remark, summary, write_page
from acclimate.races.tables import as_csv
from acclimate.races.verdict import Leakage
from acclimate.reports.labels import Confusion, LabelScore

pytestmark = pytest.mark.usefixtures("plots")

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


def assert_whole(text: str) -> None:
    """A page that is well formed, loads nothing, and whose ids are unique and tables have headers."""
    page = Page(text)
    assert not page.open
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert all("scope" in attributes for attributes in page.all("th"))
    for tag, attributes in page.elements:
        assert not attributes.keys() & {"src", "srcset", "action"}
        data = "data:image/png;" if tag == "image" else "data:,"
        for key in ("href", "xlink:href"):
            assert not attributes.get(key) or attributes[key].startswith(("#", data)), tag


def render(report: RaceReport) -> str:
    return race_page(report).as_html()


@pytest.fixture(scope="module")
def text(report: RaceReport) -> str:
    return render(report)


@pytest.fixture(scope="module")
def lean(report: RaceReport) -> RaceReport:
    """Scores and leakage only, which is quicker to draw."""
    return studies.bare(report, leakage=report.leakage)


def test_the_page_is_well_formed_ids_are_unique_and_nothing_is_loaded_from_outside(text):
    assert_whole(text)
    assert "data:image" not in text
    assert text.startswith("<!doctype html>")
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_answer_command_plot_and_table_come_first_and_the_rest_is_folded_under_questions(report, text):
    assert '<h1 dir="auto" class="answer helped">' in text
    assert all(f'<li dir="auto">{line}</li>' in text for line in report.answer.evidence)
    order = [text.index(part) for part in ("<h1", "Use: ", "Next: <code>", "<svg", "<table", "<details>")]
    assert order == sorted(order)
    top = text[: text.index("<details>")]
    assert top.count("<svg") == top.count("<table") == 1
    titles = re.findall(r'<h2 id="[^"]+" dir="auto">([^<]+)</h2>', text)
    assert all(title.endswith("?") for title in titles)
    assert text.count("<summary><h2") == len(titles) - 1
    assert len(set(titles)) == len(titles) >= 12


def test_the_table_has_the_interval_of_the_answer_and_what_failed(report):
    results = (*report.outcome.results, studies.result("TLM", failed="its corpus is empty"))
    failing = replace(report, outcome=replace(report.outcome, results=results))
    rows = {model: list(map(str, cells)) for model, *cells in summary(failing).rows}
    assert list(rows) == [*(row.contestant for row in report.rows), "TLM"]
    low, high = (f"{100 * end:+.1f}" for end in report.answer.interval)
    assert rows[report.answer.model][1].endswith(f" [{low}, {high}]")
    assert rows["DAPT"][3] == "use this"
    assert rows["TLM"] == ["-", "-", "-", "failed: its corpus is empty"]
    assert rows["untouched"][1] == "-"
    assert studies.SIMPLE in differences(report)


def test_every_figure_of_the_sheet_is_on_the_page(report, text):
    names, *lines = csv.reader(io.StringIO(as_csv(report.outcome)))
    table = text[text.index('id="all-figures"') :]
    filled = [name for name, *values in zip(names, *lines, strict=True) if any(values) and name != "contestant"]
    assert all(f">{name}</span>" in table for name in filled)
    assert len(filled) > 25


def test_tables_say_what_they_are_and_what_scrolls_can_be_reached(text):
    page = Page(text)
    assert text.count("<caption>") == text.count("<table")
    assert {attributes["data-sort"] for attributes in page.all("th") if "data-sort" in attributes} == {"text", "number"}
    assert "<button" not in text  # the script makes them: without it nothing pretends to sort
    assert text.count('role="region"') == text.count('tabindex="0"')
    for attributes in (attributes for _, attributes in page.elements if attributes.get("role") == "region"):
        assert attributes["aria-label"]


def test_headings_go_down_a_step_at_a_time_and_the_navigation_meets_its_sections(text):
    page = Page(text)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert [attributes["href"] for attributes in page.all("a")] == ["#contestants"]  # to skip to; folds need no others


def test_markup_in_data_stays_text(report, field):
    nasty = "<script>alert(1)</script>"
    settings = {name: values | {nasty: nasty} for name, values in report.facts.given.items()}
    twin = Sighting(nasty, nasty, 1.0, nasty, nasty, nasty, nasty, nasty)
    names = {score.contestant: f"{nasty}{score.contestant}" for score in field if score.contestant != "untouched"}
    outcome = studies.raced([replace(score, contestant=names.get(score.contestant, "untouched")) for score in field])
    confusions = [Confusion(nasty, (nasty, "b"), 1, ((1.0, 2.0), (0.0, 0.5)))]
    page = render(
        studies.altered(
            report,
            title=nasty,
            answer=RaceAnswer("helped", nasty, (nasty,)),
            outcome=outcome,
            task={nasty: nasty},
            losses={nasty: (2.0, 1.0)},
            general_losses={nasty: (2.0, 1.0)},
            given=settings | {nasty: {}},
            use=nasty,
            encoder=nasty,
            labels=[LabelScore(nasty, 3, 0.5, 0.6)],
            remarks=[nasty],
            alerts=[nasty],
            confusions=confusions,
            predictions={nasty: [(1.0, 2.0), (2.0, 1.0)]},
            leakage=replace(
                report.leakage,
                outcome=outcome,
                leaks=[Leak(nasty, nasty, "exact", 1, 1, 0.5, 1, (twin,))],
                changed=[nasty],
            ),
            searches=studies.searched([Trial(nasty, nasty, 0, 1, 1, 0.5, False, nasty)]),
            search_note=nasty,
            chosen={nasty: nasty},
            looks=LooksAtTest(1, 1, 1, [nasty]),
            examination=replace(
                report.facts.examination,
                task={nasty: nasty},
                files=(FileFacts(nasty, 1, 0, 1, ((nasty, 1, nasty),)),),
                label_counts={nasty: {nasty: 3}},
                quantiles={nasty: (0.0, 1.0, 2.0, 3.0, 4.0)},
                pieces=(Pieces(nasty, 1, 1, 1.0, 1.0, 0.0, ((nasty, 3, 1),)),),
                corpora=(CorpusFacts(nasty, nasty, 1, 1, 0),),
                copies=(Copies(nasty, 1, 1, 0),),
                findings=(Finding("error", nasty, nasty),),
                model=ModelFacts(nasty, None, None, None, None, None, None),
                reach=nasty,
            ),
            commands=[nasty],
            versions={nasty: nasty},
            hashes={nasty: nasty},
            environment={nasty: nasty},
            notes=(nasty,),
            curves={nasty: Curves(nasty, nasty, {nasty: [(0, 1), (1, 2)]})},
        )
    )
    assert page.count("<script>") == 1  # ours
    assert page.count("alert(1)") > 60
    assert not Page(page).open


def test_what_would_turn_or_break_the_text_around_it_is_shown_as_its_escape(lean):
    label = "a\N{RIGHT-TO-LEFT OVERRIDE}b\x00c\x1b[1md\ud800e"
    page = render(studies.altered(lean, labels=[LabelScore(label, 3, 0.5, 0.6)], remarks=["two\nlines, one\ttab"]))
    assert ">a\\u202eb\\u0000c\\u001b[1md\N{REPLACEMENT CHARACTER}e<" in page
    assert '<li dir="auto">two\nlines, one\ttab</li>' in page
    assert page.encode()


def test_parts_without_content_leave_no_section(report, text):
    bare = Page(render(studies.bare(report)))
    assert not bare.open
    found = {attributes["id"] for attributes in bare.all("h2")}
    assert found == {
        *("contestants", "what-does-each-run-score", "how-certain-is-each-difference", "what-did-it-cost"),
        *("how-was-it-measured", "all-figures"),
    }
    everything = {attributes["id"] for attributes in Page(text).all("h2")}
    assert everything > found | {"labels", "confusions", "leakage", "given", "search", "looks", "examination"}


def test_the_doctor_of_the_model_is_on_the_page(report):
    examined = replace(report.facts.examination, model=ModelFacts("bert", 22_700_000, 6, 384, 30_522, False, True))
    page = render(studies.altered(report, examination=examined))
    assert "head for masked words" in page
    assert "22.7 M" in page


def test_settings_that_differ_stand_out(text):
    same = re.findall(
        r'<tr class="same">\s*<th scope="row" dir="auto"><span class="clip" title="[^"]*">([^<]+)</span>', text
    )
    assert "adapting steps" not in same
    assert {"seeds", "epochs"} <= set(same)


def test_facts_read_naturally(report):
    facts = {
        "steps": 12_000,
        "rate": 5e-5,
        "bf16": False,
        "device": None,
        "labels": ["a", "b"],
        "sizes": {"train": 1_200},
    }
    bare = studies.bare(report, task=facts)
    shown = dict(re.findall(r'<dt dir="auto">(\w+)</dt><dd dir="auto">([^<]*)</dd>', render(bare)))
    expected = {"steps": "12,000", "rate": "5e-05", "bf16": "no", "device": "\N{EN DASH}", "labels": "a, b"}
    assert shown == expected | {"sizes": "train 1,200"}
    assert "Use: none: no contestant of this race is better than a constant answer" in render(bare)
    assert '<li dir="auto">Use: DAPT, in runs/race/use</li>' in render(report)


def test_writing_is_whole_deterministic_and_small(report, text, tmp_path):
    path = write_page(tmp_path / "report.html", race_page(report))
    assert path.read_text() == text
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.stat().st_size < 2_000_000


def test_a_page_too_large_is_refused_and_the_old_one_stays(lean, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("the old one")
    with pytest.raises(ValueError, match="Reduce the points of its curves"):
        write_page(path, race_page(studies.altered(lean, commands=["x" * 2_000_000])))
    assert path.read_text() == "the old one"


def test_leakage_that_changes_the_verdict_is_said_plainly(lean):
    same = render(lean)
    assert "Without the 12 test items that occur in the training data the answer is the same:" in same
    changed = replace(lean.leakage, changed=["only with the leaked items, DAPT is better than the untouched model"])
    text = render(studies.altered(lean, leakage=changed))
    assert "Without the 12 test items that occur in the training data the answer changes:" in text
    assert "the answer is the same" not in text


def test_both_scores_of_each_contestant_stand_side_by_side(report, text):
    table = text[text.index("Scored both ways</h3>") :]
    table = table[table.index("<tbody>") : table.index("</tbody>")]
    others = {row.contestant: row for row in rows(report.leakage.outcome)}
    for row, line in zip(report.rows, table.split("<tr")[1:], strict=True):
        means = [float(value) for value in re.findall(r'data-value="([^"]*)"', line)[::3]]
        assert means == [row.score.mean, others[row.contestant].score.mean]


def test_no_leak_and_nothing_left_are_said_too(lean):
    assert "No scored text, exact or nearly the same" in render(studies.altered(lean, leakage=Leakage([], 400)))
    all_of_them = Leakage(lean.leakage.leaks, 400, 399)
    text = render(studies.altered(lean, leakage=all_of_them))
    assert "399 of the 400 test items also occur in the training data, so too few" in text


def test_alerts_are_on_top_and_remarks_are_folded(report, text):
    assert all(text.index("<h1") < text.index(alert) < text.index("<svg") for alert in report.alerts)
    folded = text.index("What else did the race find?")
    assert all(folded < text.index(remark) < text.index("What does each run score?") for remark in report.remarks)


def test_the_probability_of_improvement_stands_behind_the_comparisons(lean, text):
    assert ">improves</th>" in text
    for row in lean.rows[1:]:
        assert f'data-value="{row.comparison.improvement}">{percent(row.comparison.improvement or 0)}' in text


def test_confusions_have_numbers_and_shares_as_shade_and_a_task_of_numbers_a_plot_of_them(lean):
    table = Confusion("DAPT", ("a", "b"), 0, ((3.0, 1.0), (0.0, 2.5)))
    text = render(studies.altered(lean, confusions=[table]))
    cells = re.findall(r'<td class="number ?([^"]*)" data-value="[^"]*" style="--share: ([\d.]+)">([\d.]+)</td>', text)
    assert cells[:2] == [("right", "0.750", "3"), ("", "0.250", "1")]
    assert cells[3:5] == [("zero", "0.000", "0"), ("right", "1.000", "2.5")]
    text = render(studies.report_of_numbers())
    assert "points of Pearson&#39;s r" in text
    assert text.count("Gold against predicted, ") >= 2
    assert 'id="labels"' not in text


def test_where_the_untouched_model_wins_it_is_not_compared_with_itself(lean, report):
    text = render(studies.altered(lean, labels=report.labels, use="untouched", encoder="untouched"))
    assert "The untouched model, the best encoder on dev, points of F1." in text
    assert ">Difference</th>" not in text
    assert ">Difference</th>" in render(studies.altered(lean, labels=report.labels, use="DAPT", encoder="DAPT"))


def test_a_page_with_thousands_of_long_labels_stays_small_and_says_what_it_left_out(lean):
    names = [f"{i:,} {'x' * 1_000}" for i in range(5_000)]
    examination = replace(
        studies.examination(),
        label_counts={"train": dict.fromkeys(names, 3)},
        files=(FileFacts("train.csv", 9_000, 0, 9_000, tuple((name, 1, "train.csv:1") for name in names)),),
        findings=tuple(Finding("warning", name) for name in names),
    )
    crowded = studies.altered(
        lean,
        task={"labels": names},
        labels=[LabelScore(name, 3, 0.5, 0.6) for name in names],
        confusions=[Confusion("DAPT", tuple(names[:15]), 0, ((1.0,) * 15,) * 15)],
        searches=studies.searched(studies.trials(names[:400])),
        looks=LooksAtTest(1, 1, 1, names),
        examination=examination,
    )
    text = render(crowded)
    assert len(text.encode()) < LARGEST
    assert text.count("The first 300 of 5,000.") == 3  # labels by F1, findings, looks
    assert "and 4,700 more labels" in text
    assert "The first 100 of 5,000." in text
    assert "The first 900 of 2,800." in text


def test_losses_on_general_text_stand_beside_the_scores_and_in_a_plot_of_their_own(report, text):
    assert '<td class="number" data-value="4.36">4.36 (+0.49)</td>' in text
    assert '<td class="number" data-value="3.87">3.87</td>' in text
    for kind in ("domain", "general"):
        assert text.count(f"Loss on held-out {kind} text before and after adapting") == 1
    assert "eneral loss" not in render(
        studies.altered(report, general_losses={}, losses={}, outcome=replace(report.outcome, losses=()))
    )


def searched(trials: Sequence[Trial]) -> SearchRecord:
    return SearchRecord("", "docstrings", tuple(trials))


def test_equal_chances_are_said_to_be_equal_and_who_may_weigh_classes():
    assert search_remark([searched(studies.trials(["untouched", "DAPT"]))], {"TF-IDF": {"settings tried": 4}}) == (
        "4 settings of each contestant were tried, and only dev was used to choose among them."
    )
    given = {"TF-IDF": {"settings tried": 4, "fine-tuning": "the best on dev: C 1, equal classes, words"}}
    said = search_remark([searched(studies.trials(["untouched", "DAPT"]))], given)
    assert said.endswith(" TF-IDF may weigh classes (tfidf.class_weights), encoders never do.")


def test_unequal_chances_are_said_to_be_unequal_and_without_a_search_nothing_is_said():
    extra = Trial("DAPT", "rate 9e-05", 0, 60, 1, 0.7, False)
    given = {"untouched": {"settings tried": 4}, "TF-IDF": {"settings tried": 2}}
    assert search_remark([searched([*studies.trials(["untouched", "DAPT"]), extra])], given) == (
        "The contestants had unequal numbers of settings tried (untouched 4, TF-IDF 2, DAPT 5): those with more "
        "settings had better chances."
    )
    assert search_remark([], {}) == ""
    once = [Trial(name, "from model_flops", 0, 60, 3, 0.7, True) for name in ("untouched", "DAPT")]
    assert search_remark([searched(once)], {}) == ""
    names = ["untouched", "DAPT"]
    more = [Trial(name, "rate 9e-05", 0, 60, 1, 0.7, False) for name in names]
    folds = [searched(studies.trials(names)), searched([*studies.trials(names), *more])]
    given = {"TF-IDF": {"settings tried": "4 to 5"}}
    assert search_remark(folds, given).startswith("4 to 5 settings of each contestant were tried on each fold, ")


@pytest.mark.parametrize(
    ("looks", "begins"),
    [
        (LooksAtTest(30, 5, 34), "These test labels were opened 34 times by 5 earlier races on this machine. The"),
        (LooksAtTest(30, 1, 1), "These test labels were opened once by 1 earlier race on this machine. The"),
        (LooksAtTest(30, 2), "These test labels were opened by 2 earlier races on this machine. The"),
    ],
)
def test_earlier_looks_are_a_warning(looks, begins):
    assert looks.warning().startswith(begins)


def test_first_looks_are_none():
    assert LooksAtTest(30).warning() == ""
    assert LooksAtTest(1).sentence().startswith("This race opened the labels of the test set once. Dev alone chose")
