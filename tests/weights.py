"""Whether the weights of the embedded encoder are in this tree. Tests that need them skip for one reason."""

import pytest

from acclimate.models.loading import FOLDER

PRESENT = (FOLDER / "model.safetensors").is_file()
needed = pytest.mark.skipif(not PRESENT, reason="weights not in this tree")
