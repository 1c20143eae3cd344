"""A fleet of models, run layer by layer with one compiled layer."""

from torch import Tensor

from relational_transformer.fleet.graphs import recomputed
from relational_transformer.fleet.pieces import Parameters, Pieces, over_seeds

from .model import LayeredModel, PaddedGraphs


class FleetStack:
    """Predictions of all seeds, equal to those of `model(graphs)` for each seed.

    Layers have the same shapes and take their parameters as arguments, so that one compiled layer runs all of them.

    Attributes:
        recompute: whether layers are recomputed in the backward pass, which does not change the result.
    """

    def __init__(self, model: LayeredModel, compiled: bool) -> None:
        self.num_layers = len(model.layers)
        self.recompute = False
        self._first = over_seeds(model.first, "forward")
        pieces = Pieces(next(model.parameters()).device, compiled=compiled, even_sizes=True)
        self._layer = pieces.of(model.layers[0], "forward")
        self._last = over_seeds(model.last, "forward")

    def __call__(self, parameters: Parameters, graphs: PaddedGraphs) -> Tensor:
        """Predictions [S, B]; parameters [S, *shape] by name, graphs [S, B, ...]."""
        first, layers, last = self._by_part(parameters)
        state = self._first(first, graphs)
        for layer in layers:
            if self.recompute:
                state = recomputed(self._layer, layer, graphs, state)
            else:
                state = self._layer(layer, graphs, state)
        return self._last(last, graphs, state)

    def _by_part(self, parameters: Parameters) -> tuple[Parameters, list[Parameters], Parameters]:
        """The parameters of the input module, of every layer, and of the output module, by their names within it."""
        first: Parameters = {}
        layers: list[Parameters] = [{} for _ in range(self.num_layers)]
        last: Parameters = {}
        for name, values in parameters.items():
            part, _, rest = name.partition(".")
            if part == "layers":
                number, _, rest = rest.partition(".")
                layers[int(number)][rest] = values
            else:
                (first if part == "first" else last)[rest] = values
        return first, layers, last
