"""The fact reader as a function of its weights: the encoder's layers with heads for tags.

The word vectors are the encoder's own, frozen, so that both models share them in the package: the
ONNX file of the reader refers to their bytes inside the ONNX file of the encoder.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from encoder.model import DIMENSIONS, WORDS, Weights, hidden_states
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from memorist.learning.tagging import FLAGS, POINTER, SLOTS

TAGS = 1 + 2 * len(SLOTS)
HEADS = {"tags": TAGS, "flags": len(FLAGS), "points": 4 * POINTER, "has_fact": 1}
"""Outputs for each token. `points` has queries and keys for the first and the last token of the
subject. `has_fact` counts at the first token only."""
OUTPUTS = tuple(HEADS)
_BYTES = f"{WORDS}.int8"
_SCALES = f"{WORDS}.scale"


def read_encoder(file: Path) -> Weights:
    """Return the weights of an encoder with 8-bit weights as fp32."""
    graph = onnx.load(str(file)).graph
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights: Weights = {}
    for name, values in arrays.items():
        if name.endswith(".int8"):
            scales = arrays[name.removesuffix(".int8") + ".scale"]
            weights[name.removesuffix(".int8")] = values.astype(np.float32) * scales
        elif not name.endswith(".scale"):
            weights[name] = np.array(values, np.float32)
    return weights


def new_heads(seed: int) -> Weights:
    """Return heads with small random weights."""
    random = np.random.default_rng(seed)
    heads: Weights = {}
    for name, size in HEADS.items():
        heads[f"head.{name}.weight"] = random.normal(0, 0.02, (DIMENSIONS, size)).astype(np.float32)
        heads[f"head.{name}.bias"] = np.zeros(size, np.float32)
    return heads


def read_tokens(
    weights: Mapping[str, Any], tokens: Any, types: Any, mask: Any, drop: float
) -> dict[str, Any]:
    """Return the outputs of the heads for each token (torch tensors)."""
    from torch.nn import functional

    states = hidden_states(weights, tokens, mask, types, drop)
    if drop:
        states = functional.dropout(states, drop)
    return {
        name: states @ weights[f"head.{name}.weight"] + weights[f"head.{name}.bias"]
        for name in HEADS
    }


def write_onnx(encoder_file: Path, weights: Weights, file: Path) -> None:
    """Write the reader beside the encoder: 8-bit weights, and a reference to the word vectors."""
    model = onnx.load(str(encoder_file))
    graph = model.graph
    kept = [tensor for tensor in graph.initializer if tensor.name == _SCALES]
    shape = next(tensor.dims for tensor in graph.initializer if tensor.name == _BYTES)
    reference = _shared_bytes(encoder_file, list(shape))
    initializers = [reference, *kept]
    for tensor in graph.initializer:
        name = tensor.name
        if name in (_BYTES, _SCALES) or name.endswith(".scale"):
            continue
        if name.endswith(".int8"):
            initializers += _quantized(name.removesuffix(".int8"), weights)
        else:
            initializers.append(numpy_helper.from_array(weights[name].astype(np.float32), name))
    del graph.initializer[:]
    states = graph.output[0].name
    for head in HEADS:
        initializers += _quantized(f"head.{head}.weight", weights)
        bias = f"head.{head}.bias"
        initializers.append(numpy_helper.from_array(weights[bias].astype(np.float32), bias))
        matrix = f"head.{head}.weight"
        graph.node.append(
            helper.make_node(
                "DequantizeLinear", [f"{matrix}.int8", f"{matrix}.scale"], [matrix], axis=1
            )
        )
        graph.node.append(helper.make_node("MatMul", [states, matrix], [f"head.{head}.product"]))
        graph.node.append(helper.make_node("Add", [f"head.{head}.product", bias], [head]))
    graph.initializer.extend(initializers)
    del graph.output[:]
    for name, size in HEADS.items():
        graph.output.append(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", "length", size])
        )
    onnx.save(model, str(file))


def _quantized(name: str, weights: Weights) -> list[onnx.TensorProto]:
    values = weights[name]
    scales = np.maximum(np.abs(values).max(axis=0), 1e-12) / 127
    return [
        numpy_helper.from_array(np.rint(values / scales).astype(np.int8), f"{name}.int8"),
        numpy_helper.from_array(scales.astype(np.float32), f"{name}.scale"),
    ]


def _shared_bytes(encoder_file: Path, shape: list[int]) -> onnx.TensorProto:
    """Return a tensor whose bytes stand inside the file of the encoder."""
    graph = onnx.load(str(encoder_file)).graph
    raw = next(tensor.raw_data for tensor in graph.initializer if tensor.name == _BYTES)
    content = encoder_file.read_bytes()
    offset = content.index(raw)
    tensor = TensorProto(name=_BYTES, data_type=TensorProto.INT8, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (
        ("location", encoder_file.name),
        ("offset", str(offset)),
        ("length", str(len(raw))),
    ):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    return tensor


def as_arrays(weights: Mapping[str, Any]) -> dict[str, NDArray[np.float32]]:
    """Return torch weights as arrays."""
    return {name: value.detach().float().cpu().numpy() for name, value in weights.items()}
