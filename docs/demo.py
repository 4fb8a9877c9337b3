"""Put what `make demo` made into the README: its tables, and a picture of its page.

python docs/demo.py [RUNS]    (RUNS: the folder in which `make demo` wrote; runs)

Keeps table.txt and table.csv of each race and the identity of their encoder in docs/demo, writes the part of the README
between its two marks again, and takes docs/report.png of the page with chromium. tests/test_demo.py compares the README
with docs/demo, and the identity with that of the encoder that the package has.
"""

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
README, KEPT, PICTURE = ROOT / "README.md", ROOT / "docs" / "demo", ROOT / "docs" / "report.png"
RACES = {"sections": "demo-sections", "docstrings": "demo"}  # task -> folder of its race in RUNS
TABLES = ("table.txt", "table.csv")
ENCODER = "encoder.txt"  # its identity (acclimate.models.loading.identity), by which the races name the model
BEGIN, END = "<!-- what make demo printed; docs/demo.py writes it -->", "<!-- end of the demo -->"
SCORES = "Scores on test"
WIDTH, HEIGHT, MOST_BYTES = 1000, 1250, 150_000  # of the picture


def keep(runs: Path, kept: Path = KEPT) -> None:
    """Copy the tables of each race to `kept`, and note the encoder of both. Raises ValueError if there are two."""
    locks = [json.loads((runs / folder / "study.lock.json").read_text("utf-8")) for folder in RACES.values()]
    models = {identity for lock in locks for identity in lock["data"]["model"]}
    if len(models) != 1:
        raise ValueError(f"the races in {runs} began with several encoders: {', '.join(sorted(models))}")
    kept.mkdir(parents=True, exist_ok=True)
    (kept / ENCODER).write_text("".join(models) + "\n", "utf-8")
    for task, folder in RACES.items():
        for name in TABLES:
            shutil.copyfile(runs / folder / name, kept / f"{task}{Path(name).suffix}")


def part(kept: Path = KEPT) -> str:
    """Return the part of the README between its marks: of each race its verdict and its table of scores."""
    races = [excerpt((kept / f"{task}.txt").read_text("utf-8")) for task in RACES]
    return "```text\n" + "\n\n".join(races) + "\n```\n"


def excerpt(table: str) -> str:
    """Return title, verdict and scores of a race's table.txt."""
    lines = table.splitlines()
    title, _, first, *others = lines
    verdict = [first]
    for line in others:
        if not line.startswith("    "):  # a paragraph's later lines are indented further than its first
            break
        verdict.append(line)
    begin = lines.index(SCORES) + 1
    end = next(number for number in range(begin, len(lines)) if lines[number].startswith("  Points on test"))
    return "\n".join([title, *verdict, "", *lines[begin:end]])


def scores(kept: Path = KEPT) -> Mapping[str, list[tuple[str, str]]]:
    """Return task -> (contestant, mean and interval in points as tables show them) of each row of the race's CSV."""
    found: dict[str, list[tuple[str, str]]] = {}
    for task in RACES:
        with open(kept / f"{task}.csv", encoding="utf-8", newline="") as file:
            found[task] = [
                (
                    row["contestant"],
                    "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * float(row[n]) for n in ("mean", "low", "high"))),
                )
                for row in csv.DictReader(file)
                if row["mean"] and row["probe"] == "False"
            ]
    return found


def rewritten(readme: str, kept: Path = KEPT) -> str:
    """Return the README with the part between its marks made again. Raises ValueError without the marks."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"the README needs the marks '{BEGIN}' and '{END}', each once")
    return f"{readme.partition(BEGIN)[0]}{BEGIN}\n\n{part(kept)}\n{END}{readme.partition(END)[2]}"


def take_picture(page: Path, picture: Path = PICTURE) -> None:
    """Write a picture of the upper part of the page, of at most MOST_BYTES. Raises ValueError if chromium took none."""
    with TemporaryDirectory() as place:
        taken = Path(place) / "page.png"
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={WIDTH},{HEIGHT}",
        ]
        command = ["chromium", *options, f"--screenshot={taken}", page.resolve().as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        if not taken.exists():
            raise ValueError(f"chromium took no picture of {page}")
        image = Image.open(taken).convert("RGB")
        for colours in (128, 64, 32, 16):
            image.quantize(colours).save(picture, optimize=True)
            if picture.stat().st_size <= MOST_BYTES:
                return
    raise ValueError(f"{picture} has {picture.stat().st_size:,} bytes with 16 colours: make the picture smaller")


def main() -> None:
    runs = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs"
    keep(runs)
    README.write_text(rewritten(README.read_text("utf-8")), "utf-8")
    take_picture(runs / RACES["sections"] / "report.html")
    print(part())


if __name__ == "__main__":
    main()
