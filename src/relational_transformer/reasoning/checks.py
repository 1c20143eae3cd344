"""Checks of a network's arguments: specs, features by name, and packed features."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from relational_transformer.clrs.spec import FeatureSpec
from relational_transformer.nn.checks import check_dense, check_device, check_mask, shown

if TYPE_CHECKING:
    from .features import FeatureGroup
    from .network import Network

WHOLE_NUMBERS = (torch.int8, torch.int16, torch.int32, torch.int64)


def check_spec(name: str, spec: Any) -> None:
    """A spec must have the features of an algorithm by name."""
    features = list(spec.values()) if isinstance(spec, Mapping) else []
    if not features or not all(isinstance(feature, FeatureSpec) for feature in features):
        raise ValueError(f"{name} must be the name of an algorithm or a spec, got {shown(spec)}")


def check_features(name: str, groups: Iterable["FeatureGroup"], features: Any) -> None:
    """Features must be tensors by name, with one shape, dtype and device in each group."""
    if not isinstance(features, Mapping):
        raise ValueError(f"{name} must be tensors by name, got {shown(features)}")
    names = [feature for group in groups for feature in group.names]
    missing = [feature for feature in names if feature not in features]
    if missing:
        raise ValueError(f"features {', '.join(missing)} are missing; got {', '.join(map(str, features)) or 'none'}")
    for feature in names:
        _check_data(f"{name}[{feature!r}]", features[feature])
    for group in groups:
        first = features[group.names[0]]
        for feature in group.names[1:]:
            other = features[feature]
            if (other.shape, other.dtype, other.device) != (first.shape, first.dtype, first.device):
                raise ValueError(
                    f"{name}[{feature!r}] must be like {name}[{group.names[0]!r}] ({_described(first)}), "
                    f"got {_described(other)}"
                )


def check_lengths(lengths: Any) -> None:
    """Lengths must be the number of hints of each example, [B]."""
    if not isinstance(lengths, Tensor):
        raise ValueError(f"lengths must be a tensor [B] of whole numbers, got {shown(lengths)}")
    check_dense("lengths", lengths)
    if lengths.dim() != 1 or not lengths.shape[0] or lengths.dtype not in WHOLE_NUMBERS:
        raise ValueError(f"lengths must be a tensor [B] of whole numbers, got {_described(lengths)}")


def check_training_batch(network: "Network", batch: Any, teacher_forced: Any) -> None:
    """Check the arguments of a training loss."""
    from .features import Batch  # here, because features are checked too

    if not isinstance(batch, Batch):
        raise ValueError(f"batch must be a Batch, as `pack` makes it, got {shown(batch)}")
    _check_inputs(network, batch.inputs, batch.lengths, batch.node_mask)
    num_nodes, count = batch.inputs["node_scalar"].shape[-2], batch.lengths.shape[0]
    check_packed("outputs", network.outputs, batch.outputs, (count,), num_nodes, batch.lengths)
    _check_noise(network, batch.noise, count, num_nodes)
    if not isinstance(teacher_forced, Tensor):
        raise ValueError(f"teacher_forced must be a bool tensor [T - 1, B], got {shown(teacher_forced)}")
    check_dense("teacher_forced", teacher_forced)
    if teacher_forced.dtype != torch.bool:
        raise ValueError(f"teacher_forced must be a bool tensor [T - 1, B], got {teacher_forced.dtype}")
    steps = teacher_forced.shape[0] + 1 if teacher_forced.dim() else 0
    if teacher_forced.dim() != 2 or teacher_forced.shape[1] != count:
        raise ValueError(f"teacher_forced must be [T - 1, {count}], got shape {list(teacher_forced.shape)}")
    check_device("teacher_forced", teacher_forced, "lengths", batch.lengths)
    if steps > 1:
        check_packed("hints", network.hints, batch.hints, (steps, count), num_nodes, batch.lengths)


def check_prediction(network: "Network", inputs: Any, first_hints: Any, lengths: Any, node_mask: Any) -> None:
    """Check the arguments of a prediction."""
    _check_inputs(network, inputs, lengths, node_mask)
    num_nodes = inputs["node_scalar"].shape[-2]
    check_packed("first_hints", network.hints, first_hints, (lengths.shape[0],), num_nodes, lengths)


def check_packed(
    name: str, groups: Iterable["FeatureGroup"], packed: Any, before: tuple[int, ...], num_nodes: int, beside: Tensor
) -> None:
    """Packed features must be those of these groups, with the axes `before` in front."""
    if not isinstance(packed, Mapping):
        raise ValueError(f"{name} must be packed features by key, got {shown(packed)}")
    for group in groups:
        if group.key not in packed:
            raise ValueError(f"{name} must have {group.key}, got {', '.join(map(str, packed)) or 'nothing'}")
        where, tensor = f"{name}[{group.key!r}]", packed[group.key]
        _check_data(where, tensor)
        shape = (*before, *group.data_shape(num_nodes))
        if tuple(tensor.shape) != shape:
            raise ValueError(f"{where} must have shape {list(shape)}, got {list(tensor.shape)}")
        check_device(where, tensor, "the weights", beside)


def _check_inputs(network: "Network", inputs: Any, lengths: Any, node_mask: Any) -> None:
    check_lengths(lengths)
    if not isinstance(inputs, Mapping) or not isinstance(inputs.get("node_scalar"), Tensor):
        raise ValueError(f"inputs must be packed features with a node_scalar among them, got {shown(inputs)}")
    nodes, count = inputs["node_scalar"], lengths.shape[0]
    check_dense("inputs['node_scalar']", nodes)
    if nodes.dim() != 3:
        raise ValueError(f"inputs['node_scalar'] must be [B, N, features], got {_described(nodes)}")
    weight = next(network.parameters())
    check_device("lengths", lengths, "the weights", weight)
    check_packed("inputs", network.inputs, inputs, (count,), nodes.shape[-2], weight)
    check_mask("node_mask", node_mask, (count, nodes.shape[-2]), weight)


def _check_noise(network: "Network", noise: Any, count: int, num_nodes: int) -> None:
    if noise is None:
        return
    shape = network.noise_shape(num_nodes)
    if shape is None:
        raise ValueError("noise is for permutations, and this network decodes none: leave it out")
    if not isinstance(noise, Tensor) or tuple(noise.shape) != (count, *shape) or not noise.is_floating_point():
        raise ValueError(f"noise must be floating-point numbers {[count, *shape]}, got {_described(noise)}")


def _check_data(name: str, tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        raise ValueError(f"{name} must be a tensor, got {shown(tensor)}")
    check_dense(name, tensor)
    if tensor.is_complex():
        raise ValueError(f"{name} must hold plain numbers, got {tensor.dtype}")


def _described(value: Any) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else shown(value)
