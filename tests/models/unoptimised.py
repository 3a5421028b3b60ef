"""ONNX Runtime without its optimisations: each node by itself, on one thread."""

from __future__ import annotations

import numpy as np
import onnxruntime


def run_unoptimised(model: bytes, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """All outputs of the model."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)
