// Queries, keys and values of the nodes.
#pragma once
#include "fragments.cuh"

// Queries and keys are projected three tiles of 8 outputs at a time and warp; values likewise, but after the scores: only
// then are they needed, and at the start all graphs of the device ask for weights and edges at once.
constexpr int kProjected = 3, kQueryKeyTiles = 2 * kColumnTiles / kWarps;  // a warp's tiles of queries and keys
static_assert(kQueryKeyTiles % kProjected == 0 && kColumnTiles == kWarps * kProjected, "tiles a warp");
using NodeRows = RowFragments[kNodeTiles];
using ProjectionWeights = TileFragments[kProjected];

__device__ __forceinline__ void load_projection(ProjectionWeights& weights, const bf16* matrices, int tile) {
#pragma unroll
    for (int t = 0; t < kProjected; ++t)
        load_tile(weights[t], matrices + PackedMatrices::node_qkv + (tile + t) * PackedMatrices::tile);
}
__device__ __forceinline__ void load_nodes(NodeRows& rows) {
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m) load_rows(rows[m], shared_at<bf16>(ForwardShared::nodes), 16 * m);
}
// The three tiles from `tile` on, into the rows of queries, keys and values. If `more`, the next three tiles' weights are
// loaded as registers become free.
__device__ __forceinline__ void project(const NodeRows& rows, ProjectionWeights& weights, int tile, const bf16* matrices, bool more, bf16* node_qkv) {
    const int r = fragment_row(), q = quad_position();
    const float* bias = shared_vector(PackedVectors::node_qkv_bias) + 8 * tile + 2 * q;
    const bf16* next = matrices + PackedMatrices::node_qkv + (tile + kProjected) * PackedMatrices::tile + lane_index() * 8;
    float d[kProjected][kNodeTiles][4];
#pragma unroll
    for (int t = 0; t < kProjected; ++t)
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            const float2 start = *(const float2*)(bias + 8 * t);
            d[t][m][0] = d[t][m][2] = start.x, d[t][m][1] = d[t][m][3] = start.y;
        }
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) {
#pragma unroll
        for (int s = 0; s < 2; ++s)
#pragma unroll
            for (int t = 0; t < kProjected; ++t)
#pragma unroll
                for (int m = 0; m < kNodeTiles; ++m) {
                    const uint4& weight = weights[t].block[b];
                    const unsigned words[2] = {s ? weight.z : weight.x, s ? weight.w : weight.y};
                    mma_16x8x16(d[t][m], rows[m].step[2 * b + s], words);
                }
#pragma unroll
        for (int t = 0; t < kProjected; ++t)
            load_constant_16_if(more, weights[t].block[b], next + t * PackedMatrices::tile + 32 * b * 8);
    }
    bf16* output = shared_at<bf16>(ForwardShared::query) + (8 * tile + 2 * q) * kNodeStride + r;
    node_qkv += r * 3 * kChannels + 8 * tile + 2 * q;
#pragma unroll
    for (int t = 0; t < kProjected; ++t)
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            bf16 *first_channel = output + 8 * t * kNodeStride + 16 * m, *second_channel = first_channel + kNodeStride;
            if (16 * m + r < kNodes) first_channel[0] = to_bf16(d[t][m][0]), second_channel[0] = to_bf16(d[t][m][1]);
            if (16 * m + r + 8 < kNodes) first_channel[8] = to_bf16(d[t][m][2]), second_channel[8] = to_bf16(d[t][m][3]);
            unsigned* kept = (unsigned*)(node_qkv + 16 * m * 3 * kChannels + 8 * t);
            if (kKeeps && 16 * m + r < kNodes) kept[0] = pack_bf16(d[t][m][0], d[t][m][1]);
            if (kKeeps && 16 * m + r + 8 < kNodes) kept[8 * 3 * kChannels / 2] = pack_bf16(d[t][m][2], d[t][m][3]);
        }
}
// Starts all copies and waits for the nodes. The first weights are loaded before anything else.
__device__ __forceinline__ void project_queries_keys(const LayerWeights& weights, const bf16* nodes, const bf16* edges, bf16* node_qkv) {
    const int first = warp_index() * kQueryKeyTiles;
    ProjectionWeights projection;
    load_projection(projection, weights.matrices, first);
    start_loading(weights, nodes, edges);
    cp_async_wait<1>();
    __syncthreads();
    NodeRows rows;
    load_nodes(rows);
#pragma unroll 1
    for (int tile = first; tile < first + kQueryKeyTiles; tile += kProjected)
        project(rows, projection, tile, weights.matrices, tile < first + kQueryKeyTiles - kProjected, node_qkv);
}
