"""Slices of a GPU: what is launched on one stays there, and is what it is on the whole device."""

import pytest
import torch

from relational_transformer.training import RunFolder, Trainer
from relational_transformer.training.session import train_together
from relational_transformer.training.slices import Slices
from tests.gpu.test_training import NO_EDGE_UPDATES, config, run

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

DEVICE = torch.device("cuda", 0)
BLOCKS = 4096
WHERE = """
extern "C" __global__ void where(int* found) {
    unsigned number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    for (int turn = 0; turn < 100; ++turn) __nanosleep(100);
    found[blockIdx.x] = number;
}
"""


def multiprocessors_of(stream: torch.cuda.Stream) -> set[int]:
    """Where thread blocks that are launched on a stream run, by themselves and as a recorded graph."""
    kernel = torch.cuda._compile_kernel(WHERE, "where")
    found = torch.full((2, BLOCKS), -1, dtype=torch.int32, device=DEVICE)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        kernel(grid=(BLOCKS, 1, 1), block=(32, 1, 1), args=(found[0],))
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        kernel(grid=(BLOCKS, 1, 1), block=(32, 1, 1), args=(found[1],))
        graph.capture_end()
        graph.replay()
    torch.cuda.synchronize()
    launched, replayed = (set(row.tolist()) for row in found)
    assert launched == replayed
    return launched


def test_two_slices_have_no_multiprocessor_in_common():
    slices = Slices(DEVICE)
    one, other = slices.take(2), slices.take(3)
    of_one, of_other = multiprocessors_of(one.stream), multiprocessors_of(other.stream)
    assert (len(of_one), len(of_other)) == (one.multiprocessors, other.multiprocessors) == (16, 24)
    assert not of_one & of_other
    everywhere = multiprocessors_of(torch.cuda.Stream(DEVICE))
    assert len(everywhere) == torch.cuda.get_device_properties(DEVICE).multi_processor_count


@pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals
@pytest.mark.parametrize("changes", [{}, NO_EDGE_UPDATES, {"precision": "tf32"}])
def test_a_fleet_on_a_slice_trains_to_the_bits_of_one_on_the_whole_device(tmp_path, changes):
    setting = config("insertion_sort", compile="on", **changes)
    whole = run(setting, tmp_path / "whole")
    folder = RunFolder(tmp_path / "slice")
    with folder.opened(setting.as_dict()):
        trainer = Trainer(setting, folder, DEVICE, Slices(DEVICE).take(2))
        for _ in trainer.run():
            pass
        trainer.finish()
    assert torch.equal(trainer.fleet.values, whole.fleet.values)
    assert torch.equal(trainer.validation_scores, whole.validation_scores)


@pytest.mark.filterwarnings("ignore")  # compilers of torch warn about their own internals
def test_fleets_that_share_out_the_device_end_as_they_do_alone(tmp_path):
    settings = [config("bfs"), config("insertion_sort"), config("binary_search")]
    runs = [(setting, str(tmp_path / setting.task)) for setting in settings]
    sliced = train_together(runs, DEVICE, at_once=2, sliced=True)
    for setting, result in zip(settings, sliced, strict=True):
        (alone,) = train_together([(setting, str(tmp_path / f"alone-{setting.task}"))], DEVICE)
        assert alone["seeds"] == result["seeds"]
