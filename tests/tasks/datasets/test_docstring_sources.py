from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from acclimate.tasks.datasets import docstring_sources
from acclimate.tasks.datasets.docstring_sources import (
    STANDARD_LIBRARY,
    masker,
    plain_docstring,
    read_docstrings,
    version,
)

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
    found = {
        each.name.removeprefix("some_package_of_ours"): each.text for each in read_docstrings("some_package_of_ours")
    }
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
    without = read_docstrings("some_package_of_ours", without=("some_package_of_ours.deep",))
    assert {each.module for each in without} == {"some_package_of_ours"}


def test_reading_a_package_does_not_import_it() -> None:
    code = (
        "import sys; from acclimate.tasks.datasets.docstring_sources import read_docstrings, version; "
        "next(read_docstrings('torch')); version('torch'); print({'torch', 'transformers'} & {*sys.modules})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_the_standard_library_holds_no_installed_packages() -> None:
    tops = {module.split(".")[0] for module, _ in docstring_sources._files(STANDARD_LIBRARY)}
    assert {"json", "argparse"} < tops <= sys.stdlib_module_names


def test_a_package_that_is_not_installed() -> None:
    assert version("no_such_package_at_all") is None
    with pytest.raises(ValueError, match="'no_such_package_at_all' is not installed; `pip install"):
        next(read_docstrings("no_such_package_at_all"))


mask = masker({"scipy", "numpy", "np", "linalg"}, {"stats", "sparse", "signal", "optimize", "_distn_infrastructure"})


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("See `scipy.stats.norm` and scipy.sparse.linalg.", "See `package` and package."),
        ("It calls ``np.linalg.norm(x)``", "It calls ``package(x)``"),
        ("Uses `~scipy.signal.windows`", "Uses `package`"),
        ("as norm.pdf does, or OptimizeResult.x", "as package does, or package"),
        (":mod:`scipy.stats`, :func:`kstest`, :py:meth:`a.b`", "package, package, package"),
        ("of the file _optimize.py", "of the file package"),
        ("In SciPy and NumPy", "In package and package"),
        ("the optimize module and the sparse\n  package", "the package module and the package\n  package"),
        ("`signal`, ``stats`` or _distn_infrastructure", "`package`, ``package`` or package"),
        ("First::\n\n    from scipy import stats\n    import numpy as np\n    stats.t(1)", "First::\n\n    package(1)"),
        ("at https://docs.scipy.org/scipy.stats.html, :doi:`10.1/2`", "at link, link"),
    ],
)
def test_names_of_packages_are_masked(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "The signal is filtered, and a sparse matrix is used to optimize it.",
        "e.g. the transpose A.T, i.e. by J.A. Nelder in 1.5 s.",
        "where :math:`x` is small and `x_sparse` large",
        "We import the data from the file and package them.",
        "the parameters `a` and ``signal_length``",
    ],
)
def test_language_stays(text: str) -> None:
    assert mask(text) == text


def test_plain_drops_doctests_directives_and_placeholders() -> None:
    text = """\
Summary line.

.. currentmodule:: scipy.stats

%(before_notes)s

Parameters
----------
x : float
    The argument, :math:`x`.

.. plot::
   :include-source:

.. math::

    y = x^2

Examples
--------
>>> from scipy import stats
>>> stats.norm(1)
1.0

>>> for a in b:
...     print(a)
3
"""
    assert plain_docstring(text) == (
        "Summary line.\n\nParameters\nx : float\n    The argument, :math:`x`.\n\n.. math::\n\n    y = x^2"
    )
    assert plain_docstring("Examples\n--------\nIn words:\n\n>>> f(1)\n1\n\nNotes\n-----\nNone.") == (
        "Examples\nIn words:\n\nNotes\nNone."
    )
