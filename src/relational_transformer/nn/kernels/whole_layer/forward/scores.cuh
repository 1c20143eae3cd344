// Attention's scores of every edge and head, and their softmax.
#pragma once
#include "projections.cuh"

// The values of two neighbouring nodes in a row of nodes (see kNodeStride): of `node` and of `next`.
__device__ __forceinline__ float2 node_pair(const bf16* row, int node, int next) {
    if (kNodes % 2 == 0 && next != node) {  // node is even, next follows it
        const unsigned pair = *(const unsigned*)(row + node);
        return make_float2(low_float(pair), high_float(pair));
    }
    const float first = to_float(row[node]);
    return make_float2(first, next == node ? first : to_float(row[next]));
}

// A lane's part of the scores of 32 edges and one head: edges 8 t + 2 q + c, summed over the head's channels r and r + 8.
// The sum over the eight lanes with the same q: they share out the edges in three exchanges, each lane is left with one.
using PartialScores = float[4][2];
template <int round> __device__ __forceinline__ void exchange(PartialScores& score) {
    constexpr int bit = 16 >> round;
    const bool high = lane_index() & bit;
    if (round < 2) {
#pragma unroll
        for (int t = 0; t < 2 >> round; ++t)
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                float &lower = score[t][c], &upper = score[t + (2 >> round)][c];
                const float given = high ? lower : upper, kept = high ? upper : lower;
                lower = kept + __shfl_xor_sync(0xFFFFFFFFu, given, bit);
            }
    } else {
        const float given = high ? score[0][0] : score[0][1], kept = high ? score[0][1] : score[0][0];
        score[0][0] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, bit);
    }
}
__device__ __forceinline__ void store_score(const PartialScores& score, unsigned head, unsigned group) {
    const unsigned lane = lane_index(), edge = 32 * group + (lane >> 3) * 8 + 2 * (lane & 3) + (lane >> 2 & 1);
    if (kEdges % 32 == 0 || edge < kEdges)
        shared_at<float>(ForwardShared::scores)[head * kHeadScores + edge / kNodes * kScoreStride + edge % kNodes] = score[0][0] * 0.25f;
}

// A warp scores one head for all edges, then another for half of them (12 heads, 8 warps: head w and half of 8 + w / 2),
// 32 edges a step. The sums of a step's scores, and the loads of the other head, lie between the products of the next.
// Begins with a barrier (edges, queries and keys must be there).
__device__ __forceinline__ void score_pairs(const bf16* matrices) {
    static_assert(kHeads == kWarps + kWarps / 2, "heads a warp");
    constexpr int groups = (kEdges + 31) / 32, middle = (groups + 1) / 2;
    const int warp = warp_index(), r = fragment_row(), q = quad_position(), other = kWarps + warp / 2;
    const int other_first = warp % 2 ? middle : 0, steps = groups + (warp % 2 ? groups - middle : middle);
    const bf16* packed = matrices + PackedMatrices::edge_query_key;
    LeftFragments query_weight, key_weight;
    load_left(query_weight, packed + 2 * warp * PackedMatrices::left);
    load_left(key_weight, packed + (2 * warp + 1) * PackedMatrices::left);
    packed += 2 * other * PackedMatrices::left + lane_index() * 8;
    __syncthreads();  // keeps the loads before the wait
    cp_async_wait<0>();
    __syncthreads();
    const bf16* edges = shared_at<bf16>(ForwardShared::edges);
    PartialScores previous = {};
    unsigned head = warp, group = 0, previous_head = 0, previous_group = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const bool last_of_head = step == groups - 1;
        float query_sum[4][4], key_sum[4][4];  // q_ij and k_ij of four times 8 edges, begun with the nodes' part
        const RowBlocks rows(edges, 32 * group + r);
        const bf16* query = shared_at<bf16>(ForwardShared::query) + (head * kHeadSize + r) * kNodeStride;
        const bf16* key = shared_at<bf16>(ForwardShared::key) + (head * kHeadSize + r) * kNodeStride;
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            // The lane's two edges as columns of the result. The last group may reach beyond the graph, into shared memory
            // of other use: columns do not mix, and those are not stored.
            const unsigned edge = 32 * group + 8 * t + 2 * q, next = edge + 1;
            const unsigned i = kNodes % 8 ? edge / kNodes : (32 * group + 8 * t) / kNodes, j = edge - i * kNodes;
            const unsigned next_i = kNodes % 2 ? next / kNodes : i, next_j = kNodes % 2 ? next % kNodes : j + 1;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float2 queries = node_pair(query + 8 * half * kNodeStride, i, next_i);
                const float2 keys = node_pair(key + 8 * half * kNodeStride, j, next_j);
                query_sum[t][2 * half] = queries.x, query_sum[t][2 * half + 1] = queries.y;
                key_sum[t][2 * half] = keys.x, key_sum[t][2 * half + 1] = keys.y;
            }
        }
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            uint4 edge[4];
#pragma unroll
            for (int t = 0; t < 4; ++t) edge[t] = rows.load(b, 8 * t);
#pragma unroll
            for (int s = 0; s < 2; ++s)
#pragma unroll
                for (int t = 0; t < 4; ++t) {
                    multiply_left(query_sum[t], query_weight.step[b][s], s ? edge[t].z : edge[t].x, s ? edge[t].w : edge[t].y);
                    multiply_left(key_sum[t], key_weight.step[b][s], s ? edge[t].z : edge[t].x, s ? edge[t].w : edge[t].y);
                }
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                load_constant_16_if(last_of_head, query_weight.step[b][s], packed + 32 * (2 * b + s) * 8);
                load_constant_16_if(last_of_head, key_weight.step[b][s], packed + PackedMatrices::left + 32 * (2 * b + s) * 8);
            }
            if (b == 1) exchange<0>(previous);
            if (b == 2) exchange<1>(previous);
            if (b == 3) exchange<2>(previous);
            if (b == 4 && step > 0) store_score(previous, previous_head, previous_group);
        }
#pragma unroll
        for (int t = 0; t < 4; ++t)
#pragma unroll
            for (int c = 0; c < 2; ++c) previous[t][c] = query_sum[t][c] * key_sum[t][c] + query_sum[t][2 + c] * key_sum[t][2 + c];
        previous_head = head, previous_group = group;
        head = step >= groups - 1 ? other : warp;
        group = last_of_head ? other_first : group + 1;
    }
    exchange<0>(previous);
    exchange<1>(previous);
    exchange<2>(previous);
    store_score(previous, previous_head, previous_group);
}

// The weights a_ijh of a node i and a head as bf16 in shared memory, for all j and zeros after them.
__device__ __forceinline__ bf16* weights_of(int head, int i) {
    return (bf16*)(shared_at<float>(ForwardShared::scores) + head * kHeadScores + i * kScoreStride);
}

__device__ __forceinline__ void normalize_scores(bf16* attention) {
    static_assert(kNodes * kHeads <= kThreads, "one row a thread");
    const int head = threadIdx.x / kNodes, i = threadIdx.x % kNodes;
    if (head >= kHeads) return;
    const float4* scores = (const float4*)weights_of(head, i);
    float weight[kScoreStride], largest = -3.0e38f, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < (kNodes + 3) / 4; ++k) {
        const float4 four = scores[k];
        weight[4 * k] = four.x, weight[4 * k + 1] = four.y, weight[4 * k + 2] = four.z, weight[4 * k + 3] = four.w;
    }
#pragma unroll
    for (int j = 0; j < kNodes; ++j) largest = fmaxf(largest, weight[j]);
#pragma unroll
    for (int j = 0; j < kNodes; ++j) weight[j] = __expf(weight[j] - largest), sum += weight[j];
    const float scale = __fdividef(1.0f, sum);
    unsigned pairs[8 * kNodeTiles];
#pragma unroll
    for (int k = 0; k < 8 * kNodeTiles; ++k)
        pairs[k] = pack_bf16(2 * k < kNodes ? weight[2 * k] * scale : 0.0f, 2 * k + 1 < kNodes ? weight[2 * k + 1] * scale : 0.0f);
#pragma unroll
    for (int k = 0; k < 2 * kNodeTiles; ++k)
        ((uint4*)weights_of(head, i))[k] = make_uint4(pairs[4 * k], pairs[4 * k + 1], pairs[4 * k + 2], pairs[4 * k + 3]);
    if (!kKeeps) return;
    bf16* row = attention + (head * kNodes + i) * kNodes;
#pragma unroll
    for (int k = 0; k < kNodes; k += kNodes % 8 == 0 ? 8 : kNodes % 4 == 0 ? 4 : 1) {
        if (kNodes % 8 == 0) *(uint4*)(row + k) = make_uint4(pairs[k / 2], pairs[k / 2 + 1], pairs[k / 2 + 2], pairs[k / 2 + 3]);
        else if (kNodes % 4 == 0) *(uint2*)(row + k) = make_uint2(pairs[k / 2], pairs[k / 2 + 1]);
        else row[k] = bf16{(unsigned short)(pairs[k / 2] >> k % 2 * 16)};
    }
}
