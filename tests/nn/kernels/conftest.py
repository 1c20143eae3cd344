"""Without a GPU, Triton's kernels run on the CPU through its interpreter (`tests/conftest.py` turns it on)."""

import numpy as np
import pytest
import torch


def widen(bits: np.ndarray) -> np.ndarray:
    """bfloat16, kept as its bits, to float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrow(numbers: np.ndarray) -> np.ndarray:
    """float32 to the bits of bfloat16, rounding half to even."""
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


@pytest.fixture(autouse=True, scope="session")
def _interpreter():
    """What Triton 3.6's interpreter lacks: scalars under numpy 2.4, products of bfloat16, and its rounding."""
    pytest.importorskip("triton")
    import triton.language as tl
    from triton.runtime import interpreter

    builder, patch_tensor = interpreter.InterpreterBuilder, interpreter._patch_lang_tensor
    cast, multiply = builder.cast_impl, builder.create_dot

    def patched_tensor(tensor, scope):
        patch_tensor(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    def patched_cast(self, source, target, *_):
        pair = source.dtype.scalar, target.scalar
        if pair == (tl.bfloat16, tl.float32):
            return interpreter.TensorHandle(widen(source.data), tl.float32)
        if pair == (tl.float32, tl.bfloat16):
            return interpreter.TensorHandle(narrow(source.data), tl.bfloat16)
        return cast(self, source, target)

    def patched_multiply(self, left, right, start, *options):
        left, right = (
            interpreter.TensorHandle(widen(side.data), tl.float32) if side.dtype.scalar == tl.bfloat16 else side
            for side in (left, right)
        )
        return multiply(self, left, right, start, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interpreter, "_patch_lang_tensor", patched_tensor)
        patch.setattr(builder, "create_dot", patched_multiply)
        for name in ("cast_impl", "create_fp_ext", "create_fp_trunc", "create_fp_to_fp"):
            patch.setattr(builder, name, patched_cast)
        yield


@pytest.fixture(autouse=True)
def _exact_products():
    """float32 means float32, in the kernels as in the plain path."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)
