"""The whole-layer kernels on a CPU: compiled by g++ against `cuda_on_cpu.h`, which emulates a thread block."""

import ctypes
import hashlib
import platform
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

from relational_transformer.nn.kernels.whole_layer import launching

HERE = Path(__file__).parent
COMPILER = shutil.which("g++") if platform.machine() == "x86_64" else None
"""The emulator switches between threads by hand, in the language of one kind of processor."""

ENTRIES = {
    "layer_forward": """
        extern "C" int run(int graphs, int seeds, int order, const LayerWeights* weights, const SeedStrides* strides,
                           const bf16* nodes, const bf16* edges, bf16* kept_nodes, bf16* kept_edges, bf16* new_nodes,
                           bf16* new_edges, bf16* attention, bf16* middle_nodes, bf16* messages, bf16* context,
                           bf16* edge_normals, bf16* edge_hidden, bf16* node_qkv, bf16* node_normals,
                           bf16* node_hidden) {
            const LayerWeights copy = *weights;
            const SeedStrides apart = *strides;
            return emulator::launch(graphs, seeds, kThreads, ForwardShared::bytes, order, [=] {
                layer_forward(copy, apart, nodes, edges, kept_nodes, kept_edges, new_nodes, new_edges, attention,
                              middle_nodes, messages, context, edge_normals, edge_hidden, node_qkv, node_normals,
                              node_hidden);
            });
        }
    """,
    "layer_inference": """
        extern "C" int run(int graphs, int seeds, int order, const LayerWeights* weights, const bf16* nodes,
                           const bf16* edges, bf16* new_nodes, bf16* new_edges, bf16* context) {
            const LayerWeights copy = *weights;
            return emulator::launch(graphs, seeds, kThreads, ForwardShared::bytes, order, [=] {
                layer_inference(copy, nodes, edges, new_nodes, new_edges, context);
            });
        }
    """,
    "layer_backward": """
        extern "C" int run(int graphs, int seeds, int order, const backward::Arguments* arguments) {
            const backward::Arguments copy = *arguments;
            return emulator::launch(graphs, seeds, backward::kThreads, backward::Sizes<NODES>::kShared, order,
                                    [=] { layer_backward(copy); });
        }
    """,
    "attention_rows": """
        extern "C" int run(int blocks, int seeds, int order, long long bytes, const rows::Attention* arguments) {
            const rows::Attention copy = *arguments;
            return emulator::launch(blocks, seeds, rows::kAttentionThreads, bytes, order,
                                    [=] { attention_rows(copy); });
        }
    """,
    "attention_backward_rows": """
        extern "C" int run(int blocks, int seeds, int order, long long bytes,
                           const rows::AttentionBackward* arguments) {
            const rows::AttentionBackward copy = *arguments;
            return emulator::launch(blocks, seeds, rows::kAttentionThreads, bytes, order,
                                    [=] { attention_backward_rows(copy); });
        }
    """,
    "edge_update_rows": """
        extern "C" int run(int blocks, int seeds, int order, long long bytes, const rows::EdgeUpdate* arguments) {
            const rows::EdgeUpdate copy = *arguments;
            return emulator::launch(blocks, seeds, rows::kUpdateThreads, bytes, order, [=] { edge_update_rows(copy); });
        }
    """,
    "edge_backward_rows": """
        extern "C" int run(int blocks, int seeds, int order, long long bytes, const rows::EdgeBackward* arguments) {
            const rows::EdgeBackward copy = *arguments;
            return emulator::launch(blocks, seeds, rows::kUpdateThreads, bytes, order,
                                    [=] { edge_backward_rows(copy); });
        }
    """,
}


def emulated(order: int = 0) -> launching.Launch:
    """What launches kernels in the emulator; `order` of the warps: 0 forwards, 1 backwards, 2 and more at random."""

    def launch(
        kernel: launching.Kernel, grid: tuple[int, int], arguments: Sequence[Any], block: launching.Block
    ) -> None:
        library = build(kernel)
        given = [ctypes.byref(one) if isinstance(one, ctypes.Structure) else one for one in arguments]
        size = [] if block is launching.WHOLE_LAYER else [ctypes.c_longlong(block.shared_bytes)]
        if library.run(*grid, order, *size, *given):
            raise RuntimeError(library.emulator_error().decode())

    return launch


def recording(names: list[str]) -> launching.Launch:
    """What launches kernels in the emulator, and adds their names to the list."""
    launch = emulated()

    def launch_and_note(kernel: launching.Kernel, *arguments: Any) -> None:
        names.append(kernel.name)
        launch(kernel, *arguments)

    return launch_and_note


@contextmanager
def emulator_in_use() -> Iterator[None]:
    """Within the block kernels on tensors of the CPU run in the emulator."""
    launching.set_emulator(emulated())
    try:
        yield
    finally:
        launching.set_emulator(None)


@cache
def build(kernel: launching.Kernel) -> ctypes.CDLL:
    """Compile a kernel; the same source is compiled once."""
    assert COMPILER is not None
    source = "\n".join(
        [
            '#include "cuda_on_cpu.h"',
            launching.source_of(kernel),
            ENTRIES[kernel.name],
            'extern "C" const char* emulator_error() { return emulator::error; }',
        ]
    )
    key = hashlib.sha256((source + (HERE / "cuda_on_cpu.h").read_text()).encode()).hexdigest()[:16]
    folder = Path(gettempdir()) / "relational-transformer-emulated"
    folder.mkdir(exist_ok=True)
    library = folder / f"{key}.so"
    if not library.exists():
        flags = ["-O2", "-std=c++17", "-fno-strict-aliasing", "-w", "-shared", "-fPIC", f"-I{HERE}"]
        with TemporaryDirectory(dir=folder) as own:  # another process of the tests may be compiling the same
            text, unfinished = Path(own) / f"{key}.cpp", Path(own) / f"{key}.so"
            text.write_text(source)
            subprocess.run([COMPILER, *flags, str(text), "-o", str(unfinished)], check=True)
            unfinished.replace(library)
    loaded = ctypes.CDLL(str(library))
    loaded.emulator_error.restype = ctypes.c_char_p
    return loaded
