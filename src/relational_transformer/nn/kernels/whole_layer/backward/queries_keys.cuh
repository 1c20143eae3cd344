// Phase 5: queries and keys of edges and nodes.
#pragma once
#include "fragments.cuh"

namespace backward {

// Gradients of one head's queries and keys of the edges, in the tiles first_tile, first_tile + tile_step, ...; and the sums over them of
// every node: dq, dk. Packed rows of a head's weights are in the order that gives a lane channels 4 q ... 4 q + 3: 2 q, 2 q + 1 of its first
// column tile hold channels 4 q, 4 q + 1, those of the second 4 q + 2, 4 q + 3.
template <int N>
struct NodeSums {
    float query[Sizes<N>::kNodeTiles][2][4], key[Sizes<N>::kNodeTiles][2][4];
};

// `together` edge tiles at once, so that the products of one hide the latency of another's.
template <int N, int together>
__device__ __forceinline__ void query_key_tiles(unsigned char* shared, int head, int tile, int tile_step, const unsigned (&fragments)[4][kSteps][2],
                                                bf16* query_key_gradient, NodeSums<N>& nodes) {
    using S = Sizes<N>;
    constexpr bool whole = S::kRows == S::kEdges;  // no tile reaches beyond the edges
    const int lane = thread_index() % 32, r = lane / 4, q = lane % 4;
    const bf16* edges = (const bf16*)shared;
    const bf16* query_key = (const bf16*)(shared + S::kStage) + head * kHeadSize + 4 * q;
    const bf16* scores = (const bf16*)(shared + S::kScores) + head * S::kRows + r;
    float sums[together][4][4], ds[together][2];  // q_i + qe_ij, then k_j + ke_ij
#pragma unroll
    for (int n = 0; n < together; ++n)
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            const int row = (tile + n * tile_step) * 16 + r + 8 * below, edge = whole ? row : min(row, S::kEdges - 1);
            ds[n][below] = as_float(scores[(tile + n * tile_step) * 16 + 8 * below]);
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                const uint2 pairs = *(const uint2*)(query_key + (part ? edge % N : edge / N) * S::kQueryKeyPitch + part * kChannels);
                sums[n][2 * part][2 * below] = low_half(pairs.x), sums[n][2 * part][2 * below + 1] = high_half(pairs.x);
                sums[n][2 * part + 1][2 * below] = low_half(pairs.y), sums[n][2 * part + 1][2 * below + 1] = high_half(pairs.y);
            }
        }
    const bf16* rows = edges + (tile * 16 + lane % 16) * kRow + lane / 16 * 8;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        unsigned a[together][4];
#pragma unroll
        for (int n = 0; n < together; ++n) ldmatrix_x4(a[n], rows + n * tile_step * 16 * kRow + step * 16);
#pragma unroll
        for (int t = 0; t < 4; ++t)
#pragma unroll
            for (int n = 0; n < together; ++n) mma_16x8x16(sums[n][t], a[n], fragments[t][step]);
    }
#pragma unroll
    for (int n = 0; n < together; ++n) {
        const int first = (tile + n * tile_step) * 16;
        unsigned query[2][2], key[2][2];  // their gradients by column tile and row; then turned: B fragments whose k are the edges
#pragma unroll
        for (int below = 0; below < 2; ++below) {
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                const float *by_query = sums[n][2 + t] + 2 * below, *by_key = sums[n][t] + 2 * below;
                query[t][below] = pack_bf16(ds[n][below] * by_query[0], ds[n][below] * by_query[1]);
                key[t][below] = pack_bf16(ds[n][below] * by_key[0], ds[n][below] * by_key[1]);
                if (N == 16) {  // the tile is a row of the graph: its edges end at nodes 0, 1, ...
                    float* sum = nodes.key[0][t] + 2 * below;
                    sum[0] += ds[n][below] * by_key[0], sum[1] += ds[n][below] * by_key[1];
                }
            }
            const int edge = first + r + 8 * below;
            if (whole || edge < S::kEdges) {
                bf16* at = query_key_gradient + edge * 2 * kChannels + head * kHeadSize + 4 * q;
                *(uint2*)at = make_uint2(query[0][below], query[1][below]);
                *(uint2*)(at + kChannels) = make_uint2(key[0][below], key[1][below]);
            }
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            query[k / 2][k % 2] = movmatrix_transpose(query[k / 2][k % 2]);
            if (N != 16) key[k / 2][k % 2] = movmatrix_transpose(key[k / 2][k % 2]);
        }
        // One-hot rows: node m takes the edges it starts (queries) or ends (keys).
        const int first_edge = first + 2 * q;
#pragma unroll
        for (int m = 0; m < S::kNodeTiles; ++m) {
            unsigned starts[4], ends[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int node = 16 * m + r + k % 2 * 8, e0 = first_edge + k / 2 * 8, e1 = e0 + 1;
                starts[k] = N == 16 ? (first / 16 == node ? 0x3F803F80u : 0u) : (e0 / N == node ? 0x3F80u : 0u) | (e1 / N == node ? 0x3F800000u : 0u);
                ends[k] = (e0 % N == node ? 0x3F80u : 0u) | (e1 % N == node ? 0x3F800000u : 0u);
            }
            const bool touched = N == 16 || (first / N < 16 * m + 16 && (first + 15) / N >= 16 * m);
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                if (touched) mma_16x8x16(nodes.query[m][t], starts, query[t]);
                if (N != 16) mma_16x8x16(nodes.key[m][t], ends, key[t]);
            }
        }
    }
}

template <int N>
__device__ __forceinline__ void queries_keys_backward(unsigned char* shared, int head, int first_tile, int tile_step, const bf16* weights,
                                                      bf16* query_key_gradient, NodeSums<N>& nodes) {
    using S = Sizes<N>;
    const int lane = thread_index() % 32;
    unsigned fragments[4][kSteps][2];  // two column tiles of the queries, two of the keys
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
        for (int step = 0; step < kSteps; step += 2)
            weight_fragments(fragments[t][step], fragments[t][step + 1], weights + kEdgeQueryKey, kSteps, t / 2 * kColumnTiles + 2 * head + t % 2, step, lane);
#pragma unroll
    for (int m = 0; m < S::kNodeTiles; ++m) clear(nodes.query[m]), clear(nodes.key[m]);
    int tile = first_tile;
#pragma unroll 1
    for (; tile + tile_step < S::kTiles; tile += 2 * tile_step) query_key_tiles<N, 2>(shared, head, tile, tile_step, fragments, query_key_gradient, nodes);
    if (S::kTiles % 4 != 0 && tile < S::kTiles) query_key_tiles<N, 1>(shared, head, tile, tile_step, fragments, query_key_gradient, nodes);
}

// Calls use(node, channel of the head, the lane's value) for every sum of the lane.
template <int N, class Use>
__device__ __forceinline__ void for_node_sums(NodeSums<N>& nodes, int lane, Use use) {
#pragma unroll
    for (int m = 0; m < Sizes<N>::kNodeTiles; ++m)
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                const int node = 16 * m + lane / 4 + 8 * below, channel = 4 * (lane % 4) + 2 * t;
                if (node < N) {
                    use(node, channel, nodes.query[m][t][2 * below], nodes.query[m][t][2 * below + 1]);
                    use(node, kChannels + channel, nodes.key[m][t][2 * below], nodes.key[m][t][2 * below + 1]);
                }
            }
}

// All heads: warp w takes head w, then every other tile of head 8 + w / 2.
template <int N>
__device__ __forceinline__ void all_queries_keys_backward(unsigned char* shared, const bf16* weights, bf16* query_key_gradient, bf16* qkv_gradient) {
    using S = Sizes<N>;
    static_assert(kHeads == kWarps + kWarps / 2, "heads by warps");
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
    NodeSums<N> nodes;
    auto store = [&](int head) {
        for_node_sums(nodes, lane, [&](int node, int channel, float first, float second) {
            pair_at(qkv_gradient + node * 3 * kChannels + head * kHeadSize + channel) = pack_bf16(first, second);
        });
    };
    queries_keys_backward<N>(shared, warp, 0, 1, weights, query_key_gradient, nodes);
    store(warp);
    const int head = kWarps + warp / 2;
    queries_keys_backward<N>(shared, head, warp % 2, 2, weights, query_key_gradient, nodes);
    float* halves = (float*)(shared + S::kHalves) + warp / 2 * N * 32;  // [N][queries 16, keys 16] of the odd warp
    auto half_at = [&](int node, int channel) { return (float2*)(halves + node * 32 + (channel >= kChannels ? 16 + channel - kChannels : channel)); };
    if (warp % 2)
        for_node_sums(nodes, lane, [&](int node, int channel, float first, float second) { *half_at(node, channel) = make_float2(first, second); });
    __syncthreads();
    if (warp % 2 == 0) {
        for_node_sums(nodes, lane, [&](int node, int channel, float& first, float& second) {
            const float2 other = *half_at(node, channel);
            first += other.x, second += other.y;
        });
        store(head);
    }
}

}  // namespace backward
