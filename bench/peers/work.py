"""What `roofline` finds; by itself, for the page and the plot are made without `onnx`."""

from __future__ import annotations

from typing import NamedTuple


class Work(NamedTuple):
    """What a run takes at least.

    Parameters
    ----------
    operations
        Operations of products, convolutions and recurrent cells by the direct algorithm.
    fewest
        With Winograd's algorithm wherever it can be taken, its transforms not counted.
    constants
        Bytes that they read and that depend on no input, quantised ones as they are stored.
    of_steps, small, large
        Of the operations, those of the steps of recurrent cells; and the bytes that these read of
        their weights, all of them in each step.
    on_bytes
        Of the operations, those on bytes: of operators that take such, and of others between
        DequantizeLinear.
    narrow, narrow_constants
        Of the operations on float32, those of products that read their constants for so few rows
        that memory, not arithmetic, is their limit, and the bytes of these constants; where the
        model's are more than caches hold.
    fewest_on_bytes
        Of the fewest operations, those on bytes; one of int16 counts as two.
    """

    operations: int
    fewest: int
    constants: int
    of_steps: int = 0
    small: int = 0
    large: int = 0
    on_bytes: int = 0
    narrow: int = 0
    narrow_constants: int = 0
    fewest_on_bytes: int = 0
