"""Registers, spills and shared memory of the kernels of rows, compiled by `nvcc` for Hopper. Needs no GPU.

python -m relational_transformer.nn.kernels.rows.registers
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from relational_transformer.nn.kernels.whole_layer.launching import Kernel, source_of

from . import chunks, edges

TARGET = "arch=compute_90a,code=sm_90a"
SHARED_OF_MULTIPROCESSOR = 228 * 1024
SHARED_OF_SYSTEM = 1024
"""Of every block."""
REGISTERS_OF_MULTIPROCESSOR = 65536
NODES = {128: 32, 192: 64}
"""Nodes of a graph for which the shared memory of attention is given."""


def compiled(kernel: Kernel) -> tuple[int, int]:
    """The registers of a thread, and the bytes that are spilled."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.cu"
        source.write_text(source_of(kernel))
        command = ["nvcc", "-gencode", TARGET, "--std=c++17", "-ftz=true", "-cubin", "-Xptxas", "-v", "-w"]
        command += [str(source), "-o", str(source.with_suffix(".cubin"))]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    registers = int(re.findall(r"Used (\d+) registers", said)[0])
    return registers, sum(int(number) for number in re.findall(r"(\d+) bytes spill", said))


def main() -> None:
    if shutil.which("nvcc") is None:
        sys.exit("This needs nvcc, the compiler of CUDA; there is none here.")
    head = ["kernel", "channels", "threads of a block", "registers", "spills", "shared memory"]
    head.append("blocks of a multiprocessor")
    print(f"| {' | '.join(head)} |\n|---|{'---:|' * (len(head) - 1)}")
    for name, size in (
        ("attention_rows", chunks.shared_bytes),
        ("attention_backward_rows", chunks.backward_shared_bytes),
    ):
        for channels, nodes in NODES.items():
            shared = size(channels, nodes, chunks.CHUNK_EDGES // nodes)
            print_row(name, channels, 2 * channels, shared, f" at {nodes} nodes")
    for name, size in (("edge_update_rows", edges.shared_bytes), ("edge_backward_rows", edges.backward_shared_bytes)):
        for channels in NODES:
            print_row(name, channels, edges.THREADS, size(channels), "")


def print_row(name: str, channels: int, threads: int, shared: int, remark: str) -> None:
    registers, spilled = compiled(Kernel(name, channels=channels))
    by_registers = REGISTERS_OF_MULTIPROCESSOR // (threads * -(-registers // 8) * 8)
    by_shared = SHARED_OF_MULTIPROCESSOR // (shared + SHARED_OF_SYSTEM)
    cells = [
        name,
        channels,
        threads,
        registers,
        spilled,
        f"{shared / 1024:.1f} KB{remark}",
        min(by_registers, by_shared),
    ]
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
