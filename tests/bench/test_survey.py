"""The architectures of `./dev bench peers --survey`."""

from __future__ import annotations

import subprocess
import sys

from bench.models import cases, collection, survey


def test_every_network_has_inputs():
    from bench.models.architectures import NETWORKS, SCRIPTED
    from bench.models.surveyed import PUBLISHED

    assert set(NETWORKS) == set(survey()) - {model.name for model in PUBLISHED}
    assert set(NETWORKS) >= SCRIPTED
    assert not set(NETWORKS) & set(collection())
    for name in survey():
        assert len(cases(name)) == 1


def test_one_is_written_and_runs(tmp_path):
    module = [sys.executable, "-m", "bench.models"]
    subprocess.run([*module, "--survey", "--out", tmp_path, "patchtst"], check=True)
    import sardonyx

    outputs = sardonyx.load(tmp_path / "patchtst.onnx").run(dict(cases("patchtst")["1x512x7"]))
    assert [array.shape for array in outputs.values()] == [(1, 96, 7), (1, 1, 7)]
