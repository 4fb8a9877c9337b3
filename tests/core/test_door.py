"""How messages write options."""

import re
from collections.abc import Callable

import pytest

from acclimate.core.door import option, python_call
from acclimate.core.types import Example
from acclimate.data.checkpoints import check_lengths, check_names
from acclimate.data.doctor import findings_on_dev
from acclimate.jobs.where import Where
from acclimate.models.loading import FOLDER as EMBEDDED
from acclimate.reading.labels import one_spelling
from acclimate.shipping.writers import check_out


def test_an_option_is_written_as_the_door_has_it():
    assert (option("max_tokens"), option("max_tokens", "64"), option("kind", "span")) == (
        "--max-tokens",
        "--max-tokens 64",
        "--kind span",
    )
    with python_call():
        with python_call():
            pass
        assert (option("max_tokens"), option("max_tokens", "64"), option("kind", "span")) == (
            "max_tokens",
            "max_tokens=64",
            'kind="span"',
        )
    assert option("rows") == "--rows"


def test_messages_of_several_modules_are_worded_for_the_door(tmp_path):
    def messages() -> list[str]:
        refusals: list[Callable[[], object]] = [
            Where(workers=2, cluster="auto").check,
            lambda: check_names({"?": "models/ours"}),
            lambda: check_lengths({"ours": str(EMBEDDED)}, 100_000),
            lambda: one_spelling([[("a.csv:2", "Yes"), ("a.csv:3", "yes")]], fold=False),
            lambda: check_out(tmp_path / "a.csv", "b.csv", keep=["id"]),
        ]
        texts = []
        for refusal in refusals:
            with pytest.raises(ValueError, match=r"[a-z]") as raised:
                refusal()
            texts.append(str(raised.value))
        findings = findings_on_dev([Example("1", "a text", "yes")], "sequence")
        return [*texts, *(finding.way_out for finding in findings)]

    line = messages()
    with python_call():
        python = messages()
    assert line[0] == "--workers starts processes on this machine, --cluster on a cluster. Remove one of them"
    assert python[0] == "workers starts processes on this machine, cluster on a cluster. Remove one of them"
    assert line[1].endswith("Rename it, such as --checkpoint ours=models/ours")
    assert python[1].endswith("Rename it, such as checkpoints={'ours': 'models/ours'}")
    assert re.search(r"Set --max-tokens \d+$", line[2])
    assert re.search(r"Set max_tokens=\d+$", python[2])
    assert line[3].endswith("unify them with --fold-labels, or correct the file")
    assert python[3].endswith("unify them with fold_labels=True, or correct the file")
    assert line[4].startswith("--keep id: use --id id instead")
    assert python[4].startswith('keep="id": use id="id" instead')
    assert "remove --dev to split dev off train. With few rows, use race --folds 5 without --budget" in line[5]
    assert "remove dev to split dev off train. With few rows, use race folds=5 without budget" in python[5]
    assert not [text for text in python if "--" in text]
