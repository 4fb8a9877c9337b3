"""What is asked of a model before any is loaded loads no PyTorch."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = """
from acclimate.models.loading import identity, locate, require_safetensors, resolved
assert resolved("owner/name") == locate("owner/name") == identity("owner/name") == "owner/name"
require_safetensors("owner/name")
"""


@pytest.mark.parametrize("code", [ASKED, "import acclimate.study.gathering"])
def test_naming_a_model_and_gathering_a_users_files_load_no_torch(code):
    code += "\nimport sys; print(*sorted({'torch', 'transformers', 'safetensors'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr[-2000:]
