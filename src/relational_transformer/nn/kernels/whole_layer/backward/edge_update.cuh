// Phase 1: the edge update.
#pragma once
#include "staged_rows.cuh"

namespace backward {

// Leaves e in shared memory (not yet waited for), dh1 in X, dx1 in edges_gradient, and the edge update's sums (but own, reverse) in partial; what is
// left to do for those of Dm and of the first norm's bias: finish_edge_sums.
template <int N>
__device__ __forceinline__ void edge_update_backward(unsigned char* shared, const bf16* edges_in, const bf16* edge_normals, const bf16* edge_hidden, const bf16* gradient_in,
                                                     const bf16* weights, const float* vectors, bf16* edges_gradient, float* partial, bool first) {
    using S = Sizes<N>;
    constexpr bool whole = S::kRows == S::kEdges;  // no tile reaches beyond the edges; where one does, its rows are zeros there
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
    bf16 *edges = (bf16*)shared, *hidden = (bf16*)(shared + S::kHidden), *stage = (bf16*)(shared + S::kStage);
    bf16 *hidden2 = (bf16*)(shared + S::kBeside), *hidden2_gradient = hidden2 + S::kBesideBytes / 2;
    float* vector = (float*)(shared + S::kVectorsAt);

    for (int k = thread; k < kEdgeVectors / 4; k += kThreads) cp_async_16(vector + 4 * k, vectors + 4 * k);
    for (int k = thread; k < 2 * S::kRows; k += kThreads) {  // X = h1
        bf16* target = hidden + hidden_at(k / 2, k % 2);
        if (whole || k < 2 * S::kEdges) cp_async_16(target, edge_hidden + k / 2 * kHiddenRow + k % 2 * 8);
        else *(uint4*)target = make_uint4(0, 0, 0, 0);
    }
    cp_async_commit();
    if (first) clear_sums(partial, thread);

    constexpr unsigned kOnes = 0x3F803F80u;
    const int columns = row_offset(lane % 16, warp * kOwnColumns + lane / 16 * 8), last_columns = row_offset(lane % 16, warp * kOwnColumns + 16);
#pragma unroll 1
    for (int chunk = 0; chunk < S::kChunks; ++chunk) {
        const int thread = thread_index(), warp = thread / 32, lane = thread % 32, r = lane / 4, q = lane % 4;
        const int own_tile = chunk * kWarps + warp, tile = S::kTiles % kWarps == 0 ? own_tile : min(own_tile, S::kTiles - 1), count = S::kTiles % kWarps == 0 ? kWarps : min(kWarps, S::kTiles - chunk * kWarps);
        const int row0 = tile * 16 + r, row_in_chunk = warp * 16 + r;
        const bool valid = S::kTiles % kWarps == 0 || own_tile < S::kTiles;  // else the last tile again, and its results are not kept
        int buffer = 0;
        auto staged = [&](int which) { return stage + (which % S::kBuffers) * (kStageBytes / 2); };
        auto own_stage = [&](int which) { return StagedRows(staged(which) + warp * 16 * kChannels, lane); };
        // After the writing of a staged matrix: its columns, added up over the chunk's edges, go to `partial` (every number of which belongs to one
        // lane of one warp). `row` of the plain sums (or -1), the sums of the products with h2 or dh2 (`beside`, to hidden2_at) and with h1 (hidden1_at).
        auto reduce = [&](int row, const bf16* beside, int hidden2_at, int hidden1_at, bool always_sync) {
            __syncthreads();
            const bf16* matrix = staged(buffer++);
            float plain[kOwnTiles][4], with_hidden1[kOwnTiles][4], alone[4] = {0, 0, 0, 0};
            clear(plain), clear(with_hidden1);
#pragma unroll 2
            for (int k = 0; k < count; ++k, matrix += 16 * kChannels) {
                unsigned a[4] = {kOnes, kOnes, kOnes, kOnes}, both[4], b[kOwnTiles][2];
                ldmatrix_x4_transpose(both, matrix + columns);
                ldmatrix_x2_transpose(b[2], matrix + last_columns);
                b[0][0] = both[0], b[0][1] = both[1], b[1][0] = both[2], b[1][1] = both[3];
                if (hidden2_at >= 0) {  // in rows 0 to 7; the others stay ones
                    unsigned rows[2];
                    ldmatrix_x2_transpose(rows, beside + (k * 16 + lane % 16) * kHidden2);
                    a[0] = rows[0], a[2] = rows[1];
                }
                if (row >= 0 || hidden2_at >= 0)
#pragma unroll
                    for (int t = 0; t < kOwnTiles; ++t) mma_16x8x16(plain[t], a, b[t]);
                if (hidden2_at == kSumFeedIn) {
                    const unsigned ones[2] = {kOnes, kOnes};
                    mma_16x8x16(alone, a, ones);
                }
                if (hidden1_at >= 0) {
                    hidden_transposed(a, hidden, (chunk * kWarps + k) * 16, lane);
#pragma unroll
                    for (int t = 0; t < kOwnTiles; ++t) mma_16x8x16(with_hidden1[t], a, b[t]);
                }
            }
            if (S::kBuffers == 1 || always_sync) __syncthreads();
            // No other thread adds here: the order is that of the chunks.
            const int own = thread_index(), own_r = own % 32 / 4, own_q = own % 4;
            float *sums = plain_pointer(partial + own / 32 * kOwnColumns + 2 * own_q), *by_hidden = plain_pointer(sums + own_r * kChannels);
#pragma unroll
            for (int t = 0; t < kOwnTiles; ++t)
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    const int column = 8 * t + k % 2;
                    if (row >= 0 && k >= 2 && own_r == 0) atomicAdd(sums + kSumRows + row * kChannels + column, plain[t][k]);
                    if (hidden2_at >= 0 && k < 2) atomicAdd(by_hidden + hidden2_at + column, plain[t][k]);
                    if (hidden1_at >= 0) atomicAdd(by_hidden + hidden1_at + k / 2 * 8 * kChannels + column, with_hidden1[t][k]);
                }
            if (hidden2_at == kSumFeedIn && own < 32 && own_q == 0) atomicAdd(partial + kSumFeedInBias + own_r, alone[0]);
        };
        auto load = [&](uint4 (&words)[kBlocks][2], const bf16* rows) {
#pragma unroll
            for (int below = 0; below < 2; ++below)
#pragma unroll
                for (int b = 0; b < kBlocks; ++b) {
                    const bf16* at = rows + (row0 + 8 * below) * kChannels + 32 * b + 8 * q;
                    if (whole) words[b][below] = load_now_16(at);
                    else words[b][below] = make_uint4(0, 0, 0, 0), load_constant_16_if(row0 + 8 * below < S::kEdges, words[b][below], at);
                }
        };
        float x[kColumnTiles][4], rstd1[2], rstd2[2], mean_d[2] = {0, 0}, mean_dx[2] = {0, 0};
        uint4 gradient[kBlocks][2], normal1[kBlocks][2], normal2[kBlocks][2];

        {
            load(gradient, gradient_in);
            load(normal2, edge_normals + S::kEdges * kChannels);
            if (lane < 16) {
                const int edge = tile * 16 + lane;
                uint4 row = make_uint4(0, 0, 0, 0);
                if (whole || edge < S::kEdges) row = load_now_16(edge_hidden + edge * kHiddenRow + kHidden1);
                *(uint4*)(hidden2 + (warp * 16 + lane) * kHidden2) = row;
            }
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                uint2 both = make_uint2(0, 0);
                if (whole || row0 + 8 * below < S::kEdges) both = load_now_8(edge_hidden + (row0 + 8 * below) * kHiddenRow + kHidden1 + kHidden2);
                rstd1[below] = __uint_as_float(both.x), rstd2[below] = __uint_as_float(both.y);
            }
            if (chunk == 0) {  // what was begun before: only now, so that the loads above do not wait for it
                cp_async_wait<0>();
                __syncthreads();
            }
            if (thread == 0) {  // into the L2 cache, in the order of their use; at the start all graphs of the device ask for more than its memory gives
                auto fetch = [&](const bf16* rows, int from) {
                    const int first = from * kWarps * 16;
                    if (first < S::kEdges) prefetch_to_cache(rows + first * kChannels, min(kWarps * 16, S::kEdges - first) * kChannels * 2);
                };
                fetch(edge_normals, chunk), fetch(gradient_in, chunk + 1), fetch(edge_normals + S::kEdges * kChannels, chunk + 1);
            }
            if (valid) copy_edges_async<N>(edges, edges_in, tile, lane);  // e, for later
            cp_async_commit();
            const StagedRows to = own_stage(0);
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                const EightFloats weight(vector + kNorm2Weight, b, q);
                to.at(b, 0) = gradient[b][0], to.at(b, 1) = gradient[b][1];
                for_pairs(b, [&](int, int below, int k) {
                    const unsigned pair = word(gradient[b][below], k), normal = word(normal2[b][below], k);
                    const float first = low_half(pair) * weight.at[2 * k], second = high_half(pair) * weight.at[2 * k + 1];
                    mean_d[below] += first + second;
                    mean_dx[below] += first * low_half(normal) + second * high_half(normal);
                });
            }
            keep_packed(gradient), keep_packed(normal2);
            for (int k = 0; k < 2; ++k) mean_d[k] = quad_sum(mean_d[k]) * -kMean * rstd2[k], mean_dx[k] = quad_sum(mean_dx[k]) * -kMean * rstd2[k];
        }
        reduce(0, nullptr, -1, -1, false);  // de'

        {  // x = dx2
            const StagedRows to = own_stage(buffer);
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                const EightFloats weight(vector + kNorm2Weight, b, q);
                unsigned products[2][4];
                for_pairs(b, [&](int t, int below, int k) {
                    const unsigned pair = word(gradient[b][below], k), normal = word(normal2[b][below], k);
                    const float first = low_half(pair), second = high_half(pair), normal_first = low_half(normal), normal_second = high_half(normal);
                    products[below][k] = pack_bf16(first * normal_first, second * normal_second);
                    x[t][2 * below] = rstd2[below] * weight.at[2 * k] * first + (normal_first * mean_dx[below] + mean_d[below]);
                    x[t][2 * below + 1] = rstd2[below] * weight.at[2 * k + 1] * second + (normal_second * mean_dx[below] + mean_d[below]);
                });
                for (int below = 0; below < 2; ++below)
                    to.at(b, below) = make_uint4(products[below][0], products[below][1], products[below][2], products[below][3]);
            }
        }
        load(normal1, edge_normals);
        uint4 feed_out_transposed[1][kSteps / 2];
        load_fragments(feed_out_transposed, weights + kFeedOutTransposed, lane);
        reduce(1, nullptr, -1, -1, false);  // de' * normal2

        // Stages x as bf16, and in a product with weights [8 tiles, 192] adds to `sums`.
        auto stage_and_multiply = [&](auto& sums, const auto& pairs) {
            const StagedRows to = own_stage(buffer);
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                uint4 rows[2];
                for (int below = 0; below < 2; ++below)
                    to.at(b, below) = rows[below] = make_uint4(pack_bf16(x[4 * b][2 * below], x[4 * b][2 * below + 1]), pack_bf16(x[4 * b + 1][2 * below], x[4 * b + 1][2 * below + 1]),
                                                               pack_bf16(x[4 * b + 2][2 * below], x[4 * b + 2][2 * below + 1]), pack_bf16(x[4 * b + 3][2 * below], x[4 * b + 3][2 * below + 1]));
                const unsigned first[4] = {rows[0].x, rows[1].x, rows[0].y, rows[1].y}, second[4] = {rows[0].z, rows[1].z, rows[0].w, rows[1].w};
#pragma unroll
                for (int tile = 0; tile < (int)(sizeof(sums) / sizeof(sums[0])); ++tile) {
                    multiply_pairs(sums[tile], first, pairs[tile][b], 0);
                    multiply_pairs(sums[tile], second, pairs[tile][b], 1);
                }
                if (sizeof(sums) / sizeof(sums[0]) == 2) {  // dx1
                    for (int below = 0; below < 2; ++below)
                        if (valid && (whole || row0 + 8 * below < S::kEdges)) *(uint4*)(edges_gradient + (row0 + 8 * below) * kChannels + 32 * b + 8 * q) = rows[below];
                }
            }
        };
        {
            float feed[1][4];
            clear(feed);
            stage_and_multiply(feed, feed_out_transposed);
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                const unsigned pair = pair_at(hidden2 + (row_in_chunk + 8 * below) * kHidden2 + 2 * q);
                pair_at(hidden2_gradient + (row_in_chunk + 8 * below) * kHidden2 + 2 * q) =
                    pack_bf16(low_half(pair) > 0 ? feed[0][2 * below] : 0, high_half(pair) > 0 ? feed[0][2 * below + 1] : 0);
            }
        }
        uint4 feed_in_transposed[kColumnTiles / 4];
        load_half_step(feed_in_transposed, weights + kFeedInTransposed, lane);
        reduce(2, hidden2, kSumFeedOut, -1, false);  // dx2, with h2

        {  // x: dx2 -> dy1
            const StagedRows to = own_stage(buffer);
            const unsigned a[4] = {pair_at(hidden2_gradient + row_in_chunk * kHidden2 + 2 * q), pair_at(hidden2_gradient + (row_in_chunk + 8) * kHidden2 + 2 * q), 0, 0};
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                to.at(b, 0) = normal1[b][0], to.at(b, 1) = normal1[b][1];
#pragma unroll
                for (int t = 4 * b; t < 4 * b + 4; ++t) multiply_half(x[t], a, feed_in_transposed[b], t);
            }
        }
        keep_packed(normal1);
        reduce(-1, hidden2_gradient, kSumFeedIn, -1, false);  // normal1, with dh2

        {  // x: dy1 -> dx1
            const StagedRows to = own_stage(buffer);
            float sum_d[2] = {0, 0}, sum_dx[2] = {0, 0};
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                const EightFloats weight(vector + kNorm1Weight, b, q);
                unsigned products[2][4];
                for_pairs(b, [&](int t, int below, int k) {
                    float &first = x[t][2 * below], &second = x[t][2 * below + 1];
                    const unsigned normal = word(normal1[b][below], k);
                    const float normal_first = low_half(normal), normal_second = high_half(normal);
                    products[below][k] = pack_bf16(first * normal_first, second * normal_second);
                    first *= weight.at[2 * k], second *= weight.at[2 * k + 1];
                    sum_d[below] += first + second, sum_dx[below] += first * normal_first + second * normal_second;
                });
                for (int below = 0; below < 2; ++below)
                    to.at(b, below) = make_uint4(products[below][0], products[below][1], products[below][2], products[below][3]);
            }
            keep_packed(normal1);
            // `/ kChannels`, not `* kMean`: the branches of a division end a basic block; in one larger block ptxas (13.0) works ahead until it has to spill.
            for (int k = 0; k < 2; ++k) sum_d[k] = quad_sum(sum_d[k]) / kChannels * -rstd1[k], sum_dx[k] = quad_sum(sum_dx[k]) / kChannels * -rstd1[k];
#pragma unroll
            for (int b = 0; b < kBlocks; ++b)
                for_pairs(b, [&](int t, int below, int k) {
                    const unsigned normal = word(normal1[b][below], k);
                    x[t][2 * below] = rstd1[below] * x[t][2 * below] + (low_half(normal) * sum_dx[below] + sum_d[below]);
                    x[t][2 * below + 1] = rstd1[below] * x[t][2 * below + 1] + (high_half(normal) * sum_dx[below] + sum_d[below]);
                });
        }
        uint4 message_out_transposed[2][kSteps / 2];
        load_fragments(message_out_transposed, weights + kMessageOutTransposed, lane);
        reduce(3, nullptr, -1, -1, false);  // dy1 * normal1

        float first_gradient[2][4];  // dh1
        clear(first_gradient);
        stage_and_multiply(first_gradient, message_out_transposed);
        reduce(4, nullptr, -1, kSumMessageOut, true);  // dx1, with h1

        if (valid)
#pragma unroll
            for (int k = 0; k < 4; ++k) {  // dh1 takes the place of h1
                const int half = k / 2, below = k % 2;
                unsigned& pair = pair_at(hidden + hidden_at(row0 + 8 * below, half) + 2 * q);
                const unsigned before = pair;
                pair = pack_bf16(
                    low_half(before) > 0 ? first_gradient[half][2 * below] : 0, high_half(before) > 0 ? first_gradient[half][2 * below + 1] : 0);
            }
    }
}

// Two sums of the edge update that follow from others, made when those are complete: dDm = dh2^T y1 from dh2^T normal1, and that of the first norm's bias, the
// sum of dy1 = dx2 + Dm^T dh2. A thread takes a column.
__device__ __forceinline__ void finish_edge_sums(const bf16* weights, const float* vectors, float* partial) {
    const int column = thread_index();
    if (column >= kChannels) return;
    float sums[kHidden2], bias[kHidden2], sum = partial[kSumRows + 2 * kChannels + column];
    const float norm_weight = vectors[kNorm1Weight + column], norm_bias = vectors[kNorm1Bias + column];
#pragma unroll
    for (int m = 0; m < kHidden2; ++m) sums[m] = partial[kSumFeedIn + m * kChannels + column], bias[m] = partial[kSumFeedInBias + m];
#pragma unroll
    for (int m = 0; m < kHidden2; ++m) {
        partial[kSumFeedIn + m * kChannels + column] = sums[m] * norm_weight + bias[m] * norm_bias;
        sum += bias[m] * as_float(weights[kFeedIn + m * kChannels + column]);
    }
    partial[kSumEdgeNorm1Bias + column] = sum;
}

}  // namespace backward
