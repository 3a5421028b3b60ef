"""Sardonyx in another process, perhaps under the emulator of another machine, as an ONNX backend.

SARDONYX_REMOTE is the command that starts the process. Its program, and the protocol, are
`tests/backend/tool/backend_test_tool.cc`.
"""

from __future__ import annotations

import os
import shlex
import struct
import subprocess

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend import base


class Process:
    def __init__(self):
        command = shlex.split(os.environ["SARDONYX_REMOTE"])
        self.pipe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, kind, *parts):
        """Send a request, numbers and byte strings; return the values of the answer."""
        self.pipe.stdin.write(kind)
        for part in parts:
            if isinstance(part, int):
                self.pipe.stdin.write(struct.pack("<I", part))
            else:
                self.pipe.stdin.write(struct.pack("<I", len(part)) + part)
        self.pipe.stdin.flush()
        error, values = self._text(), self._values()
        if error:
            raise RuntimeError(error.decode())
        return values

    def _read(self, size):
        data = self.pipe.stdout.read(size)
        if len(data) != size:
            raise RuntimeError(f"the process ended with {self.pipe.wait()}")
        return data

    def _count(self):
        return struct.unpack("<I", self._read(4))[0]

    def _text(self):
        return self._read(self._count())

    def _values(self):
        return [self._value() for _ in range(self._count())]

    def _value(self):
        kind = self._count()
        if kind == 0:
            return None
        if kind == 1:
            return self._tensor()
        if kind == 2:
            return self._values()
        return dict(zip(self._tensor().tolist(), self._values(), strict=True))

    def _tensor(self):
        dtype, rank = self._count(), self._count()
        dims = struct.unpack(f"<{rank}q", self._read(8 * rank))
        if dtype == onnx.TensorProto.STRING:
            texts = [self._text().decode() for _ in range(int(np.prod(dims)))]
            return np.array(texts, dtype=object).reshape(dims)
        return numpy_helper.to_array(
            onnx.TensorProto(data_type=dtype, dims=dims, raw_data=self._text())
        )


def _encoded(kind, value):
    if kind == "sequence_type":
        proto = numpy_helper.from_list(value) if value else onnx.SequenceProto(elem_type=1)
        return b"sequence", proto.SerializeToString()
    if kind == "optional_type":
        return b"optional", numpy_helper.from_optional(value).SerializeToString()
    return b"tensor", numpy_helper.from_array(np.asarray(value)).SerializeToString()


class Prepared(base.BackendRep):
    def __init__(self, process, kinds):
        self.process = process
        self.kinds = kinds

    def run(self, inputs, **kwargs):
        parts = [_encoded(kind, value) for kind, value in zip(self.kinds, inputs, strict=False)]
        return self.process.ask(b"R", len(parts), *(part for pair in parts for part in pair))


class Remote(base.Backend):
    process = None

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if cls.process is None or cls.process.pipe.poll() is not None:
            cls.process = Process()
        cls.process.ask(b"M", model.SerializeToString(), b"")
        defaults = {initializer.name for initializer in model.graph.initializer}
        inputs = [info for info in model.graph.input if info.name not in defaults]
        return Prepared(cls.process, [info.type.WhichOneof("value") for info in inputs])

    @classmethod
    def supports_device(cls, device):
        return device == "CPU"
