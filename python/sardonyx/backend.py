"""Sardonyx as an ONNX `Backend`: the interface of `onnx.backend.base`.

Examples
--------
>>> import onnx
>>> import sardonyx.backend
>>> rep = sardonyx.backend.prepare(onnx.load("model.onnx"))
>>> outputs = rep.run([array])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper
from onnx.backend import base

from sardonyx.errors import InvalidArgumentError, UnsupportedError
from sardonyx.session import Session, load

__all__ = [
    "SardonyxBackend",
    "SardonyxBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

# What `prepare` hands on to `sardonyx.load`; other keywords belong to other backends.
_LOAD_OPTIONS = ("threads", "disabled_passes", "max_plans", "external_data_folder")


class SardonyxBackendRep(base.BackendRep):
    """A model ready to run; see `SardonyxBackend.prepare`."""

    def __init__(self, session: Session) -> None:
        self.session = session
        names = [info.name for info in session.outputs]
        self._outputs = base.namedtupledict("Outputs", names)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model.

        Parameters
        ----------
        inputs
            A list of values in the order of the model's inputs, a dict by name, or one array for a
            model with one input.
        **kwargs
            Accepted for the interface's sake; unused.

        Returns
        -------
        tuple
            Values of the outputs, which can be reached by position or, in brackets, by name.
        """
        if isinstance(inputs, np.ndarray | np.generic):
            inputs = [inputs]
        elif isinstance(inputs, Sequence) and not isinstance(inputs, list | tuple):
            inputs = list(inputs)
        return self._outputs(*self.session.run(inputs).values())


class SardonyxBackend(base.Backend):
    """The backend; its methods are functions of this module as well."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every operator of the model runs on this device.

        Raises
        ------
        InvalidModelError
            If the model breaks a rule of the standard: that is no matter of compatibility.
        """
        if not cls.supports_device(device):
            return False
        try:
            cls.prepare(model, device, **kwargs)
        except UnsupportedError:
            return False
        return True

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> SardonyxBackendRep:
        """Make a model ready to run.

        Parameters
        ----------
        model
            An `onnx.ModelProto`, or whatever `sardonyx.load` takes.
        device
            ``CPU``, or ``CPU:0``.
        **kwargs
            Options of `sardonyx.load`; others are ignored, as the interface wants.

        Raises
        ------
        sardonyx.Error
            If the model cannot run, or not on this device.
        """
        if not cls.supports_device(device):
            raise UnsupportedError(f"no device '{device}' here; Sardonyx runs on CPU")
        options = {key: kwargs[key] for key in _LOAD_OPTIONS if key in kwargs}
        return SardonyxBackendRep(load(model, **options))

    @classmethod
    def run_model(
        cls, model: Any, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """Prepare a model and run it once."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Run one operator.

        Parameters
        ----------
        node
            The operator. Outputs without a name are not computed.
        inputs
            Values by name, or a list of those of the named inputs, in order.
        device
            As for `prepare`.
        outputs_info
            Type and shape of each output; not needed.
        **kwargs
            ``opset_version``, or ``opset_imports`` (version by domain): the newest by default.
            Others as for `prepare`.
        """
        values = _named_inputs(node, inputs)
        model = _model_of(node, values, _opsets(node, kwargs))
        return cls.prepare(model, device, **kwargs).run(values)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether `device`, such as ``CPU`` or ``CUDA:1``, is there. Only one CPU is."""
        try:
            parsed = base.Device(device)
        except (AttributeError, ValueError):
            return False
        return parsed.type == base.DeviceType.CPU and parsed.device_id == 0


def _opsets(node: onnx.NodeProto, kwargs: Mapping[str, Any]) -> list[onnx.OperatorSetIdProto]:
    given = kwargs.get("opset_imports")
    if given is None:
        newest = kwargs.get("opset_version", defs.onnx_opset_version())
        given = {"": newest}
    if isinstance(given, Mapping):
        opsets = {str(domain): int(version) for domain, version in given.items()}
    else:
        opsets = {opset.domain: opset.version for opset in given}
    if node.domain not in opsets and node.domain not in ("", "ai.onnx"):
        versions = [s.since_version for s in defs.get_all_schemas() if s.domain == node.domain]
        opsets[node.domain] = max(versions, default=1)
    return [helper.make_opsetid(domain, version) for domain, version in opsets.items()]


def _named_inputs(node: onnx.NodeProto, inputs: Any) -> dict[str, Any]:
    names = list(dict.fromkeys(name for name in node.input if name))
    if isinstance(inputs, Mapping):
        return dict(inputs)
    if isinstance(inputs, np.ndarray | np.generic):
        inputs = [inputs]
    values = list(inputs)
    if len(values) == len(node.input) != len(names):  # with a place for each left out or repeated
        return {name: value for name, value in zip(node.input, values, strict=True) if name}
    if len(values) != len(names):
        raise InvalidArgumentError(
            f"node '{node.name}' ({node.op_type}) has {len(names)} inputs, {len(values)} are given"
        )
    return dict(zip(names, values, strict=True))


def _type_of(value: Any) -> onnx.TypeProto:
    """Type of a value, of unknown sizes so that one model fits all."""
    if value is None:
        raise InvalidArgumentError("run_node cannot know the type of an empty optional")
    if isinstance(value, list | tuple) and value and isinstance(value[0], np.ndarray):
        return helper.make_sequence_type_proto(_type_of(value[0]))
    array = np.asarray(value)
    if array.dtype.kind in "OUST":
        element = onnx.TensorProto.STRING
    else:
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_type_proto(element, [None] * array.ndim)


def _model_of(
    node: onnx.NodeProto, values: Mapping[str, Any], opsets: list[onnx.OperatorSetIdProto]
) -> onnx.ModelProto:
    """Make a model of one node. Its outputs have no declared type: the engine infers it."""
    inputs = [helper.make_value_info(name, _type_of(value)) for name, value in values.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], node.op_type or "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=opsets, ir_version=_ir_version(opsets))


def _ir_version(opsets: list[onnx.OperatorSetIdProto]) -> int:
    """Newest version of the format that goes with these opsets."""
    try:
        return helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    except ValueError:
        return onnx.IR_VERSION


is_compatible = SardonyxBackend.is_compatible
prepare = SardonyxBackend.prepare
run_model = SardonyxBackend.run_model
run_node = SardonyxBackend.run_node
supports_device = SardonyxBackend.supports_device
