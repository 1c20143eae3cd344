// Operands of the backward kernel's products, and edges on their way into shared memory.
#pragma once
#include "registers.cuh"

namespace backward {

// A lane's B fragments of packed weights with `steps` mma steps: those of two steps lie together.
__device__ __forceinline__ void weight_fragments(unsigned (&even)[2], unsigned (&odd)[2], const bf16* packed, int steps, int column_tile, int step, int lane) {
    const uint4 pairs = *(const uint4*)(packed + ((column_tile * steps + step) * 32 + 2 * lane) * 4);
    even[0] = pairs.x, even[1] = pairs.y, odd[0] = pairs.z, odd[1] = pairs.w;
}

// The same, all steps of `tiles` column tiles, loaded here and now.
template <int tiles>
__device__ __forceinline__ void load_fragments(uint4 (&pairs)[tiles][kSteps / 2], const bf16* packed, int lane) {
#pragma unroll
    for (int k = 0; k < tiles * kSteps / 2; ++k) pairs[k / (kSteps / 2)][k % (kSteps / 2)] = load_now_16(packed + (k * 32 + lane) * 8);
}
// Those of weights with half a step, [192, 8], the other half zeros: four column tiles together.
__device__ __forceinline__ void load_half_step(uint4 (&words)[kColumnTiles / 4], const bf16* packed, int lane) {
#pragma unroll
    for (int k = 0; k < kColumnTiles / 4; ++k) words[k] = load_now_16(packed + (k * 32 + lane) * 8);
}
__device__ __forceinline__ void multiply_pairs(float (&d)[4], const unsigned (&a)[4], const uint4& pairs, int which) {
    const unsigned b[2] = {which % 2 ? pairs.z : pairs.x, which % 2 ? pairs.w : pairs.y};
    mma_16x8x16(d, a, b);
}
__device__ __forceinline__ void multiply_half(float (&d)[4], const unsigned (&a)[4], const uint4& words, int which) {
    const unsigned b[2] = {word(words, which % 4), 0};
    mma_16x8x16(d, a, b);
}

// Where half `half` (8 channels) of row `row` of X lies: rows of 32 bytes, halves swapped in every other group of four rows,
// so that the 8 rows of an ldmatrix meet different banks.
__device__ __forceinline__ int hidden_at(int row, int half) { return row * kHidden1 + ((half ^ (row >> 2)) & 1) * 8; }

// The A fragment X^T: 16 hidden channels x the 16 edges from `row`.
__device__ __forceinline__ void hidden_transposed(unsigned (&a)[4], const bf16* hidden, int row, int lane) {
    ldmatrix_x4_transpose(a, hidden + hidden_at(row + lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

// B fragments of 16 edges (the k) x the warp's 24 columns from a row-major matrix in shared memory.
__device__ __forceinline__ void own_columns(unsigned (&b)[kOwnTiles][2], const bf16* tile, int warp, int lane) {
    const bf16* address = tile + lane % 16 * kRow + warp * kOwnColumns;
    unsigned both[4];
    ldmatrix_x4_transpose(both, address + lane / 16 * 8);
    b[0][0] = both[0], b[0][1] = both[1], b[1][0] = both[2], b[1][1] = both[3];
    ldmatrix_x2_transpose(b[2], address + 16);
}

// Calls use(row, column) for the lane's 16-byte pieces of a tile of 16 rows: constant offsets from its first one, and 128 bytes of a row at a time.
template <class Use>
__device__ __forceinline__ void for_pieces(int lane, Use use) {
#pragma unroll
    for (int k = 0; k < 12; ++k) use(lane / 8 + k / 3 * 4, lane % 8 * 8 + k % 3 * 64);
}

template <int count>
__device__ __forceinline__ void clear(float (&tiles)[count][4]) {
#pragma unroll
    for (int t = 0; t < count; ++t) tiles[t][0] = tiles[t][1] = tiles[t][2] = tiles[t][3] = 0.0f;
}

// All sums begin at 0.
__device__ __forceinline__ void clear_sums(float* partial, int thread) {
    for (int k = thread; k < kPartial / 4; k += kThreads) *(float4*)(partial + 4 * k) = make_float4(0, 0, 0, 0);
}

// A tile of e into shared memory, asynchronously (commit and wait are the caller's); zeros where it reaches beyond the edges.
template <int N>
__device__ __forceinline__ void copy_edges_async(bf16* edges, const bf16* edges_in, int tile, int lane) {
    using S = Sizes<N>;
    for_pieces(lane, [&](int row, int column) {
        const int edge = tile * 16 + row;
        if (S::kRows == S::kEdges || edge < S::kEdges) cp_async_16(edges + edge * kRow + column, edges_in + edge * kChannels + column);
        else *(uint4*)(edges + edge * kRow + column) = make_uint4(0, 0, 0, 0);
    });
}

}  // namespace backward
