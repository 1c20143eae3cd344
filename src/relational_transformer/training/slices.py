"""Slices of a GPU: multiprocessors that one fleet has for itself, so that fleets do not hold each other up.

NVIDIA calls them green contexts. All that is launched on a stream of such a context, graphs that were recorded on it
too, runs on its multiprocessors and nowhere else. Memory and its bandwidth are shared.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

GROUP = 8
"""Multiprocessors that are given out together: with fewer, Hopper's clusters of thread blocks would not fit."""

OF_MULTIPROCESSORS = 1
"""`CU_DEV_RESOURCE_TYPE_SM`"""
WITH_DEFAULT_STREAM = 1
"""`CU_GREEN_CTX_DEFAULT_STREAM`, without which the driver makes no context."""
NON_BLOCKING = 1
"""`CU_STREAM_NON_BLOCKING`: it does not wait for the device's default stream."""
STACK_SIZE = 0
"""`CU_LIMIT_STACK_SIZE`"""
LOCAL_BYTES = 4096
"""Local memory of a thread, more than any kernel takes (cuBLAS's take up to 1,160). The driver keeps so much for every
thread that a device can hold, by default 1,024 bytes, and takes other memory when a kernel wants more."""


class Resource(ctypes.Structure):
    """`CUdevResource`: a set of multiprocessors, of which the driver shows the number."""

    _fields_ = [
        ("type", ctypes.c_int),
        ("hidden", ctypes.c_ubyte * 92),
        ("multiprocessors", ctypes.c_uint),
        ("more", ctypes.c_ubyte * 44),
    ]


class Slice:
    """Some groups of multiprocessors, and a stream that has them."""

    def __init__(self, slices: "Slices", groups: tuple[int, ...], stream: torch.cuda.Stream) -> None:
        self.groups, self.stream = groups, stream
        self.multiprocessors = sum(slices.resources[group].multiprocessors for group in groups)
        self._slices = slices

    def give_back(self) -> None:
        """Let others have it. What was launched before may still run."""
        self._slices.free += self.groups
        self.groups = ()


class Slices:
    """The multiprocessors of a device in groups of eight, to be given out; 15 on an H200, of whose 132 twelve are left.

    One for a device and process: two of them know nothing of each other, and give out the same groups.

    >>> slices = Slices(torch.device("cuda"))  # doctest: +SKIP
    >>> a_third = slices.take(len(slices.free) // 3)  # doctest: +SKIP
    >>> with torch.cuda.stream(a_third.stream): ...  # doctest: +SKIP
    """

    def __init__(self, device: torch.device, driver: Any = None) -> None:
        self.device = device
        self._driver = driver or _driver_of(device)
        self._number = torch.cuda.current_device() if device.index is None else device.index
        every = Resource()
        self._call("cuDeviceGetDevResource", self._number, ctypes.byref(every), OF_MULTIPROCESSORS)
        self._keep_local_memory()
        count = ctypes.c_uint(every.multiprocessors // GROUP)
        found = (Resource * count.value)()
        self._call(
            "cuDevSmResourceSplitByCount",
            found, ctypes.byref(count), ctypes.byref(every), None, 0, GROUP,
        )  # fmt: skip
        self.resources: list[Resource] = list(found[: count.value])
        self.free = tuple(range(count.value))
        self._streams: dict[tuple[int, ...], torch.cuda.Stream] = {}

    def take(self, number: int) -> Slice:
        """So many groups that nobody has."""
        if not 0 < number <= len(self.free):
            raise ValueError(f"{number} groups of multiprocessors were asked for, and {len(self.free)} are free")
        groups = tuple(sorted(self.free[:number]))
        if groups not in self._streams:
            self._streams[groups] = torch.cuda.ExternalStream(self._stream(groups), self.device)
        self.free = self.free[number:]
        return Slice(self, groups, self._streams[groups])

    def _stream(self, groups: Sequence[int]) -> int:
        """The address of a stream that has these groups. It and its context live as long as the process."""
        chosen = (Resource * len(groups))(*(self.resources[group] for group in groups))
        description, context, stream = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuDevResourceGenerateDesc", ctypes.byref(description), chosen, len(groups))
        self._call("cuGreenCtxCreate", ctypes.byref(context), description, self._number, WITH_DEFAULT_STREAM)
        self._call("cuGreenCtxStreamCreate", ctypes.byref(stream), context, NON_BLOCKING, 0)
        assert stream.value is not None
        return stream.value

    def _keep_local_memory(self) -> None:
        """Take as much local memory as will be wanted now, before there are slices, so that it never moves under a
        kernel that runs in one of them."""
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._number)
        self._call("cuCtxPushCurrent_v2", context)
        self._call("cuCtxSetLimit", STACK_SIZE, ctypes.c_size_t(LOCAL_BYTES))
        self._call("cuCtxPopCurrent_v2", ctypes.byref(context))
        self._call("cuDevicePrimaryCtxRelease_v2", self._number)

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._driver, name, None)
        if function is None:
            raise RuntimeError(f"the driver cannot slice {self.device}: it is older than CUDA 12.5, without {name}")
        if status := function(*arguments):
            raise RuntimeError(f"the driver cannot slice {self.device}: {name} ends with error {status}")


class Shares:
    """Equal slices of a device for so many fleets at once.

    Whoever takes one waits until the device has done all it was given, and no other fleet is to train before that one
    has recorded its graphs, or while one is tested. Six times a fleet that trained in a slice wrote to memory that was
    not mapped while another was compiled and recorded in its own, which ends the process and all fleets in it (H200,
    driver 580, torch 2.11; two such beginnings did no harm). Local memory that moved would explain it, which is not
    proven.
    """

    def __init__(self, device: torch.device, number: int, driver: Any = None) -> None:
        if device.type != "cuda":
            raise ValueError(f"slices are of a GPU, and {device} is none")
        self._slices = Slices(device, driver)
        self.groups = len(self._slices.free) // number
        if self.groups == 0:
            most = len(self._slices.free)
            raise ValueError(f"{device} has slices for {most} fleets at once, and {number} were asked for")

    def take(self) -> Slice:
        """The next one's share."""
        torch.cuda.synchronize(self._slices.device)
        return self._slices.take(self.groups)


def _driver_of(device: torch.device) -> ctypes.CDLL:
    """NVIDIA's driver, with a context of the device."""
    torch.zeros(1, device=device)
    return ctypes.CDLL("libcuda.so.1")
