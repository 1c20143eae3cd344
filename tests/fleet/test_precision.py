"""How float32 matrices are multiplied."""

import pytest
import torch

from relational_transformer.fleet.precision import Precision, set_matrix_products


@pytest.mark.parametrize(
    ("precision", "products"), [("fp32", "highest"), ("fp64", "highest"), ("tf32", "high"), ("bf16", "high")]
)
def test_only_full_precision_refuses_tf32(precision: Precision, products: str):
    before = torch.get_float32_matmul_precision()
    try:
        set_matrix_products(precision)
        assert torch.get_float32_matmul_precision() == products
    finally:
        torch.set_float32_matmul_precision(before)
