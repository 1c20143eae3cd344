import pytest
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.testing._internal.two_tensor import TwoTensor

from relational_transformer.nn import ConcatLinear, RelationalAttention
from relational_transformer.nn.plain import is_plain, is_plain_inside
from tests.nn.graphs import make_layer, make_stack


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


class Named(RelationalAttention):
    """A subclass that computes what its base does."""


class Silent(RelationalAttention):
    def forward(self, *arguments, **options):
        output = super().forward(*arguments, **options)
        return output._replace(messages=0 * output.messages)


def made_of_two(linear: nn.Linear) -> nn.Linear:
    linear.weight = nn.Parameter(TwoTensor(linear.weight.detach(), linear.weight.detach()))
    return linear


def with_forward(linear: nn.Linear) -> nn.Linear:
    linear.forward = lambda input: input  # as accelerate does
    return linear


def hooked(name: str, hook) -> nn.Linear:
    linear = nn.Linear(2, 3)
    getattr(linear, name)(hook)
    return linear


def test_modules_as_they_are_made_are_plain():
    for module in (nn.Linear(2, 3), nn.LayerNorm(3), ConcatLinear(2, 3), *make_stack().modules()):
        assert is_plain(module), type(module)


@pytest.mark.parametrize(
    "module",
    [
        hooked("register_forward_hook", lambda module, arguments, output: None),
        hooked("register_forward_pre_hook", lambda module, arguments: None),
        hooked("register_full_backward_hook", lambda module, before, after: None),
        hooked("register_full_backward_pre_hook", lambda module, after: None),
        parametrizations.weight_norm(nn.Linear(2, 3)),
        prune.l1_unstructured(nn.Linear(2, 3), "weight", 1),
        made_of_two(nn.Linear(2, 3)),
        with_forward(nn.Linear(2, 3)),
        Doubled(2, 3),
        nn.Linear(2, 3, bias=False),
        nn.LayerNorm(3, eps=1e-3),
        nn.LayerNorm(3, elementwise_affine=False),
        nn.RMSNorm(3),
        nn.Identity(),
    ],
    ids=[
        *("forward hook", "forward pre-hook", "backward hook", "backward pre-hook", "parametrized", "pruned"),
        *(
            "tensor subclass",
            "forward of its own",
            "subclass",
            "no bias",
            "other eps",
            "no weights",
            "RMSNorm",
            "other",
        ),
    ],
)
def test_what_does_more_or_something_else_is_not_plain(module: nn.Module):
    assert not is_plain(module)


def test_a_hook_that_is_removed_leaves_a_plain_module():
    linear = nn.Linear(2, 3)
    linear.register_forward_hook(print).remove()
    assert is_plain(linear)


def test_a_subclass_is_plain_unless_it_has_a_forward_of_its_own():
    sizes = {"node_size": 6, "edge_size": 5, "num_heads": 2, "head_size": 3}
    assert is_plain(Named(**sizes))
    assert not is_plain(Silent(**sizes))


def test_one_module_deep_inside_that_is_not_plain_is_found():
    layer = make_layer()
    assert is_plain_inside(layer)
    handle = layer.edge_update.message_out.register_forward_hook(lambda module, arguments, output: None)
    assert not is_plain_inside(layer)
    handle.remove()
    layer.attention.node_qkv = Doubled(6, 18)
    assert not is_plain_inside(layer)
