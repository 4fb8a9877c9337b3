from __future__ import annotations

import pytest

from acclimate.tasks.datasets.docstring_sources import masker, plain

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
    assert plain(text) == (
        "Summary line.\n\nParameters\nx : float\n    The argument, :math:`x`.\n\n.. math::\n\n    y = x^2"
    )
    assert plain("Examples\n--------\nIn words:\n\n>>> f(1)\n1\n\nNotes\n-----\nNone.") == (
        "Examples\nIn words:\n\nNotes\nNone."
    )
