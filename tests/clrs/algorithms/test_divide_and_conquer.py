"""The maximum subarray against all subarrays."""

import numpy as np
import pytest

from relational_transformer.clrs import sample


@pytest.mark.parametrize("length", [1, 2, 12])
def test_no_subarray_has_a_larger_sum(length):
    data = sample("find_maximum_subarray_kadane", 30, length, seed=9)
    assert data.inputs["key"].min() < 0
    for example, keys in enumerate(data.inputs["key"].astype(np.float64)):
        start, end = data.outputs["start"][example].argmax(), data.outputs["end"][example].argmax()
        sums = [keys[i : j + 1].sum() for i in range(length) for j in range(i, length)]
        assert keys[start : end + 1].sum() == pytest.approx(max(sums))
        assert data.hints["best_sum"][-1, example] == pytest.approx(max(sums), rel=1e-6)
