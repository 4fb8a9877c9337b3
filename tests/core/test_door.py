"""How messages write options."""

from __future__ import annotations

from acclimate.core.door import option, python_call


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
