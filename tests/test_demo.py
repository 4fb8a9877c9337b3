"""The README's tables are those of the run of `make demo` that docs/demo keeps."""

import importlib.util
import json
import re
import shutil
from pathlib import Path

import pytest

from acclimate.models.loading import EMBEDDED, identity

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("demo", ROOT / "docs" / "demo.py")
demo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(demo)

TABLE = """Race on a task

  Adapting helped: TAPT is better than the
    untouched model.
  Next: acclimate predict
  Warning: something else.

Scores on test
             macro-F1            sd
  untouched  40.7 [36.6, 44.9]  1.8
  TAPT       43.7 [40.1, 47.0]  2.0
  Points on test, means over 3 seeds.
"""
SHEET = "contestant,mean,low,high,probe\nuntouched,.407,.366,.449,False\nTAPT,.4371,.4009,.47,False\nTLM,,,,False\n"


@pytest.fixture
def kept(tmp_path):
    """What docs/demo.py keeps of a finished race."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "table.txt").write_text(TABLE)
    (run / "table.csv").write_text(SHEET)
    (run / "study.lock.json").write_text(json.dumps({"data": {"model": ["5c39"]}}))
    demo.keep(run, tmp_path / "kept")
    return tmp_path / "kept"


def differences(readme: str, kept: Path) -> list[str]:
    """What the README says otherwise than the run."""
    wrong = [] if demo.rewritten(readme, kept) == readme else ["the part between the marks"]
    for contestant, points in demo.scores(kept):
        if not re.search(rf"^  {re.escape(contestant)} +{re.escape(points)}", demo.part(kept), re.M):
            wrong.append(f"{contestant} {points}")
    return wrong


def test_the_readme_gets_answer_and_scores_of_the_race(kept):
    readme = demo.rewritten(f"above\n{demo.BEGIN}\nold\n{demo.END}\nbelow\n", kept)
    assert "Adapting helped: TAPT is better than the\n    untouched model.\n  Next: acclimate predict\n\n" in readme
    assert "old" not in readme
    assert "Warning" not in readme
    assert "Points on test" not in readme
    assert readme.startswith("above\n")
    assert readme.endswith("\nbelow\n")
    assert differences(readme, kept) == []
    assert (kept / demo.ENCODER).read_text() == "5c39\n"
    changed = readme.replace("43.7 [40.1", "44.7 [40.1", 1)
    assert differences(changed, kept) == ["the part between the marks"]
    (kept / "table.csv").write_text(SHEET.replace(".4371", ".5371"))
    assert differences(readme, kept) == ["TAPT 53.7 [40.1, 47.0]"]


def test_the_readme_says_what_the_demo_printed_of_the_encoder_that_the_package_has():
    assert differences(demo.README.read_text("utf-8"), demo.KEPT) == []
    assert (demo.KEPT / demo.ENCODER).read_text("utf-8").strip() == identity(EMBEDDED), "run `make demo` again"


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_the_picture_is_small(tmp_path):
    (tmp_path / "page.html").write_text("<h1>Race on a task</h1>")
    demo.take_picture(tmp_path / "page.html", tmp_path / "page.png")
    assert 0 < (tmp_path / "page.png").stat().st_size <= demo.MOST_BYTES
    assert demo.PICTURE.stat().st_size <= demo.MOST_BYTES
