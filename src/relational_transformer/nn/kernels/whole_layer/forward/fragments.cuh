// Operands of the forward kernel's products, and the copies that bring them.
#pragma once
#include "shared_memory.cuh"

// Of 16 rows of a swizzled array in shared memory as the left operand, in the natural order of k.
struct RowFragments { unsigned step[kChannels / 16][4]; };
__device__ __forceinline__ void load_rows(RowFragments& rows, const bf16* array, int first_row) {
    const int row = min(first_row + lane_index() % 16, kNodes - 1);  // beyond the graph: any row, its results are not kept
    const SwizzledChunks chunks(array, row, lane_index() / 16);
#pragma unroll
    for (int s = 0; s < kChannels / 16; ++s) ldmatrix_x4(rows.step[s], chunks.at(s));
}
__device__ __forceinline__ void multiply_block(float (&d)[4], const RowFragments& rows, int b, const uint4& weight) {
    const unsigned first[2] = {weight.x, weight.y}, second[2] = {weight.z, weight.w};
    mma_16x8x16(d, rows.step[2 * b], first);
    mma_16x8x16(d, rows.step[2 * b + 1], second);
}
// In products with edges or means of edges the weights are the left operand (M: 16 output channels), kept in registers,
// and the edges the right one (N: 8 edges), 16 bytes at a time as they lie: the words x, y and z, w of a load are operands
// without a move, which permutes k: a lane's are 32 b + 8 q to + 7. Accumulators: channels r and r + 8 of edges 2 q ([0]
// and [2]) and 2 q + 1 ([1] and [3]).
struct LeftFragments { uint4 step[kColumnBlocks][2]; };
__device__ __forceinline__ void load_left(LeftFragments& fragments, const bf16* packed) {
#pragma unroll
    for (int k = 0; k < 2 * kColumnBlocks; ++k) fragments.step[k / 2][k % 2] = load_constant_16(packed + (32 * k + lane_index()) * 8);
}
__device__ __forceinline__ void multiply_left(float (&d)[4], const uint4& weight, unsigned first, unsigned second) {
    const unsigned a[4] = {weight.x, weight.y, weight.z, weight.w}, b[2] = {first, second};
    mma_16x8x16(d, a, b);
}

__device__ __forceinline__ void copy_async(int target, const void* source, int bytes) {
#pragma unroll 1
    for (int k = threadIdx.x * 16; k < bytes; k += kThreads * 16) cp_async_16(dynamic_shared_memory() + target + k, (const char*)source + k);
}
// Two groups of copies: nodes, biases and norms; then the edges.
__device__ __forceinline__ void start_loading(const LayerWeights& weights, const bf16* nodes, const bf16* edges) {
    copy_rows_async<kNodes>(shared_at<bf16>(ForwardShared::nodes), nodes);
    copy_async(ForwardShared::vectors, weights.vectors, PackedVectors::size * 4);
    cp_async_commit();
    bf16* shared_edges = shared_at<bf16>(ForwardShared::edges);
    copy_rows_async<kEdges>(shared_edges, edges);
    cp_async_commit();
    if constexpr (kEdges % 16 != 0) {  // rows that pad the last tile
#pragma unroll 1
        for (int k = kEdges * kChannels / 8 + threadIdx.x; k < kEdgeTiles * 16 * kChannels / 8; k += kThreads)
            ((uint4*)shared_edges)[k] = make_uint4(0, 0, 0, 0);
    }
}
