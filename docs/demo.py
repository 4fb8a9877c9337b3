"""Put what `make demo` made into the README: its table, and a picture of its page.

python docs/demo.py [RUN]    (RUN: the folder in which `make demo` wrote; runs/demo)

Keeps table.txt and table.csv of the race and the identity of its encoder in docs/demo, writes the part of the README
between its two marks again, and takes docs/report.png of the page with chromium. tests/test_demo.py compares the README
with docs/demo, and the identity with that of the encoder that the package has.
"""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
README, KEPT, PICTURE = ROOT / "README.md", ROOT / "docs" / "demo", ROOT / "docs" / "report.png"
TABLES = ("table.txt", "table.csv")
ENCODER = "encoder.txt"  # its identity (acclimate.models.loading.identity), by which the race names the model
BEGIN, END = "<!-- what make demo printed; docs/demo.py writes it -->", "<!-- end of the demo -->"
SCORES = "Scores on test"
WIDTH, HEIGHT, MOST_BYTES = 1000, 1250, 150_000  # of the picture


def keep(run: Path, folder: Path = KEPT) -> None:
    """Copy the tables of the race to `folder`, and note its encoder."""
    lock = json.loads((run / "study.lock.json").read_text("utf-8"))
    [encoder] = lock["data"]["model"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ENCODER).write_text(f"{encoder}\n", "utf-8")
    for name in TABLES:
        shutil.copyfile(run / name, folder / name)


def part(folder: Path = KEPT) -> str:
    """Return the part of the README between its marks: answer and scores of the race."""
    return f"```text\n{excerpt((folder / 'table.txt').read_text('utf-8'))}\n```\n"


def excerpt(table: str) -> str:
    """Return title, answer and scores of a race's table.txt."""
    lines = table.splitlines()
    title, _, *others = lines
    answer = others[: next(number for number, line in enumerate(others) if line.startswith("  Next: ")) + 1]
    begin = lines.index(SCORES) + 1
    end = next(number for number in range(begin, len(lines)) if lines[number].startswith("  Points on test"))
    return "\n".join([title, *answer, "", *lines[begin:end]])


def scores(folder: Path = KEPT) -> list[tuple[str, str]]:
    """Return contestant, and mean and interval in points as the table shows them, of each row of the race's CSV."""
    with open(folder / "table.csv", encoding="utf-8", newline="") as file:
        return [
            (
                row["contestant"],
                "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * float(row[name]) for name in ("mean", "low", "high"))),
            )
            for row in csv.DictReader(file)
            if row["mean"] and row["probe"] == "False"
        ]


def rewritten(readme: str, folder: Path = KEPT) -> str:
    """Return the README with the part between its marks made again. Raises ValueError without the marks."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"the README needs the marks '{BEGIN}' and '{END}', each once")
    return f"{readme.partition(BEGIN)[0]}{BEGIN}\n\n{part(folder)}\n{END}{readme.partition(END)[2]}"


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
    run = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runs" / "demo"
    keep(run)
    README.write_text(rewritten(README.read_text("utf-8")), "utf-8")
    take_picture(run / "report.html")
    print(part())


if __name__ == "__main__":
    main()
