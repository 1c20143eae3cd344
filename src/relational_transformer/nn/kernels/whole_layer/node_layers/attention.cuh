// Attention among the nodes: scores, softmax and messages of a head by one warp, all of it in its registers.
#pragma once
#include "../forward/node_update.cuh"

// Over the four lanes that share a fragment's row.
__device__ __forceinline__ float quad_max(float value) {
    value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, 2));
}

constexpr int kNeighbourTiles = 2 * kNodeTiles;  // of 8 nodes j
// Weights a_ij of 16 nodes i as pairs of neighbouring j: of row r ([..][0]) and of row r + 8 ([..][1]). They are left operands as they are.
using WeightPairs = unsigned[kNeighbourTiles][2];

// q_i . k_j / 4 of the nodes i from first_node on, then softmax over j. Queries and keys lie by channel, [16, kNodeStride].
// Nodes beyond the graph are whatever lies there: as j they get no weight, as i nobody reads them.
__device__ __forceinline__ void weigh(WeightPairs& weights, const bf16* query, const bf16* key, int first_node) {
    const int lane = lane_index(), q = quad_position();
    unsigned queries[4];
    ldmatrix_x4_transpose(queries, query + (lane % 8 + lane / 16 * 8) * kNodeStride + first_node + lane / 8 % 2 * 8);
    float scores[kNeighbourTiles][4], largest[2] = {-3.0e38f, -3.0e38f}, sum[2] = {0, 0};
#pragma unroll
    for (int t = 0; t < kNeighbourTiles; ++t) {
        unsigned keys[2];
        ldmatrix_x2_transpose(keys, key + lane % 16 * kNodeStride + min(8 * t, kNodeStride - 8));
#pragma unroll
        for (int k = 0; k < 4; ++k) scores[t][k] = 0.0f;
        mma_16x8x16(scores[t], queries, keys);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            scores[t][k] = 8 * t + 2 * q + k % 2 < kNodes ? scores[t][k] * 0.25f : -3.0e38f;
            largest[k / 2] = fmaxf(largest[k / 2], scores[t][k]);
        }
    }
#pragma unroll
    for (int below = 0; below < 2; ++below) largest[below] = quad_max(largest[below]);
#pragma unroll
    for (int t = 0; t < kNeighbourTiles; ++t)
#pragma unroll
        for (int k = 0; k < 4; ++k) scores[t][k] = __expf(scores[t][k] - largest[k / 2]), sum[k / 2] += scores[t][k];
#pragma unroll
    for (int below = 0; below < 2; ++below) {
        const float scale = __fdividef(1.0f, quad_sum(sum[below]));
#pragma unroll
        for (int t = 0; t < kNeighbourTiles; ++t) weights[t][below] = pack_bf16(scores[t][2 * below] * scale, scores[t][2 * below + 1] * scale);
    }
}

// Keeps the weights of the nodes from first_node on, [N, N].
__device__ __forceinline__ void keep_weights(const WeightPairs& weights, bf16* attention, int first_node) {
#pragma unroll
    for (int t = 0; t < kNeighbourTiles; ++t)
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            const int i = first_node + fragment_row() + 8 * below, j = 8 * t + 2 * quad_position();
            bf16* at = attention + i * kNodes + j;
            if (i >= kNodes || j >= kNodes) continue;
            if (kNodes % 2 == 0) *(unsigned*)at = weights[t][below];
            else {
                at[0] = bf16{(unsigned short)weights[t][below]};
                if (j + 1 < kNodes) at[1] = bf16{(unsigned short)(weights[t][below] >> 16)};
            }
        }
}

// The messages of all heads, into shared memory; queries, keys and values must be there.
__device__ __forceinline__ void attend(bf16* attention, bf16* kept_messages) {
    const int r = fragment_row(), q = quad_position();
#pragma unroll 1
    for (int head = warp_index(); head < kHeads; head += kWarps) {
        const int offset = head * kHeadSize * kNodeStride;
        const bf16* value = shared_at<bf16>(ForwardShared::value) + offset + r * kNodeStride;
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            WeightPairs weights;
            weigh(weights, shared_at<bf16>(ForwardShared::query) + offset, shared_at<bf16>(ForwardShared::key) + offset, 16 * m);
            if (kKeeps) keep_weights(weights, attention + head * kEdges, 16 * m);
#pragma unroll
            for (int half = 0; half < 2; ++half) {  // eight channels of the head
                float sums[4] = {0, 0, 0, 0};
#pragma unroll
                for (int k = 0; k < kNodeTiles; ++k) {
                    const unsigned left[4] = {weights[2 * k][0], weights[2 * k][1], weights[2 * k + 1][0], weights[2 * k + 1][1]};
                    const bf16* row = value + 8 * half * kNodeStride;
                    const unsigned values[2] = {node_word(row, 16 * k + 2 * q), node_word(row, 16 * k + 8 + 2 * q)};
                    mma_16x8x16(sums, left, values);
                }
#pragma unroll
                for (int below = 0; below < 2; ++below) {
                    const int node = 16 * m + r + 8 * below, column = head * kHeadSize + 8 * half + 2 * q;
                    if (node >= kNodes) continue;
                    const unsigned pair = pack_bf16(sums[2 * below], sums[2 * below + 1]);
                    *(unsigned*)(shared_at<bf16>(ForwardShared::messages) + row_offset(node, column)) = pair;
                    if (kKeeps) *(unsigned*)(kept_messages + node * kChannels + column) = pair;
                }
            }
        }
    }
}
