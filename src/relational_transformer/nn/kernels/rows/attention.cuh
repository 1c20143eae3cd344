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
#include "../whole_layer/tile.cuh"

namespace rows {

constexpr int kAttentionThreads = 32 * kHeads;
constexpr int kScoredRows = 4;  // rows of which a warp takes the softmax at once
constexpr float kMinusInfinity = -__builtin_huge_valf();

// A seed's tensors follow each other. Rows of queries, keys and values lie their strides apart, of channels by heads.
struct Attention {
    const bf16 *query, *key, *value;  // [S, G, NQ or NK, D]
    const bf16* edges;                // [S, G, NQ, NK, D]
    const bf16* weights;              // [S, H] of four tiles: two of queries, two of keys
    const unsigned char* mask;        // [S, G, NQ, NK] by its strides; null where every pair is there
    float* value_sums;                // [S, G, NQ, D]: sum_j a_ij v_j
    float* log_sums;                  // [S, G, NQ, H]: base 2; 0 where a row attends to nobody
    bf16* context;                    // [S, G, NQ, H, D]
    long long mask_seed, mask_graph, mask_row, mask_key;
    int query_stride, key_stride, value_stride;
    int graphs, queries, keys;
    int rows;      // of a chunk, at most
    int capacity;  // edges of a chunk, at most, up to a multiple of 16
    float scale;   // log2(e) / 4: scores are exponents of 2
};

// What lies where in shared memory: two chunks of edges, swizzled; then scores, float [H, capacity]; then weights as bf16
// [rows, H, row of weights], zero beyond the keys up to a multiple of 16.
struct AttentionShared {
    bf16* edges[2];
    float* scores;
    bf16* weights;
    int weight_row;  // 8 more than the keys need: no bank conflicts for 8 heads x 4 pairs of keys
    __device__ __forceinline__ AttentionShared(const Attention& given) {
        edges[0] = (bf16*)dynamic_shared_memory();
        edges[1] = edges[0] + given.capacity * kChannels;
        scores = (float*)(edges[1] + given.capacity * kChannels);
        weights = (bf16*)(scores + kHeads * given.capacity);
        weight_row = (given.keys + 15) / 16 * 16 + 8;
    }
    __device__ __forceinline__ bf16* weights_of(int row, int head) const { return weights + (row * kHeads + head) * weight_row; }
};

// Some rows of a graph.
struct Chunk {
    int graph;   // of all graphs of all seeds
    int first;   // row of the graph
    int rows;
    int edges;
    __device__ __forceinline__ Chunk(const Attention& given, int number) {
        const int of_graph = (given.queries + given.rows - 1) / given.rows;
        graph = blockIdx.y * given.graphs + number / of_graph;
        first = number % of_graph * given.rows;
        rows = min(given.rows, given.queries - first);
        edges = rows * given.keys;
    }
    __device__ __forceinline__ long long node(const Attention& given) const { return (long long)graph * given.queries + first; }
};

// Begins to copy the edges of a chunk; every thread stays at its 8 channels and goes on 16 edges at a time.
__device__ __forceinline__ void copy_edges(const Attention& given, const Chunk& chunk, bf16* shared) {
    constexpr int pieces = kChannels / 8, at_once = kAttentionThreads / pieces;
    static_assert(at_once % 8 == 0 && kAttentionThreads % pieces == 0, "rows of a thread are swizzled alike");
    const int first = threadIdx.x / pieces, column = threadIdx.x % pieces * 8;
    const bf16* global = given.edges + (chunk.node(given) * given.keys + first) * kChannels + column;
    shared += row_offset(first, column);
#pragma unroll 4
    for (int edge = first; edge < chunk.edges; edge += at_once, shared += at_once * kChannels, global += at_once * kChannels)
        cp_async_16(shared, global);
    cp_async_commit();
}

// Eight channels as the lanes of a quad hold those of an accumulator: two words of the four that a head has.
struct HeadWords { unsigned words[2]; };
__device__ __forceinline__ HeadWords load_head(const bf16* row) {
    return {load_constant_4(row), load_constant_4(row + 8)};
}
// q . k of the lane's channels of an edge: of products with its edge vector and what its nodes add.
__device__ __forceinline__ float score_of(const float (&query)[2][4], const float (&key)[2][4], int half, const HeadWords& queries,
                                          const HeadWords& keys) {
    float sum = 0.0f;
#pragma unroll
    for (int t = 0; t < 2; ++t) {
        sum += (query[t][2 * half] + low_float(queries.words[t])) * (key[t][2 * half] + low_float(keys.words[t]));
        sum += (query[t][2 * half + 1] + high_float(queries.words[t])) * (key[t][2 * half + 1] + high_float(keys.words[t]));
    }
    return sum;
}

// Scores of the warp's head, 16 edges at a time: the edges are the left operand, the head's channels the right one.
__device__ __forceinline__ void score_edges(const Attention& given, const Chunk& chunk, const TileFragments (&weight)[4], const bf16* edges,
                                            float* scores) {
    const int lane = lane_index(), r = fragment_row(), q = quad_position(), head = warp_index();
    const unsigned reciprocal = (1u << 20) / given.keys + 1;  // its quotients are exact as long as edges * keys < 2^20
    const bf16* query = given.query + chunk.node(given) * given.query_stride + head * kHeadSize + 2 * q;
    const bf16* key = given.key + (long long)chunk.graph * given.keys * given.key_stride + head * kHeadSize + 2 * q;
    const unsigned char* mask = given.mask;
    if (mask) {
        mask += blockIdx.y * given.mask_seed + (chunk.graph - blockIdx.y * given.graphs) * given.mask_graph;
        mask += chunk.first * given.mask_row;
    }
#pragma unroll 1
    for (int first = 0; first < chunk.edges; first += 16) {
        HeadWords queries[2], keys[2];
        bool present = true;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int edge = min(first + 8 * half + r, chunk.edges - 1);
            const int i = edge * reciprocal >> 20, j = edge - i * given.keys;
            queries[half] = load_head(query + i * given.query_stride);
            keys[half] = load_head(key + (long long)j * given.key_stride);
            if (mask && q == half) present = mask[i * given.mask_row + j * given.mask_key];
        }
        float from_edge[2][2][4] = {};  // queries, keys; two tiles of 8 channels
        const SwizzledChunks columns(edges, first + lane % 16, lane / 16);
#pragma unroll
        for (int s = 0; s < kChannels / 16; ++s) {
            unsigned rows[4];
            ldmatrix_x4(rows, columns.at(s));
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                const uint4& block = weight[t].block[s / 2];
                const unsigned words[2] = {s % 2 ? block.z : block.x, s % 2 ? block.w : block.y};
                mma_16x8x16(from_edge[t / 2][t % 2], rows, words);
            }
        }
        // Even lanes of a quad are left with the sum over the upper edge, odd ones with that over the lower.
        const float upper = score_of(from_edge[0], from_edge[1], 0, queries[0], keys[0]);
        const float lower = score_of(from_edge[0], from_edge[1], 1, queries[1], keys[1]);
        float sum = (q & 1 ? lower : upper) + __shfl_xor_sync(0xFFFFFFFFu, q & 1 ? upper : lower, 1);
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
        if (q < 2) scores[first + 8 * q + r] = present ? sum * given.scale : kMinusInfinity;
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
__device__ __forceinline__ void normalize_rows(const Attention& given, const Chunk& chunk, const AttentionShared& shared, const float* scores) {
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
            largest[u] = kMinusInfinity, total[u] = 0.0f;
        }
        for (int j = lane; j < given.keys; j += 32)
#pragma unroll
            for (int u = 0; u < kScoredRows; ++u) largest[u] = fmaxf(largest[u], row_scores[u][j]);
#pragma unroll
        for (int u = 0; u < kScoredRows; ++u) {
            largest[u] = warp_largest(largest[u]);
            if (largest[u] == kMinusInfinity) largest[u] = 0.0f;  // all weights are zero then
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
            if (lane == 0) given.log_sums[node * kHeads + head] = total[u] > 0.0f ? largest[u] + log2f(total[u]) : 0.0f;
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
                *(float2*)(given.value_sums + (chunk.node(given) + first + u) * kChannels + channel) = make_float2(sums[u][0], sums[u][1]);
    }
}

// The warp's 16 channels of the context of every head: the weights [heads, j] times the edges [j, channels].
__device__ __forceinline__ void average_edges(const Attention& given, const Chunk& chunk, const AttentionShared& shared, const bf16* edges) {
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
        // Neighbouring lanes exchange halves so that each stores 4 consecutive channels (even lanes of the left tile).
        bf16* context = given.context + (chunk.node(given) + row) * kHeads * kChannels + first_channel + 2 * (q & 2) + (q & 1) * 8;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned in_left = pack_bf16(left[2 * half], left[2 * half + 1]);
            const unsigned in_right = pack_bf16(right[2 * half], right[2 * half + 1]);
            const unsigned received = __shfl_xor_sync(0xFFFFFFFFu, q & 1 ? in_left : in_right, 1);
            const uint2 four = q & 1 ? make_uint2(received, in_right) : make_uint2(in_left, received);
            if (r + 8 * half < kHeads) *(uint2*)(context + (r + 8 * half) * kChannels) = four;
        }
    }
}

}  // namespace rows

// Grid (blocks that share the chunks of a seed, seeds).
extern "C" __global__ void __launch_bounds__(rows::kAttentionThreads, kChannels > 128 ? 1 : 2)
attention_rows(const rows::Attention given) {
    using namespace rows;
    const AttentionShared shared(given);
    const int chunks = (given.queries + given.rows - 1) / given.rows * given.graphs;
    TileFragments weight[4];
#pragma unroll
    for (int t = 0; t < 4; ++t)
        load_tile(weight[t], given.weights + ((long long)(blockIdx.y * kHeads + warp_index()) * 4 + t) * 8 * kChannels);
    if (blockIdx.x < chunks) copy_edges(given, Chunk(given, blockIdx.x), shared.edges[0]);
    int turn = 0;
#pragma unroll 1
    for (int number = blockIdx.x; number < chunks; number += gridDim.x, turn ^= 1) {
        const Chunk chunk(given, number);
        bf16* edges = turn ? shared.edges[1] : shared.edges[0];
        float* scores = shared.scores + warp_index() * given.capacity;
        cp_async_wait<0>();
        __syncthreads();  // the edges are there, and nobody reads the last chunk any more
        if (number + gridDim.x < chunks) copy_edges(given, Chunk(given, number + gridDim.x), turn ? shared.edges[0] : shared.edges[1]);
        score_edges(given, chunk, weight, edges, scores);
        __syncwarp();
        normalize_rows(given, chunk, shared, scores);
        __syncthreads();
        average_edges(given, chunk, shared, edges);
    }
}
