"""A command that answers at once loads nothing heavy: torch alone takes a second."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "tokenizers", "scipy", "sklearn", "pyarrow", "pandas", "matplotlib", "ray", "optuna"}


@pytest.mark.parametrize("arguments", [["-c", "import acclimate"], ["-m", "acclimate", "--help"]])
def test_start_loads_nothing_heavy(arguments):
    done = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    # every import is a line `import time: own | cumulative | name` on standard error
    names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "acclimate" in names
    assert not names & HEAVY


def test_help_names_the_program_and_its_first_verb():
    done = subprocess.run([sys.executable, "-m", "acclimate", "--help"], capture_output=True, text=True, check=True)
    assert "acclimate" in done.stdout
    assert "race" in done.stdout
