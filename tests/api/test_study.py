"""What a printed race shows: the answer first, never more than twelve lines."""

from dataclasses import replace
from pathlib import Path

import studies
from acclimate.api.study import EVIDENCE, Study
from acclimate.races.answer import answer_in_words
from acclimate.races.report import RaceReport


def printed(report: RaceReport) -> list[str]:
    return str(Study(Path("runs/race"), "", report)).splitlines()


def test_a_printed_race_has_at_most_twelve_lines_whatever_there_is_to_say(report):
    for number in (0, 1, EVIDENCE, EVIDENCE + 1, 40):
        evidence = tuple(f"Fact {place}\nof a name with two lines." for place in range(number))
        lines = printed(replace(report, answer=replace(report.answer, evidence=evidence), alerts=["One.", "Two."]))
        assert len(lines) <= 12
        assert lines[0] == report.answer.headline
        assert [line.split(":")[0] for line in lines[-5:]] == [
            *("Use", report.answer.limits.split(":")[0], "Next", "Warnings", "Report")
        ]
        assert sum(line.startswith("Fact ") for line in lines) == min(number, EVIDENCE)
        assert "\n".join(lines).count("of a name with two lines.") == number, "nothing is lost"


def test_failures_are_in_one_line(report):
    failed = [studies.result(f"method {place}", failed="its corpus\nis empty") for place in range(12)]
    outcome = replace(report.outcome, results=(*report.outcome.results, *failed))
    lines = printed(replace(report, outcome=outcome, answer=answer_in_words(outcome)))
    assert len(lines) <= 12
    assert sum("failed and have no score" in line for line in lines) == 1


def test_a_notebook_shows_the_answer_once_then_plot_and_table(report):
    view = Study(Path("runs/<race>"), "", report)._repr_html_()
    order = [view.index(part) for part in (report.answer.headline, "Use: ", "Next: ", "<svg", "<table", "<details>")]
    assert order == sorted(order)
    assert view.count(report.answer.headline) == view.count("Use: ") == view.count("<table") == 1
    assert view.count("Scores on test") == 1
    assert "runs/&lt;race&gt;/report.html" in view
