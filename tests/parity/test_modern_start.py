"""Fresh parameters against statistics of the published implementation's, of three seeds together."""

import json
from pathlib import Path

import pytest
import torch

from relational_transformer.processors import MODERN
from relational_transformer.reasoning import build_network
from tests.parity.modern_reference import OF_NETWORKS, Reference, meta_of
from tests.parity.published_places import published_places

STATISTICS = json.loads((Path(__file__).parent / "modern" / "init-stats.json").read_text())


@pytest.mark.parametrize("algorithm", STATISTICS)
def test_parameters_start_with_the_published_spread(algorithm: str) -> None:
    file = next(file for file in OF_NETWORKS if meta_of(file)["algorithm"] == algorithm)
    spec = Reference(file, torch.float32).spec
    networks = []
    for seed in range(3):
        torch.manual_seed(seed)
        networks.append(build_network(spec, MODERN["triplet_gmpnn"], hint_feedback="soft", small_scalar_hints=True))
    places, expected = published_places(networks[0], modern=True), STATISTICS[algorithm]
    assert places.keys() == expected.keys()
    for name, place in places.items():
        ours = torch.stack([place.take(network.get_parameter(place.parameter)).detach() for network in networks])
        theirs = expected[name]
        assert ours[0].numel() == torch.Size(theirs["shape"]).numel(), name
        if theirs["std"] == 0.0:
            assert (ours == theirs["mean"]).all(), name
            continue
        # Five standard errors of the difference of two estimates; a cut normal has lighter tails than that.
        error = 5 / ours.numel() ** 0.5
        assert ours.std().item() == pytest.approx(theirs["std"], rel=error), name
        assert abs(ours.mean().item() - theirs["mean"]) < 1.5 * error * theirs["std"], name
        assert ours.abs().max().item() <= 2 / 0.8796 * theirs["std"] * (1 + error), name
