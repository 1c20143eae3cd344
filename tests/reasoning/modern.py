"""Specs as the modern protocol has them."""

from relational_transformer.clrs.spec import SPECS, FeatureSpec, Location, Spec, Stage, Type


def modern_spec(algorithm: str) -> Spec:
    """The constant hint of predecessors is an input, and what sorts is a permutation and the mask of its first node."""
    spec: dict[str, FeatureSpec] = {}
    for name, feature in SPECS[algorithm].items():
        if feature.type == Type.SHOULD_BE_PERMUTATION:
            spec[name] = FeatureSpec(Stage.OUTPUT, Location.NODE, Type.PERMUTATION_POINTER)
            spec[f"{name}_mask"] = FeatureSpec(Stage.OUTPUT, Location.NODE, Type.MASK_ONE)
        elif name == "pred_h" and "pred" not in SPECS[algorithm]:
            spec["pred"] = FeatureSpec(Stage.INPUT, Location.NODE, Type.POINTER)
        else:
            spec[name] = feature
    return spec
