"""Before anything else is imported: without a GPU, Triton's kernels run on the CPU through its interpreter."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported, which any test may do
