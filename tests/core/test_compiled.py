"""numba's cache holds pickles, so it is read only where others cannot write it."""

import numba
import pytest

from acclimate.core import compiled


@pytest.mark.parametrize(("mode", "above"), [(0o755, 0o755), (0o777, 0o755), (0o755, 0o777)])
def test_a_cache_that_others_can_write_is_not_read(mode, above, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()

    def compile_one():
        return compiled.compiled(lambda number: number + 1)

    place = compiled.Path(compile_one().stats.cache_path)
    place.chmod(mode)
    place.parent.chmod(above)
    again, used = compile_one(), mode == above
    assert (again.stats.cache_path is not None) == used
    assert ("others can write to this folder" in caplog.text) == (not used)
