"""Work in child processes: what it returns, and what becomes of it when it fails."""

from __future__ import annotations

import os
import time

from tests.versions.children import in_children


def test_each_job_has_its_outcome_though_others_crash():
    def work(job: str) -> str:
        if job == "crashes":
            os.abort()
        if job == "hangs":
            time.sleep(60)
        if job == "raises":
            raise ValueError("no such thing")
        return job.upper()

    outcomes = in_children(["a", "crashes", "raises", "hangs", "b"], work, seconds=1)
    assert outcomes == [
        ("A", ""),
        (None, "the process died of signal 6"),
        (None, "ValueError: no such thing"),
        (None, "took over 1 s"),
        ("B", ""),
    ]


def test_torch_runs_in_a_child_though_it_ran_in_the_parent():
    import torch

    def convolve(channels: int) -> int:
        x, w = torch.zeros(1, channels, 64, 64), torch.zeros(channels, channels, 3, 3)
        return torch.nn.functional.conv2d(x, w).shape[1]

    assert convolve(32) == 32  # threads of this process, which a fork does not take along
    assert in_children([32], convolve, seconds=10) == [(32, "")]
