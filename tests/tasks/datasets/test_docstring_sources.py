from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from acclimate.tasks.datasets.docstring_sources import STANDARD_LIBRARY, docstrings, version

SOURCE = '''
"""The module."""
import does_not_exist

class Outer:
    """A class,
        indented."""

    async def method(self):
        r"""A method with \\d."""
        def inner():
            """Nested."""

try:
    pass
except ImportError:
    def fallback(): """In a handler."""
else:
    def chosen(): 'In another branch.'

def silent():
    return "no docstring"

add_newdoc("compiled", """By call.""")
add_newdoc("array", "ndarray", [("T", "transpose"), ("flat", "one " + "row {}".format(1))])
norm = _add_docstr(_linalg.norm, "A norm.")
other("not", "this")
'''


def test_docstrings_of_all_kinds_are_found_without_importing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_package_of_ours"
    (package / "tests").mkdir(parents=True)
    (package / "deep").mkdir()
    (package / "__init__.py").write_text(SOURCE)
    (package / "deep" / "part.py").write_text('"""Bad escape: \\d."""')
    (package / "broken.py").write_text('"""For another Python."""\nprint "2"')
    (package / "tests" / "test_it.py").write_text('"""A test."""')
    monkeypatch.syspath_prepend(tmp_path)
    found = {each.name.removeprefix("some_package_of_ours"): each.text for each in docstrings("some_package_of_ours")}
    assert found == {
        "": "The module.",
        ".Outer": "A class,\nindented.",
        ".Outer.method": "A method with \\d.",
        ".Outer.method.inner": "Nested.",
        ".fallback": "In a handler.",
        ".chosen": "In another branch.",
        ".compiled": "By call.",
        ".array.ndarray": "transpose",
        ".array.ndarray.1": "one row {}",
        "._linalg.norm": "A norm.",
        ".deep.part": "Bad escape: \\d.",
    }
    without = docstrings("some_package_of_ours", without=("some_package_of_ours.deep",))
    assert {each.module for each in without} == {"some_package_of_ours"}


def test_reading_a_package_does_not_import_it() -> None:
    code = (
        "import sys; from acclimate.tasks.datasets.docstring_sources import docstrings, version; "
        "next(docstrings('torch')); version('torch'); assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_standard_library_holds_no_installed_packages() -> None:
    tops = {each.module.split(".")[0] for each in docstrings(STANDARD_LIBRARY)}
    assert {"json", "argparse"} < tops <= sys.stdlib_module_names


def test_a_package_that_is_not_installed() -> None:
    assert version("no_such_package_at_all") is None
    with pytest.raises(ValueError, match="'no_such_package_at_all' is not installed; `pip install"):
        next(docstrings("no_such_package_at_all"))
