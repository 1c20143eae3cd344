"""Tile sizes and the pieces the Triton kernels share.

Kernels run in programs of one warp: nothing waits at barriers, and a multiprocessor holds many of them. The products
inside them are small (16 rows); the large ones are cuBLAS's. Programs of four warps would turn them into Hopper's
warpgroup instructions, which the assembler shipped with Triton 3.6 miscompiles in kernels of several products (wrong
numbers, or reads past the end of shared memory).
"""

import torch
import triton
import triton.language as tl

MULTIPROCESSORS = 132  # of a large device
SMALLEST_DOT = 16
PREFERRED_WIDTH = 64


def one_warp(registers: int) -> dict[str, int]:
    """Compiler options for a kernel whose programs are one warp with `registers` registers per thread."""
    return {"num_warps": 1, "num_stages": 1, "maxnreg": registers}


def programs_at_once(registers: int) -> int:
    """The number of such programs that a large device holds at once.

    Each of a multiprocessor's four quarters has 512 registers for every thread of a warp, so that between 128, 168 and
    255 registers nothing is won. Kernels that share out their work start as many programs as this: one program more is
    a second round, in which most of the device has nothing to do.

    >>> [programs_at_once(registers) // MULTIPROCESSORS for registers in (128, 168, 200, 255)]
    [16, 12, 8, 8]
    """
    return MULTIPROCESSORS * 4 * (512 // registers)


def padded(size: int) -> int:
    """The power of two, at least 16, that an axis is padded to inside a kernel."""
    return max(SMALLEST_DOT, triton.next_power_of_2(size))


def chunk_width(size: int) -> int:
    """Width of the chunks that a vector of ``size`` channels is cut into: 192 channels are 3 chunks, unpadded."""
    return min(PREFERRED_WIDTH, padded(size))


def dot_precision(dtype: torch.dtype) -> str:
    """``ieee`` for float32 when the user asked torch for the highest precision; else three tf32 products for one."""
    highest = dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    return "ieee" if highest else "tf32x3"


@triton.jit
def load_columns(pointer, rows, row_valid, stride, columns, column_valid):
    """Some columns of rows ``stride`` apart, zero where they do not exist."""
    where = rows[:, None] * stride + columns[None, :]
    return tl.load(pointer + where, mask=row_valid[:, None] & column_valid[None, :], other=0.0)


@triton.jit
def load_rows(pointer, rows, row_valid, stride, WIDTH: tl.constexpr, WIDTH_PAD: tl.constexpr):
    """Rows of WIDTH columns, ``stride`` apart, as a tile [rows, WIDTH_PAD], zero where they do not exist."""
    columns = tl.arange(0, WIDTH_PAD)
    return load_columns(pointer, rows, row_valid, stride, columns, columns < WIDTH)


@triton.jit
def load_chunks(pointer, rows, row_valid, stride, WIDTH: tl.constexpr, CHUNK: tl.constexpr, CHUNKS: tl.constexpr):
    """The same as a tuple of tiles [rows, CHUNK]."""
    tiles = ()
    for chunk in tl.static_range(CHUNKS):
        columns = chunk * CHUNK + tl.arange(0, CHUNK)
        tile = load_columns(pointer, rows, row_valid, stride, columns, columns < WIDTH)
        tiles = tiles + (tile,)  # noqa: RUF005
    return tiles


@triton.jit
def store_chunk(pointer, rows, row_valid, stride, tile, chunk: tl.constexpr, WIDTH: tl.constexpr):
    """Write chunk number ``chunk`` of rows of WIDTH columns, ``stride`` apart."""
    columns = chunk * tile.shape[1] + tl.arange(0, tile.shape[1])
    where = rows[:, None] * stride + columns[None, :]
    value = tile.to(pointer.dtype.element_ty)
    tl.store(pointer + where, value, mask=row_valid[:, None] & (columns < WIDTH)[None, :])


@triton.jit
def store_rows(pointer, rows, row_valid, stride, tile, WIDTH: tl.constexpr):
    """Write a tile [rows, padded width] to rows of WIDTH columns, ``stride`` apart."""
    store_chunk(pointer, rows, row_valid, stride, tile, 0, WIDTH)
