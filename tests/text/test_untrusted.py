"""What makes a text useless, and what a message may show of it."""

import pytest

from acclimate.text.untrusted import unsound

BIDI = [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]


@pytest.mark.parametrize("code", [0x07, 0x1B, 0x7F])
def test_control_characters_make_a_text_useless_and_are_spelt_out(code):
    reason = unsound(f"before {chr(code)}2J after")
    assert "control character" in reason
    assert f"\\x{code:02x}" in reason
    assert reason.isprintable()


def test_what_a_wrong_encoding_left_behind_line_ends_and_marks_of_direction_cost_no_row():
    assert all(unsound(f"he said \xe2{chr(code)}yes") is None for code in range(0x80, 0xA0))
    assert unsound("one\x85two\ttabs\x0b\x0c\r\n") is None
    assert all(unsound(f"mark {chr(code)} here") is None for code in BIDI)
