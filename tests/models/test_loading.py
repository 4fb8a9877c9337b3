"""What is asked of a model before any is loaded loads no PyTorch."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from huggingface_hub import errors

from acclimate.models.loading import reading

ASKED = """
from acclimate.models.loading import identity, locate, require_safetensors, resolved
assert resolved("owner/name") == locate("owner/name") == identity("owner/name") == "owner/name"
require_safetensors("owner/name")
"""


@pytest.mark.parametrize("code", [ASKED, "import acclimate.data.inputs"])
def test_naming_a_model_and_gathering_a_users_files_load_no_torch(code):
    code += "\nimport sys; print(*sorted({'torch', 'transformers', 'safetensors'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr[-2000:]


def _refused(kind: type[errors.HTTPError]) -> Exception:
    """As the hub's library raises it, with an answer of the server of which only the status is read."""
    error = kind.__new__(kind)
    error.response = SimpleNamespace(status_code=503)
    Exception.__init__(error, "said by the hub")
    return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.RepositoryNotFoundError, "no such model on the hub that you may see. Check the name"),
        (errors.GatedRepoError, "shares it with those who accept the terms"),
        (errors.RemoteEntryNotFoundError, "holds no config.json"),
        (errors.HfHubHTTPError, "the hub answered 503. Try again, or give the path"),
        (errors.HTTPError, "the hub cannot be reached .said by the hub.. Try again, or give the path"),
        (errors.OfflineModeIsEnabled, "HF_HUB_OFFLINE is set. Unset it, or give the path"),
    ],
)
def test_what_the_hub_does_not_give_is_one_error_after_one_question(
    error: type[Exception], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def ask(url: str, **settings: object) -> None:
        asked.append(url)
        raise _refused(error) if issubclass(error, errors.HTTPError) else error("said by the hub")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", ask)
    with pytest.raises(ValueError, match=said), reading("nobody/nothing-of-the-kind"):
        pass
    assert len(asked) == 1
    assert "nobody/nothing-of-the-kind" in asked[0]
