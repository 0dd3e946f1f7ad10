"""The encoder as a function of its weights, which have the names of the base model's ONNX file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

LAYERS = 6
HEADS = 12
DIMENSIONS = 384
NORM_EPSILON = 1e-12
WORDS = ".model.embeddings.word_embeddings.weight"
POSITIONS = ".model.embeddings.position_embeddings.weight"
TYPES = ".model.embeddings.token_type_embeddings.weight"

Weights = dict[str, NDArray[np.float32]]


def read_onnx_weights(file: Path) -> Weights:
    """Return the weights of an ONNX file with fp32 weights."""
    model = onnx.load(str(file))
    return {
        tensor.name: np.array(numpy_helper.to_array(tensor), np.float32)
        for tensor in model.graph.initializer
    }


def read_onnx_graph(file: Path) -> onnx.ModelProto:
    """Return an ONNX model without the values of its weights."""
    return onnx.load(str(file), load_external_data=False)


def embed(weights: Mapping[str, Any], tokens: Any, mask: Any) -> Any:
    """Return a unit vector for each row of tokens (torch tensors)."""
    import torch
    from torch.nn import functional

    states = hidden_states(weights, tokens, mask)
    share = mask[:, :, None].to(torch.float32)
    mean = (states * share).sum(1) / share.sum(1)
    return functional.normalize(mean, dim=-1)


def hidden_states(
    weights: Mapping[str, Any], tokens: Any, mask: Any, types: Any = None, drop: float = 0.0
) -> Any:
    """Return the last state of each token (torch tensors).

    types: 0 or 1 for each token; all are 0 without it
    drop:  the share of values that are dropped while training
    """
    from torch.nn import functional

    rows, length = tokens.shape
    positions = weights[POSITIONS][:length]
    type_vectors = (
        weights[TYPES][0] if types is None else functional.embedding(types, weights[TYPES])
    )
    hidden = functional.embedding(tokens, weights[WORDS]) + positions + type_vectors
    hidden = _normalize(weights, "model.layers.-1.embeddings_norm_layernorm", hidden)
    attention_mask = mask[:, None, None, :].bool()

    def linear(name: str, value: Any) -> Any:
        return value @ weights[f"{name}.MatMul.weight"] + weights[f"{name}.Add.bias"]

    def dropped(value: Any) -> Any:
        return functional.dropout(value, drop) if drop else value

    def by_head(value: Any) -> Any:
        return value.view(rows, length, HEADS, DIMENSIONS // HEADS).transpose(1, 2)

    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        query, key, value = (
            by_head(linear(f"{prefix}.attn.{part}_proj", hidden)) for part in "qkv"
        )
        attended = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attention_mask
        )
        attended = attended.transpose(1, 2).reshape(rows, length, DIMENSIONS)
        hidden = hidden + dropped(linear(f"{prefix}.attn.o_proj", attended))
        hidden = _normalize(weights, f"{prefix}.attention_output_norm_layernorm", hidden)
        inner = functional.gelu(linear(f"{prefix}.mlp.fc1", hidden))
        hidden = hidden + dropped(linear(f"{prefix}.mlp.fc2", inner))
        hidden = _normalize(weights, f"{prefix}.mlp_output_norm_layernorm", hidden)
    return hidden.float()


def _normalize(weights: Mapping[str, Any], name: str, hidden: Any) -> Any:
    from torch.nn import functional

    weight = weights[f"{name}.weight"]
    return functional.layer_norm(
        hidden.float(), (DIMENSIONS,), weight, weights[f"{name}.bias"], NORM_EPSILON
    )


def padded(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return token ids as a matrix, and a mask that is 0 for padding."""
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros_like(tokens)
    for row_number, row in enumerate(rows):
        tokens[row_number, : len(row)] = row
        mask[row_number, : len(row)] = 1
    return tokens, mask


def write_onnx(graph_file: Path, weights: Weights, file: Path) -> None:
    """Write an ONNX model with large weights as 8-bit integers and scales; it computes in fp32."""
    model = read_onnx_graph(graph_file)
    graph = model.graph
    del graph.initializer[:]
    nodes = list(graph.node)
    del graph.node[:]
    for name, values in weights.items():
        if name == WORDS:
            continue
        if values.ndim == 2 and name.endswith("MatMul.weight"):
            scales = np.maximum(np.abs(values).max(axis=0), 1e-12) / 127
            rounded = np.rint(values / scales).astype(np.int8)
            graph.initializer.append(numpy_helper.from_array(rounded, f"{name}.int8"))
            scale_tensor = numpy_helper.from_array(scales.astype(np.float32), f"{name}.scale")
            graph.initializer.append(scale_tensor)
            inputs = [f"{name}.int8", f"{name}.scale"]
            graph.node.append(helper.make_node("DequantizeLinear", inputs, [name], axis=1))
        else:
            tensor = numpy_helper.from_array(values.astype(np.float32), name)
            graph.initializer.append(tensor)
    rounded, scales = quantize_rows(weights[WORDS])
    graph.initializer.append(numpy_helper.from_array(rounded, f"{WORDS}.int8"))
    graph.initializer.append(numpy_helper.from_array(scales[:, None], f"{WORDS}.scale"))
    for node in nodes:
        if WORDS in node.input:
            graph.node.extend(_gather_bytes(node.output[0]))
        else:
            graph.node.append(node)
    onnx.checker.check_model(model)
    onnx.save(model, str(file))


def quantize_rows(values: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return each row as bytes, and its scale."""
    scales = np.maximum(np.abs(values).max(axis=1), 1e-12) / 127
    return np.rint(values / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def _gather_bytes(output: str) -> list[onnx.NodeProto]:
    """Return nodes that look up the rows of words as bytes and multiply them by their scales."""
    return [
        helper.make_node("Gather", [f"{WORDS}.int8", "input_ids"], ["words.int8"]),
        helper.make_node("Cast", ["words.int8"], ["words.float"], to=TensorProto.FLOAT),
        helper.make_node("Gather", [f"{WORDS}.scale", "input_ids"], ["words.scale"]),
        helper.make_node("Mul", ["words.float", "words.scale"], [output]),
    ]


class OnnxEncoder:
    """Runs an exported encoder, to check it against the trained one."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        # Convert the weights to fp32 once, when the file is loaded, not at every call.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
        self._session = onnxruntime.InferenceSession(
            str(file), options, providers=["CPUExecutionProvider"]
        )

    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Return a unit vector for each row of tokens."""
        tokens, mask = padded(rows)
        inputs = {
            "input_ids": tokens,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(tokens),
        }
        states = self._session.run(None, inputs)[0]
        total = (states * mask[:, :, None]).sum(axis=1, dtype=np.float32)
        vectors = total / np.linalg.norm(total, axis=1, keepdims=True)
        return np.asarray(vectors, np.float32)
