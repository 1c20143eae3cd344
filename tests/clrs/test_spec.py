"""The thirty algorithms, their features and their classes, as dm-clrs and the paper have them."""

from collections import Counter

import pytest

from relational_transformer.clrs import (
    ALGORITHMS,
    CLASS_OF,
    CLASSES,
    CORE_TASKS,
    SPECS,
    TITLES,
    AlgorithmClass,
    FeatureSpec,
    Location,
    Stage,
    Type,
    spec_of,
)


def test_there_are_thirty_algorithms_each_with_features_title_and_class():
    assert len(ALGORITHMS) == 30
    assert set(ALGORITHMS) == set(SPECS) == set(TITLES) == set(CLASS_OF)


def test_classes_have_the_sizes_of_the_papers_table():
    sizes = {group: len(names) for group, names in CLASSES.items()}
    assert list(sizes.values()) == [1, 3, 3, 12, 2, 3, 4, 2]
    assert sum(sizes.values()) == 30


def test_core_tasks_are_one_of_each_class():
    assert len(CORE_TASKS) == 8
    assert {CLASS_OF[name] for name in CORE_TASKS} == set(AlgorithmClass)


def test_features_are_as_many_of_each_kind_as_in_dm_clrs():
    counts = Counter((f.stage, f.location, f.type) for spec in SPECS.values() for f in spec.values())
    assert counts[Stage.HINT, Location.NODE, Type.MASK_ONE] == 77  # dm-clrs 2.x counts the pivot, too: 78
    assert counts[Stage.HINT, Location.NODE, Type.POINTER] == 37
    assert counts[Stage.INPUT, Location.NODE, Type.SCALAR] == 51
    assert counts[Stage.OUTPUT, Location.NODE, Type.SHOULD_BE_PERMUTATION] == 4
    assert sum(counts.values()) == 305


def test_only_categoricals_have_classes():
    for spec in SPECS.values():
        for feature in spec.values():
            assert (feature.classes is not None) == (feature.type == Type.CATEGORICAL)


def test_versions_differ_in_quickselects_pivot_alone():
    assert "pivot" not in spec_of("quickselect")
    assert spec_of("quickselect", "2.0")["pivot"] == FeatureSpec(Stage.HINT, Location.NODE, Type.MASK_ONE)
    assert all(spec_of(name) == spec_of(name, "2.0") for name in ALGORITHMS if name != "quickselect")


def test_specs_cannot_be_changed():
    with pytest.raises(TypeError):
        SPECS["bfs"]["pi"] = None  # type: ignore[index]
