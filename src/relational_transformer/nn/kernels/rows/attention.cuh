// Relational attention of one head size (16), forward: scores, softmax, mean edges and sums of values, all in one pass over
// the edges.
//
// A thread block has a warp for each head and keeps running: it takes chunks of whole rows i of a graph, some 128 edges
// e_ij, one after the other. The weights of a warp's queries and keys stay in its registers for all of them. While a chunk
// is worked on, the copy of the next one comes. A chunk has two phases, each begun with a barrier:
//   score, normalize   q_ij . k_ij of every edge, softmax over j, sums of values    a warp takes a head
//   average            context_ih = sum_j a_ijh e_ij of all heads                   a warp takes 16 channels
//
// What should limit it: of an edge, 4 D^2 FLOP of queries and keys at the rate of mma.sync (about 3.7 TFLOP/s a
// multiprocessor of an H200), which is 2.5 us for 64 edges of 192 channels; beside it the warps read every edge in shared
// memory H times (24.5 KB for 64 edges, 1.3 us), and device memory has to bring 24.5 KB a multiprocessor (0.8 us).
#pragma once
#include "attended.cuh"

namespace rows {

constexpr int kScoredRows = 4;  // rows of which a warp takes the softmax at once

struct Attention {
    Attended of;
    float* value_sums;                // [S, G, NQ, D]: sum_j a_ij v_j
    float* log_sums;                  // [S, G, NQ, H]: base 2; 0 where a row attends to nobody
    bf16* context;                    // [S, G, NQ, H, D]
    float scale;                      // log2(e) / 4: scores are exponents of 2
};

// What lies where in shared memory: two chunks of edges, swizzled; then scores, float [H, capacity]; then weights as bf16
// [rows, H, row of weights], zero beyond the keys up to a multiple of 16.
struct AttentionShared {
    bf16* edges[2];
    float* scores;
    bf16* weights;
    int weight_row;  // 8 more than the keys need: no bank conflicts for 8 heads x 4 pairs of keys
    __device__ __forceinline__ AttentionShared(const Attended& given) {
        edges[0] = (bf16*)dynamic_shared_memory();
        edges[1] = edges[0] + given.capacity * kChannels;
        scores = (float*)(edges[1] + given.capacity * kChannels);
        weights = (bf16*)(scores + kHeads * given.capacity);
        weight_row = (given.keys + 15) / 16 * 16 + 8;
    }
    __device__ __forceinline__ bf16* weights_of(int row, int head) const { return weights + (row * kHeads + head) * weight_row; }
};

// Scores of the warp's head, 16 edges at a time.
__device__ __forceinline__ void score_edges(const Attention& pass, const Chunk& chunk, const TileFragments (&weight)[4], const bf16* edges,
                                            float* scores) {
    const Attended& given = pass.of;
    const int r = fragment_row(), q = quad_position(), channel = warp_index() * kHeadSize + 4 * q;
    const bf16* query = given.query + chunk.node(given) * given.query_stride + channel;
    const bf16* key = given.key + (long long)chunk.graph * given.keys * given.key_stride + channel;
    const unsigned char* mask = mask_of(given, chunk);
#pragma unroll 1
    for (int first = 0; first < chunk.edges; first += 16) {
        Four queries[2], keys[2];
        bool present = true;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const EdgeOf edge(min(first + 8 * half + r, chunk.edges - 1), given.keys);
            queries[half] = load_four(query + edge.row * given.query_stride);
            keys[half] = load_four(key + (long long)edge.key * given.key_stride);
            if (mask && q == half) present = mask[edge.row * given.mask_row + edge.key * given.mask_key];
        }
        Products products = {};
        multiply_edges(products, weight, edges, first);
        // Even lanes of a quad are left with the sum over the upper edge, odd ones with that over the lower.
        const float upper = dot(add_product_of(queries[0], products[0], 0), add_product_of(keys[0], products[1], 0));
        const float lower = dot(add_product_of(queries[1], products[0], 1), add_product_of(keys[1], products[1], 1));
        float sum = (q & 1 ? lower : upper) + __shfl_xor_sync(0xFFFFFFFFu, q & 1 ? upper : lower, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        if (q < 2) scores[first + 8 * q + r] = present ? sum * pass.scale : minus_infinity();
    }
}

__device__ __forceinline__ float warp_largest(float value) {
#pragma unroll
    for (int bit = 16; bit; bit /= 2) value = fmaxf(value, __shfl_xor_sync(0xFFFFFFFFu, value, bit));
    return value;
}
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int bit = 16; bit; bit /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, bit);
    return value;
}

// Softmax of the head's rows, and their sums of values, four rows at a time (the last one several times over, if there are
// fewer): lanes share out the keys.
__device__ __forceinline__ void normalize_rows(const Attention& pass, const Chunk& chunk, const AttentionShared& shared, const float* scores) {
    const Attended& given = pass.of;
    const int lane = lane_index(), head = warp_index(), channel = head * kHeadSize + lane % 8 * 2;
    const bf16* value = given.value + (long long)chunk.graph * given.keys * given.value_stride + channel;
#pragma unroll 1
    for (int first = 0; first < chunk.rows; first += kScoredRows) {
        const float* row_scores[kScoredRows];
        bf16* weights[kScoredRows];
        float largest[kScoredRows], total[kScoredRows], sums[kScoredRows][2] = {};
#pragma unroll
        for (int u = 0; u < kScoredRows; ++u) {
            const int row = min(first + u, chunk.rows - 1);
            row_scores[u] = scores + row * given.keys;
            weights[u] = shared.weights_of(row, head);
            largest[u] = minus_infinity(), total[u] = 0.0f;
        }
        for (int j = lane; j < given.keys; j += 32)
#pragma unroll
            for (int u = 0; u < kScoredRows; ++u) largest[u] = fmaxf(largest[u], row_scores[u][j]);
#pragma unroll
        for (int u = 0; u < kScoredRows; ++u) {
            largest[u] = warp_largest(largest[u]);
            if (largest[u] == minus_infinity()) largest[u] = 0.0f;  // all weights are zero then
        }
        for (int j = lane; j < given.keys; j += 32)
#pragma unroll
            for (int u = 0; u < kScoredRows; ++u) total[u] += exp2f(row_scores[u][j] - largest[u]);
        float inverse[kScoredRows];
#pragma unroll
        for (int u = 0; u < kScoredRows; ++u) {
            total[u] = warp_sum(total[u]);
            inverse[u] = total[u] > 0.0f ? __fdividef(1.0f, total[u]) : 0.0f;
            const long long node = chunk.node(given) + min(first + u, chunk.rows - 1);
            if (lane == 0) pass.log_sums[node * kHeads + head] = total[u] > 0.0f ? largest[u] + log2f(total[u]) : 0.0f;
        }
        for (int j = lane; j < shared.weight_row - 8; j += 32)
#pragma unroll
            for (int u = 0; u < kScoredRows; ++u)
                weights[u][j] = to_bf16(j < given.keys ? exp2f(row_scores[u][j] - largest[u]) * inverse[u] : 0.0f);
        __syncwarp();
#pragma unroll 4
        for (int j = lane / 8; j < given.keys; j += 4) {
            const unsigned pair = load_constant_4(value + (long long)j * given.value_stride);
#pragma unroll
            for (int u = 0; u < kScoredRows; ++u) {
                const float weight = to_float(weights[u][j]);
                sums[u][0] += weight * low_float(pair), sums[u][1] += weight * high_float(pair);
            }
        }
#pragma unroll
        for (int u = 0; u < kScoredRows; ++u)
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                sums[u][c] += __shfl_xor_sync(0xFFFFFFFFu, sums[u][c], 8);
                sums[u][c] += __shfl_xor_sync(0xFFFFFFFFu, sums[u][c], 16);
            }
        if (lane >= 8) continue;
#pragma unroll
        for (int u = 0; u < kScoredRows; ++u)
            if (first + u < chunk.rows)
                *(float2*)(pass.value_sums + (chunk.node(given) + first + u) * kChannels + channel) = make_float2(sums[u][0], sums[u][1]);
    }
}

// The warp's 16 channels of the context of every head: the weights [heads, j] times the edges [j, channels].
__device__ __forceinline__ void average_edges(const Attention& pass, const Chunk& chunk, const AttentionShared& shared, const bf16* edges) {
    const Attended& given = pass.of;
    const int lane = lane_index(), r = fragment_row(), q = quad_position(), first_channel = 16 * warp_index();
    const int lower_head = min(r + 8, kHeads - 1);  // heads that do not exist: any other
#pragma unroll 1
    for (int row = 0; row < chunk.rows; ++row) {
        const bf16 *upper = shared.weights_of(row, min(r, kHeads - 1)) + 2 * q, *lower = shared.weights_of(row, lower_head) + 2 * q;
        float left[4] = {}, right[4] = {};
#pragma unroll 2
        for (int j = 0; j < given.keys; j += 16) {
            const unsigned weight[4] = {*(const unsigned*)(upper + j), *(const unsigned*)(lower + j), *(const unsigned*)(upper + j + 8),
                                        *(const unsigned*)(lower + j + 8)};
            const int edge = min(row * given.keys + j + lane % 16, chunk.edges - 1);  // beyond the row: any, its weight is zero
            unsigned columns[4];
            ldmatrix_x4_transpose(columns, edges + row_offset(edge, first_channel + lane / 16 * 8));
            const unsigned left_columns[2] = {columns[0], columns[1]}, right_columns[2] = {columns[2], columns[3]};
            mma_16x8x16(left, weight, left_columns);
            mma_16x8x16(right, weight, right_columns);
        }
        bf16* context = pass.context + (chunk.node(given) + row) * kHeads * kChannels + first_channel + four_column();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint2 four = exchange_halves(left, right, half);
            if (r + 8 * half < kHeads) *(uint2*)(context + (r + 8 * half) * kChannels) = four;
        }
    }
}

}  // namespace rows

// Grid (blocks that share the chunks of a seed, seeds).
extern "C" __global__ void __launch_bounds__(rows::kAttentionThreads, kChannels > 128 ? 1 : 2)
attention_rows(const rows::Attention pass) {
    using namespace rows;
    const Attended& given = pass.of;
    const AttentionShared shared(given);
    const int chunks = given.chunks();
    TileFragments weight[4];
    load_weights(weight, given);
    const auto copy = [&](int number, int turn) {
        const Chunk chunk(given, number);
        copy_rows(turn ? shared.edges[1] : shared.edges[0], edges_of(given, chunk), chunk.edges);
        cp_async_commit();
    };
    if (blockIdx.x < chunks) copy(blockIdx.x, 0);
    int turn = 0;
#pragma unroll 1
    for (int number = blockIdx.x; number < chunks; number += gridDim.x, turn ^= 1) {
        const Chunk chunk(given, number);
        const bf16* edges = turn ? shared.edges[1] : shared.edges[0];
        float* scores = shared.scores + warp_index() * given.capacity;
        cp_async_wait<0>();
        __syncthreads();  // the edges are there, and nobody reads the last chunk any more
        if (number + gridDim.x < chunks) copy(number + gridDim.x, turn ^ 1);
        score_edges(pass, chunk, weight, edges, scores);
        __syncwarp();
        normalize_rows(pass, chunk, shared, scores);
        __syncthreads();
        average_edges(pass, chunk, shared, edges);
    }
}
