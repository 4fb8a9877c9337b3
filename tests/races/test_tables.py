"""What a study came to, written: text, CSV, JSON and page say the same, and tell what failed."""

import csv
import re
from dataclasses import replace
from statistics import stdev

from acclimate.core import files
from acclimate.core.figures import points
from acclimate.races.compare import MAIN, Compared, Contrast
from acclimate.races.outcome import HeldOutColumn, Outcome, path_of, read_outcome, write_outcome
from acclimate.races.race import against_untouched
from acclimate.races.tables import _one_task_table, as_csv, cautions, page_of, sections, verdict, write
from acclimate.reports.page import WIDTH
from acclimate.reports.table import GeneralLoss
from acclimate.statistics.significance import Comparison, Interval
from acclimate.studies import write_again
from acclimate.studies.stilt import matrix
from studies import outcome_of_pairs, result


def lines_of(outcome) -> dict[tuple[str, str], dict[str, str]]:
    return {(line["first"], line["target"]): line for line in csv.DictReader(as_csv(outcome).splitlines())}


def plain(text: str) -> str:
    return re.sub(r"(\s|</?(h1|p)\b[^>]*>)+", " ", text)


def test_text_csv_json_and_page_say_the_same(tmp_path):
    outcome = outcome_of_pairs()
    write_outcome(outcome, tmp_path)
    text = write(read_outcome(path_of(tmp_path, "stilt")), tmp_path, matrix)
    assert text == (tmp_path / "stilt.txt").read_text()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert (tmp_path / "stilt.csv").read_text() == as_csv(outcome)
    lines = lines_of(outcome)
    assert len(lines) == 3 * 8
    for contrast in outcome.compared.contrasts:
        _, first, target = contrast.against.key
        if contrast.against.name == "the target alone":
            line = lines[first, target]
            assert float(line["against_the_target_alone_difference"]) == contrast.comparison.difference
            assert float(line["against_the_target_alone_p_adjusted"]) == contrast.p_adjusted
            assert line["against_the_target_alone_reference"] == "baseline"
            assert points(contrast.comparison.difference, sign="+") + "*" * contrast.established in text
    for (first, target), line in lines.items():
        assert float(line["mean"]) == outcome.interval(("", first, target)).mean
    results = files.read_json(tmp_path / "stilt.outcome.json")["results"]
    assert [len(each["scores"]) for each in results] == [5] * 3 * 8
    scores = [float(score) for score in lines["baseline", "Genes"]["scores"].split()]
    assert [score["test"] for score in results[0]["scores"]] == scores
    assert verdict(outcome) in plain((tmp_path / "stilt.html").read_text())


def test_a_model_without_scores_has_a_row_of_its_loss():
    outcome = outcome_of_pairs()
    first, losses = outcome.results[0], {result.row: GeneralLoss() for result in outcome.results}
    losses |= {first.row: GeneralLoss(2.0, -1.0), "untouched model": GeneralLoss(3.0)}
    outcome = replace(outcome, losses=(HeldOutColumn("general loss", "nats.", losses),))
    [table] = [section for section in sections(outcome) if section.title == "Losses on held-out text"]
    assert [row[0] for row in table.rows] == [first.row, "untouched model"]
    of_task = [result for result in outcome.results if result.column == first.column]
    heads, body, looks, _ = _one_task_table(outcome, of_task)
    assert [row[0] for row in body] == [*(result.row for result in of_task), "untouched model"]
    assert len(body[-1]) == len(body[0]) == 1 + len(heads)
    assert len(looks) == len(body)


def test_the_outcome_says_of_which_study_it_is(tmp_path):
    """Its study, and not the name of its file, says how its page is drawn."""
    outcome = replace(outcome_of_pairs(), name="all-pairs", study="stilt")
    text = write(outcome, tmp_path, matrix)
    assert text != write(outcome, tmp_path)
    write_outcome(outcome, tmp_path)
    assert write_again(tmp_path) == text


def test_the_family_of_holms_correction_is_stated_and_what_is_established_told():
    told = plain(page_of(outcome_of_pairs(), matrix).as_text())
    family = "all cells of small model, controls too, each with the target alone (12)"
    assert f"Holm's correction counts together: {family}." in told
    assert "Holm's correction counts together: the groups of pairs (3)." in told
    assert (
        "2 of 6 pairs score higher than the target alone: Drugs → Genes and Cells → Genes; 2 of 6 pairs score lower "
        "than the target alone: Genes → Cells and Drugs → Cells. The rest may be chance."
    ) in told
    assert "of 2 established gains remain in comparison with as many steps on the target alone." in told
    assert "Against the target alone, established: 2 of 12 better: Genes: Drugs and Genes: Cells; 2 of 12 worse" in told


def test_a_failed_cell_stands_as_failed_with_its_reason():
    outcome = outcome_of_pairs(failed="Drugs")
    told = plain(page_of(outcome).as_text())
    assert "Genes: Drugs failed: seed 0: its loss is not a number." in told
    assert (
        "Not compared, because one of the two failed, or failed to learn: Genes: Drugs, Drugs: Drugs and Cells: Drugs."
        in told
    )
    assert lines_of(outcome)["Drugs", "Genes"]["failed"] == "seed 0: its loss is not a number"
    assert lines_of(outcome)["Drugs", "Genes"]["mean"] == ""
    assert outcome.failed.keys() == {("", "Drugs", target) for target in ("Genes", "Drugs", "Cells")}


def test_the_page_stands_alone_and_every_cell_of_the_matrix_leads_to_its_row():
    nasty = ("<script>alert(1)</script>", "Drugs & co", "a\N{RIGHT-TO-LEFT OVERRIDE}b")
    html = page_of(outcome_of_pairs(names=nasty), matrix).as_html()
    assert nasty[0] not in html
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in html
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", html)
    led = re.findall(r'href="#(cell-[\w-]+)"', html)
    assert len(led) == 12
    assert set(led) <= set(re.findall(r'<tr id="([\w-]+)"', html))
    assert "there is no folder hoc" in html


def test_cautions_are_told_once_with_the_figures_that_they_are_about():
    items, seeds = "Few items decide the result.", "2 seeds are too few."
    cells = tuple(result(name) for name in ("untouched", "DAPT", "TAPT"))

    def said(scores: list[str], differences: list[str]) -> list[str]:
        found = {
            (each.key, MAIN): Interval(0.5, 0.4, 0.6, caution=caution)
            for each, caution in zip(cells, scores, strict=True)
        }
        asked = against_untouched(["DAPT", "TAPT"], "Genes")
        made = [Comparison("", "", 0.5, 0.5, 0.0, 0.0, 1.0, None, "", caution=caution) for caution in differences]
        contrasts = [Contrast(one, cells[0].key, MAIN, found, 1.0) for one, found in zip(asked, made, strict=True)]
        outcome = Outcome("race", "Race", "", cells)
        vars(outcome)["compared"] = Compared({}, found, tuple(contrasts))
        return cautions(outcome)

    assert said(["", "", ""], ["", ""]) == []
    assert said([items, "", ""], ["", ""]) == ["The score of untouched: few items decide the result."]
    assert said([items, "", ""], [items, ""]) == [
        "The score of untouched and the difference of DAPT: few items decide the result."
    ]
    both = f"{items}\n{seeds}"
    assert said([both] * 3, [both] * 2) == [items, seeds]
    assert said([both] * 3, [both, seeds])[1] == seeds


def test_several_tasks_have_means_with_deviations_as_papers_print_them():
    outcome = outcome_of_pairs()
    tables = [section for section in sections(outcome) if section.title.startswith("Means and deviations")]
    shown = [each for each in outcome.results if each.shown]
    cells = {
        (row, line[0]): str(cell)
        for table in tables
        for line in table.rows
        for row, cell in zip(table.columns[1:], line[1:], strict=True)
    }
    assert len(cells) == len(shown)
    for each in shown:
        scores = [score.test for score in each.scores]
        text = f"{points(outcome.interval(each.key).mean)} ± {points(stdev(scores))}"
        assert [cell for (row, column), cell in cells.items() if (row, column.partition(" (")[0]) == each.key[1:]] == [
            text
        ]


def test_what_stands_only_as_a_reference_is_in_no_table_and_a_run_that_learnt_nothing_is_marked():
    outcome = outcome_of_pairs()
    assert "as many steps as with Genes" in as_csv(outcome)
    [seeds] = [section for section in sections(outcome) if section.title == "Each seed"]
    assert not any("as many" in str(row[0]) for row in seeds.rows)
    first, *others = outcome.results
    runs = (replace(first.scores[0], learnt=False), *first.scores[1:])
    marked = replace(outcome, results=(replace(first, scores=runs), *others))
    [seeds] = [section for section in sections(marked) if section.title == "Each seed"]
    assert [str(row[1]).count("*") for row in seeds.rows] == [1] + [0] * (len(seeds.rows) - 1)
    assert seeds.lines[-1] == "* This run failed to learn: it is no better on dev than a constant answer or guesses."


def test_facts_that_a_task_shares_stand_with_the_task():
    titles = {section.title: section for section in sections(outcome_of_pairs())}
    assert "target type" in titles["Data"].columns
    assert titles["Facts"].columns == ("", "leaks")
