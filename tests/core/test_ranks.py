"""Alone, everything about several processes is trivial; several are tested in tests/training/test_loop_ranks.py."""

from acclimate.core import ranks


def test_one_process_is_the_first_of_one_and_agrees_with_itself(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    ranks.start()
    assert (ranks.world(), ranks.rank(), ranks.is_first()) == (1, 0, True)
    value = {"a": [1]}
    assert ranks.agree(value) is value
    assert ranks.total([1.5, 2.0]) == [1.5, 2.0]
    made = []
    assert ranks.first_then_all(lambda: made.append(1) or len(made)) == 1
    ranks.stop()
