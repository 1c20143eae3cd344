"""Groups of features: those of one location and type are packed into one tensor, so that a step has a few large
operations instead of many small ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from relational_transformer.clrs.spec import Location, Spec, Stage, Type
from relational_transformer.nn.checks import shown

from .checks import check_features, check_spec

Packed = dict[str, Tensor]
"""Packed features by the key of their group."""


@dataclass(frozen=True)
class FeatureGroup:
    """Features of one location and type. Packed, they share a tensor, whose **last** axis has an index for each
    feature.

    The axis before it is that of the choices: nodes of a mask_one, classes of a categorical, nodes that a pointer's
    logits range over. In data, pointers are indices, and a permutation is a matrix [i, j] with a 1 where i points to j.

    | packed | data | logits |
    |---|---|---|
    | node scalar, mask, mask_one | [B, N, F] | the same |
    | node categorical | [B, N, classes, F] | the same |
    | node pointer | [B, N, F] | [B, N, N, F] |
    | node permutation_pointer | [B, N, N, F] | the same |
    | edge ... | [B, N, N, ...] | [B, N, N, ...] |
    | graph ... | [B, ...] | [B, ...] |

    Hints have their steps in front.

    >>> from relational_transformer.clrs import SPECS
    >>> (pointer,) = group_features(SPECS["bfs"], Stage.OUTPUT)
    >>> pointer.key, pointer.names, pointer.logits_shape(num_nodes=16)
    ('node_pointer', ('pi',), (16, 16, 1))
    """

    location: Location
    type: Type
    classes: int | None
    names: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name of the group among those of its stage.

        >>> FeatureGroup(Location.NODE, Type.CATEGORICAL, 3, ("color",)).key
        'node_categorical_3'
        """
        return f"{self.location}_{self.type}" + (f"_{self.classes}" if self.classes else "")

    @property
    def is_pointer(self) -> bool:
        return self.type in (Type.POINTER, Type.PERMUTATION_POINTER)

    @property
    def is_permutation(self) -> bool:
        """Whether the pointers form a permutation, decoded by Sinkhorn's iterations (`permutations.py`)."""
        return self.type == Type.PERMUTATION_POINTER

    @property
    def is_edge_pointer(self) -> bool:
        return self.is_pointer and self.location == Location.EDGE

    @property
    def is_choice_of_nodes(self) -> bool:
        return self.is_pointer or self.type == Type.MASK_ONE

    @property
    def is_relation(self) -> bool:
        """Whether the features make nodes adjacent, as node pointers and edge masks do."""
        return (self.location, self.type) in ((Location.NODE, Type.POINTER), (Location.EDGE, Type.MASK))

    @property
    def node_axes(self) -> int:
        """The number of node axes: 0 for a graph, 1 for nodes, 2 for edges."""
        return {Location.GRAPH: 0, Location.NODE: 1, Location.EDGE: 2}[self.location]

    def data_shape(self, num_nodes: int) -> tuple[int, ...]:
        """The shape of packed data, without the batch."""
        return self._shape(num_nodes, self.node_axes + self.is_permutation)

    def logits_shape(self, num_nodes: int) -> tuple[int, ...]:
        """The shape of packed logits, without the batch."""
        return self._shape(num_nodes, self.node_axes + self.is_pointer)

    def _shape(self, num_nodes: int, node_axes: int) -> tuple[int, ...]:
        return (num_nodes,) * node_axes + ((self.classes,) if self.classes else ()) + (len(self.names),)

    def present(self, node_mask: Tensor | None) -> Tensor | None:
        """Which elements belong to present nodes, bool [B, (N, (N,)) 1]; None where all do.

        A mask_one is one element for a whole graph.
        """
        if node_mask is None or self.type == Type.MASK_ONE or self.location == Location.GRAPH:
            return None
        pairs = node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)
        return (node_mask if self.location == Location.NODE else pairs).unsqueeze(-1)


Groups = tuple[FeatureGroup, ...]


def group_features(spec: Spec, stage: Stage) -> Groups:
    """The features of one stage, grouped by location and type. A `should_be_permutation` feature is a plain pointer, as
    in the paper; a `permutation_pointer` is a permutation.

    >>> from relational_transformer.clrs.spec import SPECS
    >>> [(group.key, group.names) for group in group_features(SPECS["bubble_sort"], Stage.HINT)]
    [('node_pointer', ('pred_h',)), ('node_mask_one', ('i', 'j'))]
    """
    check_spec("spec", spec)
    if not isinstance(stage, str) or stage not in tuple(Stage):
        raise ValueError(f"stage must be one of {', '.join(Stage)}, got {shown(stage)}")
    groups: dict[str, FeatureGroup] = {}
    for name, feature in spec.items():
        if feature.stage != stage:
            continue
        kind = Type.POINTER if feature.type == Type.SHOULD_BE_PERMUTATION else feature.type
        if (feature.location, kind) in _UNKNOWN:
            raise ValueError(f"{name} is a {feature.location} {kind}, which none of the 30 algorithms has")
        if kind == Type.PERMUTATION_POINTER and stage != Stage.OUTPUT:
            raise ValueError(f"{name} is a permutation, which only an output can be, got one among the {stage}s")
        group = FeatureGroup(feature.location, kind, feature.classes, (name,))
        known = groups.get(group.key)
        groups[group.key] = replace(known, names=(*known.names, name)) if known else group
    return tuple(groups.values())


_UNKNOWN = {
    (Location.EDGE, Type.MASK_ONE),
    (Location.EDGE, Type.PERMUTATION_POINTER),
    (Location.GRAPH, Type.MASK_ONE),
    (Location.GRAPH, Type.POINTER),
    (Location.GRAPH, Type.PERMUTATION_POINTER),
}


def pack(groups: Iterable[FeatureGroup], features: Mapping[str, Tensor]) -> Packed:
    """Stack the tensors of features by group, without converting them.

    >>> group = FeatureGroup(Location.NODE, Type.MASK, None, ("reached", "done"))
    >>> pack([group], {"reached": torch.ones(2, 5), "done": torch.zeros(2, 5)})["node_mask"].shape
    torch.Size([2, 5, 2])
    """
    groups = _groups(groups)
    check_features("features", groups, features)
    return {group.key: torch.stack([features[name] for name in group.names], dim=-1) for group in groups}


def unpack(groups: Iterable[FeatureGroup], packed: Packed) -> dict[str, Tensor]:
    """Split packed features or logits by name. The last axis of a pointer's logits is that of the nodes it may point
    to.

    >>> group = FeatureGroup(Location.NODE, Type.POINTER, None, ("pi",))
    >>> unpack([group], {"node_pointer": torch.zeros(2, 5, 5, 1)})["pi"].shape
    torch.Size([2, 5, 5])
    """
    groups = _groups(groups)
    if not isinstance(packed, Mapping):
        raise ValueError(f"packed must be packed features by key, got {shown(packed)}")
    for group in groups:
        tensor = packed.get(group.key)
        if tensor is not None and (not isinstance(tensor, Tensor) or tensor.shape[-1:] != (len(group.names),)):
            raise ValueError(
                f"packed[{group.key!r}] must be a tensor [..., {len(group.names)}], one feature per last index"
            )
    return {
        name: tensor
        for group in groups
        if group.key in packed
        for name, tensor in zip(group.names, packed[group.key].unbind(-1), strict=True)
    }


def present_features(groups: Groups, packed: Packed, node_mask: Tensor | None, lengths: Tensor | None = None) -> Packed:
    """Packed features with zeros for nodes that `node_mask` [B, N] says are not there. Hints, steps first, have zeros
    from step number `lengths` [B] on.

    Zero times NaN is NaN, so it is not enough that what is not there has no weight (`nn/padding.py`). Features that are
    whole numbers or bool hold no NaN, and stay as they are.

    >>> group = FeatureGroup(Location.NODE, Type.SCALAR, None, ("key",))
    >>> keys = {"node_scalar": torch.tensor([[[0.5], [torch.nan]]])}
    >>> present_features([group], keys, torch.tensor([[True, False]]))["node_scalar"].flatten().tolist()
    [0.5, 0.0]
    """
    found = dict(packed)
    for group in groups:
        data = packed.get(group.key)
        if data is None or not data.is_floating_point():
            continue
        axes = group.node_axes + group.is_permutation
        if node_mask is not None and axes:
            present = node_mask if axes == 1 else node_mask.unsqueeze(-1) & node_mask.unsqueeze(-2)
            data = torch.where(_with_axes(present, data.dim() - (lengths is not None)), data, 0)
        if lengths is not None:
            steps = torch.arange(data.shape[0], device=data.device).unsqueeze(-1) < lengths  # [T, B]
            data = torch.where(_with_axes(steps, data.dim()), data, 0)
        found[group.key] = data
    return found


def _with_axes(present: Tensor, count: int) -> Tensor:
    """With axes of one element behind, `count` axes in all."""
    return present.reshape(present.shape + (1,) * (count - present.dim()))


def _groups(groups: Iterable[FeatureGroup]) -> tuple[FeatureGroup, ...]:
    found = tuple(groups) if isinstance(groups, Iterable) else (None,)
    if not all(isinstance(group, FeatureGroup) for group in found):
        raise ValueError(f"groups must be feature groups, got {shown(groups)}")
    return tuple(group for group in found if group is not None)


class Batch(NamedTuple):
    """A packed batch of examples, as `Network.pack` makes it.

    Attributes:
        inputs: packed inputs, [B, ...].
        hints: packed hints, steps first, [T, B, ...]; the padding beyond an example's length may be anything.
        outputs: packed outputs, [B, ...].
        lengths: number of hints of each example, [B].
        node_mask: bool [B, N], True where a node is present; None where all graphs have N nodes.
        noise: noise that training adds to the logits of permutations, [B, N, N, F], as `gumbel` makes it; None for
            none.

    >>> from relational_transformer.clrs import sample
    >>> from relational_transformer.processors import Settings
    >>> from relational_transformer.reasoning import build_network
    >>> network = build_network("bfs", Settings(hidden_size=16, num_heads=2, num_layers=1))
    >>> data = sample("bfs", num_samples=2, length=5, seed=0)
    >>> stages = (data.inputs, data.hints, data.outputs)
    >>> tensors = ({name: torch.from_numpy(array) for name, array in stage.items()} for stage in stages)
    >>> batch = network.pack(*tensors, torch.from_numpy(data.lengths))
    >>> {key: list(tensor.shape) for key, tensor in batch.inputs.items()}
    {'node_scalar': [2, 5, 1], 'node_mask_one': [2, 5, 1], 'edge_scalar': [2, 5, 5, 1], 'edge_mask': [2, 5, 5, 1]}
    """

    inputs: Packed
    hints: Packed
    outputs: Packed
    lengths: Tensor
    node_mask: Tensor | None = None
    noise: Tensor | None = None

    def present(self, inputs: Groups, hints: Groups, outputs: Groups) -> "Batch":
        """The batch by `present_features`, given the groups of each stage."""
        return self._replace(
            inputs=present_features(inputs, self.inputs, self.node_mask),
            hints=present_features(hints, self.hints, self.node_mask, self.lengths),
            outputs=present_features(outputs, self.outputs, self.node_mask),
        )
