// Phase 4: messages lifted to the edges, attention's weights and scores.
#pragma once
#include "fragments.cuh"

namespace backward {

// u_ih = We_v,h^T dmessage_ih of the nodes from `first_node`, into shared memory. Weights are the left operand: 144 tiles of 16 channels (12 of every head), 18 a warp.
template <int N>
__device__ __forceinline__ void lift_messages(unsigned char* shared, int first_node, const MessageGradient& message_gradient, const bf16* weights) {
    using S = Sizes<N>;
    constexpr int count = kHeads * kSteps / kWarps, tiles = S::kLiftedNodes / 8;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32, r = lane / 4, q = lane % 4;
    const bf16* left = weights + kEdgeValueTransposed + (warp * count * 32 + lane) * 8;
    const int head = warp * count / kSteps, first_tile = warp * count % kSteps;  // the warp's tiles belong to two heads
    uint4 words[count];
    uint2 messages[tiles][2];
#pragma unroll
    for (int k = 0; k < count; ++k) words[k] = load_now_16(left + k * 32 * 8);
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
        for (int k = 0; k < 2; ++k)
            messages[n][k] = load_now_8(message_gradient.at(head + k, min(first_node + 8 * n + r, N - 1)) + 4 * q);
    bf16* lifted = (bf16*)(shared + S::kStage) + r * S::kLiftedPitch + head * kRow + 4 * q;
#pragma unroll
    for (int k = 0; k < count; ++k) {
        const bool second = first_tile + k >= kSteps;
        const unsigned a[4] = {words[k].x, words[k].y, words[k].z, words[k].w};
        bf16* at = lifted + (second ? kRow - kSteps * 16 : 0) + (first_tile + k) * 16;
#pragma unroll
        for (int n = 0; n < tiles; ++n) {
            const unsigned b[2] = {second ? messages[n][1].x : messages[n][0].x, second ? messages[n][1].y : messages[n][0].y};
            float sums[4] = {0, 0, 0, 0};
            mma_16x8x16(sums, a, b);
            *(uint2*)(at + 8 * n * S::kLiftedPitch) =
                make_uint2(movmatrix_transpose(pack_bf16(sums[0], sums[1])), movmatrix_transpose(pack_bf16(sums[2], sums[3])));
        }
    }
}

// Row i of the edges by one warp: g = e u + v dmessage, ds / sqrt(16) in place of a, edges_gradient = what was before (null: zeros, without an edge update) + a u. The channels of u are reordered, so that the
// accumulators of four column tiles are eight neighbouring channels of edges_gradient, 16 bytes; e as the left operand of the first product then comes 16 bytes at a time, too.
template <int N>
__device__ __forceinline__ void row_backward(unsigned char* shared, int i, const bf16* own_lifted, const MessageGradient& message_gradient, const bf16* gradient_before, bf16* edges_gradient) {
    using S = Sizes<N>;
    const int lane = thread_index() % 32, r = lane / 4, q = lane % 4;
    const bf16 *edges = (const bf16*)shared, *values = (const bf16*)(shared + S::kValues);
    bf16* scores = (bf16*)(shared + S::kScores);
    unsigned message[2][2];
    uint4 before[S::kNodeTiles][kBlocks][2];  // under way while g is made
#pragma unroll
    for (int k = 0; k < 4; ++k)  // of heads r and 8 + r
        message[k / 2][k % 2] = load_now_4(message_gradient.at(min(k / 2 * 8 + r, kHeads - 1), i) + k % 2 * 8 + 2 * q);
    auto edge_of = [&](int m, int below) { return i * N + min(16 * m + r + 8 * below, N - 1); };
    auto row_at = [&](auto* rows, int m, int below) { return rows + edge_of(m, below) * kChannels + 8 * q; };
#pragma unroll
    for (int m = 0; m < S::kNodeTiles; ++m) {
        const bf16 *above = row_at(gradient_before, m, 0), *below = row_at(gradient_before, m, 1);
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            if constexpr (kUpdatesEdges) {
                before[m][b][0] = load_now_16(above + 32 * b), before[m][b][1] = load_now_16(below + 32 * b);
            } else {
                before[m][b][0] = before[m][b][1] = make_uint4(0, 0, 0, 0);
                load_constant_16_if(gradient_before, before[m][b][0], above + 32 * b), load_constant_16_if(gradient_before, before[m][b][1], below + 32 * b);
            }
        }
    }
    // g [j, head]: row tiles of nodes j, two column tiles of heads (12 to 15 do not exist: their columns are ignored).
    float g[S::kNodeTiles][2][4], a[S::kNodeTiles][2][4], total[2][2] = {{0, 0}, {0, 0}};
#pragma unroll
    for (int k = 0; k < 8 * S::kNodeTiles; ++k) {
        const int m = k / 8, half = k / 4 % 2, node = 16 * m + r + k / 2 % 2 * 8, head = 8 * half + 2 * q + k % 2;
        a[m][half][k % 4] = node < N && head < kHeads ? as_float(scores[head * S::kRows + i * N + node]) : 0.0f;
    }
#pragma unroll
    for (int m = 0; m < S::kNodeTiles; ++m) {
        float through_values[2][4];  // a chain of its own
        clear(g[m]), clear(through_values);
        const int j = min(16 * m + lane % 16, N - 1);
        uint4 above, below;  // of two rows, eight channels of a block
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            unsigned columns[4], rows[4];
            if (step % 2 == 0) above = *(const uint4*)(edges + edge_of(m, 0) * kRow + step * 16 + 8 * q), below = *(const uint4*)(edges + edge_of(m, 1) * kRow + step * 16 + 8 * q);
            const unsigned edge_rows[4] = {step % 2 ? above.z : above.x, step % 2 ? below.z : below.x, step % 2 ? above.w : above.y, step % 2 ? below.w : below.y};
            ldmatrix_x4(columns, own_lifted + min(lane / 16 * 8 + lane % 8, kHeads - 1) * kRow + step * 16 + lane / 8 % 2 * 8);
            const unsigned low[2] = {columns[0], columns[1]}, high[2] = {columns[2], columns[3]};
            mma_16x8x16(g[m][0], edge_rows, low);
            mma_16x8x16(g[m][1], edge_rows, high);
            // v_j . dmessage_i: this step's 16 channels are head `step`, so only its column is not zero.
            ldmatrix_x4(rows, values + j * kRow + step * 16 + lane / 16 * 8);
            const bool mine = r == step % 8;
            const unsigned one[2] = {mine ? message[step / 8][0] : 0u, mine ? message[step / 8][1] : 0u};
            mma_16x8x16(through_values[step / 8], rows, one);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                g[m][half][k] += through_values[half][k];
                total[half][k % 2] += a[m][half][k] * g[m][half][k];
            }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) total[k / 2][k % 2] = column_sum(total[k / 2][k % 2]);
#pragma unroll
    for (int m = 0; m < S::kNodeTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int node = 16 * m + r + k / 2 * 8, head = 8 * half + 2 * q + k % 2;
                if (node < N && head < kHeads)
                    scores[head * S::kRows + i * N + node] = as_bf16(0.25f * a[m][half][k] * (g[m][half][k] - total[half][k % 2]));
            }
        const unsigned by_head[4] = {pack_bf16(a[m][0][0], a[m][0][1]), pack_bf16(a[m][0][2], a[m][0][3]),
                                     pack_bf16(a[m][1][0], a[m][1][1]), pack_bf16(a[m][1][2], a[m][1][3])};
        bf16* rows[2] = {row_at(edges_gradient, m, 0), row_at(edges_gradient, m, 1)};
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            unsigned after[2][4];
#pragma unroll
            for (int k = 0; k < 4; k += 2) {
                unsigned both[4];
                ldmatrix_x4_transpose(both, own_lifted + min(lane % 16, kHeads - 1) * kRow + 32 * b + 8 * k + lane / 16 * 8);
#pragma unroll
                for (int t = k; t < k + 2; ++t) {
                    const unsigned columns[2] = {both[t % 2 * 2], both[t % 2 * 2 + 1]}, above = word(before[m][b][0], t), below = word(before[m][b][1], t);
                    float sums[4] = {low_half(above), high_half(above), low_half(below), high_half(below)};
                    mma_16x8x16(sums, by_head, columns);
                    after[0][t] = pack_bf16(sums[0], sums[1]), after[1][t] = pack_bf16(sums[2], sums[3]);
                }
            }
            for (int below = 0; below < 2; ++below)
                if (16 * m + r + 8 * below < N) *(uint4*)(rows[below] + 32 * b) = make_uint4(after[below][0], after[below][1], after[below][2], after[below][3]);
        }
    }
}

template <int N>
__device__ __forceinline__ void scores_backward(unsigned char* shared, const MessageGradient& message_gradient, const bf16* weights, const bf16* gradient_before, bf16* edges_gradient) {
    using S = Sizes<N>;
    const int warp = thread_index() / 32;
#pragma unroll 1
    for (int first = 0; first < N; first += S::kLiftedNodes) {
        if (first) __syncthreads();
        lift_messages<N>(shared, first, message_gradient, weights);
        __syncthreads();
#pragma unroll 1
        for (int k = warp; k < min(S::kLiftedNodes, N - first); k += kWarps)
            row_backward<N>(shared, first + k, (const bf16*)(shared + S::kStage) + k * S::kLiftedPitch, message_gradient, gradient_before, edges_gradient);
    }
}

}  // namespace backward
