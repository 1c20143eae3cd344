"""The source of a kernel: what is compiled, and for what."""

import pytest

from relational_transformer.nn.kernels.whole_layer.launching import SOURCES, Kernel, source_of


@pytest.mark.parametrize("name", SOURCES)
def test_the_source_of_a_kernel_is_one_piece_in_which_every_file_is_once(name: str):
    source = source_of(Kernel(name, 16, True))
    assert '.cuh"' not in source
    assert source.count("struct bf16 {") == 1
    assert source.count("#ifndef UPDATE_EDGES") == 1
    assert name in source


def test_what_a_kernel_is_compiled_for_is_defined_before_anything_else():
    source = source_of(Kernel("layer_inference", 20, False))
    assert source.startswith("#define CHANNELS 192\n#define NODES 20\n#define UPDATE_EDGES 0\n#define KEEPS 0\n")
    assert source != source_of(Kernel("layer_inference", 20, True))
