"""Predictions as files: what a spreadsheet or a reader could misread."""

import csv

from acclimate.core.types import Example
from acclimate.shipping.predict import Prediction
from acclimate.shipping.texts import Text
from acclimate.shipping.writers import written


def test_labels_with_the_separator_and_formulas_are_unambiguous_in_csv(tmp_path):
    for labels, cell in ((("a", "b"), "a|b"), (("a|b", "c"), '["a|b", "c"]')):
        row = Prediction(labels, probabilities=dict.fromkeys(labels, 0.9))
        formulas = {"note": "=cmd|' /C calc'!A0", "other": "+1 (x)", "number": "-1.5", "name": "@someone"}
        text = Text(1, "in.csv:2", Example("1", "a text", ""), formulas)
        written([(text, row)], tmp_path / "out.csv", "multilabel", labels=labels, keep=[*formulas])
        with open(tmp_path / "out.csv", encoding="utf-8", newline="") as file:
            [fields] = csv.DictReader(file)
        assert fields["predicted"] == cell
        assert [fields[name] for name in formulas] == ["'=cmd|' /C calc'!A0", "'+1 (x)", "-1.5", "@someone"]


def test_a_link_as_out_stays_a_link(tmp_path):
    (tmp_path / "target.csv").write_text("before")
    (tmp_path / "out.csv").symlink_to("target.csv")
    written([], tmp_path / "out.csv", "score", labels=())
    assert (tmp_path / "out.csv").is_symlink()
    assert (tmp_path / "target.csv").read_text() == "row,predicted\n"
