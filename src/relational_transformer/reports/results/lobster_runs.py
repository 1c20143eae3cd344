"""The remarks below the table of lobster graphs: the length of each model's training, and the losses of its seeds."""

import statistics
from collections.abc import Mapping
from typing import Any

from .archive import Archive, variant_named
from .measured import Measured
from .variants import title_on


def describe_oracles() -> str:
    """The scores of predicting min(y, c) on the test set, which explain what a relative loss means."""
    from relational_transformer.lobster.oracle import oracle_losses
    from relational_transformer.lobster.protocol import LobsterProtocol

    oracles = oracle_losses(LobsterProtocol().test_graphs().distances)
    scores = ", ".join(f"{oracle['test']:.3f} for c = {oracle['cap']}" for oracle in oracles)
    return f"Knowing every distance up to c, and saying c beyond, scores {scores}; a model that generalises is near 0."


def describe_runs(archive: Archive, models: tuple[str, ...]) -> tuple[str, ...]:
    """A sentence for every model that was trained."""
    best = [archive.of("lobster", model)[:1] for model in models]
    return tuple(_of_model(result) for results in best for result in results)


def _of_model(result: Measured) -> str:
    from relational_transformer.lobster.oracle import equivalent_cap
    from relational_transformer.lobster.protocol import LobsterProtocol

    protocol, whole = LobsterProtocol(**result.config["protocol"]), LobsterProtocol()
    share = protocol.examples / whole.examples
    trained = f"{protocol.examples:,} of {whole.examples:,} training graphs a seed"
    text = f"{title_on('lobster', variant_named(result))}: {trained} ({share:.1%} of the schedule)"
    seeds = "; ".join(f"seed {seed} {_of_seed(row)}" for seed, row in result.rows.items() if seed in result.scores)
    if not seeds:
        return f"{text}; every seed failed."
    good = [row for seed, row in result.rows.items() if seed in result.scores]
    near = [row["test_in_distribution"] for row in good if _has_near(row)]
    mean = statistics.mean(result.scores.values())
    means = f"{mean:.3f}" + (f" ({statistics.mean(near):.3f})" if near else "")
    cap = equivalent_cap(protocol.test_graphs().distances, mean)
    worth = "worse than predicting 0" if cap is None else f"that of an oracle which sees {cap:.1f} steps far"
    sizes = f"sizes {protocol.smallest_size} to {protocol.end_size - 1}"
    return f"{text}. At size {protocol.test_size} (in brackets at {sizes}): {seeds}; mean {means}, {worth}."


def _of_seed(row: Mapping[str, Any]) -> str:
    return f"{row['test']:.3f}" + (f" ({row['test_in_distribution']:.3f})" if _has_near(row) else "")


def _has_near(row: Mapping[str, Any]) -> bool:
    return row.get("test_in_distribution") is not None
