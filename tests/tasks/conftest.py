from __future__ import annotations

import pytest

from acclimate.tasks.datasets.docstrings import Docstrings, build_docstrings


@pytest.fixture(scope="session")
def docstrings(tmp_path_factory: pytest.TempPathFactory) -> Docstrings:
    """The embedded default, built once."""
    return build_docstrings(tmp_path_factory.mktemp("cache"))
