"""Without a GPU, Triton's kernels run on the CPU through its interpreter; it must know before it is imported."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(autouse=True, scope="session")
def _scalars_of_the_interpreter():
    """Triton 3.6's interpreter turns one-element arrays into int, which numpy 2.4 no longer does by itself."""
    pytest.importorskip("triton")
    from triton.runtime import interpreter

    patch_tensor = interpreter._patch_lang_tensor

    def patch(tensor, scope):
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = patch
    yield
    interpreter._patch_lang_tensor = patch_tensor


@pytest.fixture(autouse=True)
def _exact_products():
    """float32 means float32, in the kernels as in the plain path."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)
