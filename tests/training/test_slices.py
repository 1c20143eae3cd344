"""Slices of a GPU, with a driver that has none: multiprocessors are given out once, and come back."""

import ctypes

import pytest
import torch

from relational_transformer.training.slices import GROUP, Resource, Shares, Slices

DEVICE = torch.device("cuda", 0)
PRIMARY = 77
"""The context of the device in this process, by its address."""


class Driver:
    """Has 132 multiprocessors, of which 15 groups of 8 can be made, as on an H200."""

    def __init__(self, fails: str | None = None) -> None:
        self.fails = fails
        self.contexts: list[int] = []
        self.waits: list[int] = []  # how many contexts there were when somebody waited for the device
        self.current: list[int] = []  # contexts of this thread
        self.kept: list[tuple[int, int, int]] = []  # context, its local memory, how many contexts of slices there were

    def __getattr__(self, name: str):
        return lambda *arguments: 1 if name == self.fails else getattr(self, f"_{name}")(*arguments)

    def _cuDeviceGetDevResource(self, device, every, kind) -> int:
        every._obj.multiprocessors = 132
        return 0

    def _cuDevSmResourceSplitByCount(self, found, count, every, rest, flags, size) -> int:
        count._obj.value = 15
        for number in range(15):
            found[number].multiprocessors, found[number].hidden[0] = size, number
        return 0

    def _cuDevicePrimaryCtxRetain(self, context, device) -> int:
        context._obj.value = PRIMARY
        return 0

    def _cuDevicePrimaryCtxRelease_v2(self, device) -> int:
        return 0

    def _cuCtxPushCurrent_v2(self, context) -> int:
        self.current.append(context.value)
        return 0

    def _cuCtxPopCurrent_v2(self, context) -> int:
        context._obj.value = self.current.pop()
        return 0

    def _cuCtxSetLimit(self, limit, value) -> int:
        assert limit == 0
        self.kept.append((self.current[-1], value.value, len(self.contexts)))
        return 0

    def _cuDevResourceGenerateDesc(self, description, chosen, number) -> int:
        description._obj.value = 1 + sum(1 << one.hidden[0] for one in chosen[:number])
        return 0

    def _cuGreenCtxCreate(self, context, description, device, flags) -> int:
        context._obj.value = description.value
        self.contexts.append(description.value - 1)
        return 0

    def _cuGreenCtxStreamCreate(self, stream, context, flags, priority) -> int:
        stream._obj.value = context.value
        return 0


@pytest.fixture
def driver(monkeypatch) -> Driver:
    driver = Driver()
    monkeypatch.setattr(torch.cuda, "ExternalStream", lambda address, device: address)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: driver.waits.append(len(driver.contexts)))
    return driver


def test_a_resource_is_as_large_as_the_drivers():
    assert ctypes.sizeof(Resource) == 144


def test_no_two_slices_share_a_group(driver):
    slices = Slices(DEVICE, driver)
    taken = [slices.take(number) for number in (3, 2, 10)]
    assert [one.multiprocessors for one in taken] == [GROUP * number for number in (3, 2, 10)]
    assert sorted(group for one in taken for group in one.groups) == list(range(15))
    assert sum(driver.contexts) == 2**15 - 1, "the contexts have other groups than the slices say"
    with pytest.raises(ValueError, match="1 groups of multiprocessors were asked for, and 0 are free"):
        slices.take(1)


def test_local_memory_is_kept_before_there_are_slices(driver):
    Slices(DEVICE, driver).take(3)
    assert driver.kept == [(PRIMARY, 4096, 0)]
    assert driver.current == [], "the thread is left with another context"


def test_what_is_given_back_can_be_had_again_on_the_same_stream(driver):
    slices = Slices(DEVICE, driver)
    first, rest = slices.take(2), slices.take(13)
    first.give_back()
    again = slices.take(2)
    assert (again.groups, again.stream) == ((0, 1), first.stream)
    rest.give_back()
    rest.give_back()  # twice is as good as once
    assert len(slices.free) == 13


def test_fleets_at_once_have_equal_shares(driver):
    shares = Shares(DEVICE, 4, driver)
    taken = [shares.take() for _ in range(4)]
    assert [one.multiprocessors for one in taken] == [3 * GROUP] * 4
    taken[1].give_back()  # this fleet has ended, and the next begins
    assert len(shares.take().groups) == 3
    assert driver.waits == [0, 1, 2, 3, 4], "a slice was given out while others may train"
    with pytest.raises(ValueError, match="cuda:0 has slices for 15 fleets at once, and 16 were asked for"):
        Shares(DEVICE, 16, driver)
    with pytest.raises(ValueError, match="slices are of a GPU, and cpu is none"):
        Shares(torch.device("cpu"), 2)


def test_a_driver_without_slices_says_so_in_one_sentence(driver):
    driver.fails = "cuGreenCtxCreate"
    slices = Slices(DEVICE, driver)
    with pytest.raises(RuntimeError, match="the driver cannot slice cuda:0: cuGreenCtxCreate ends with error 1"):
        slices.take(3)
    assert len(slices.free) == 15, "what nobody got is lost"
    with pytest.raises(RuntimeError, match=r"it is older than CUDA 12\.5, without cuDeviceGetDevResource"):
        Slices(DEVICE, object())
