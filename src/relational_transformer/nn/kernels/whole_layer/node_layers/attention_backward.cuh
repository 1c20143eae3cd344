// Attention among the nodes, backward: a warp takes a head, then another, and all of it stays in its registers.
#pragma once
#include "../backward/node_update.cuh"

namespace backward {

// What lies behind the matrices of nodes_backward in shared memory; byte offsets.
template <int N>
struct NodeLayersShared {
    static constexpr int kQkvPitch = 3 * kChannels + 8;
    static constexpr int kMessages = Sizes<N>::kNodeRows + N * kRow * 2;  // dmessage [N][kRow]
    static constexpr int kQkv = kMessages + N * kRow * 2;                 // q, k, v [N][kQkvPitch]
    static constexpr int kBytes = kQkv + N * kQkvPitch * 2;
};

// dmessage in shared memory, a node's heads side by side.
struct MessageRows {
    bf16* rows;
    __device__ __forceinline__ bf16* at(int head, int node) const { return rows + node * kRow + head * kHeadSize; }
};

// Something [i, j] of a head: of every 16 nodes i pairs of neighbouring j, of row r ([..][0]) and of row r + 8 ([..][1]).
template <int N>
struct HeadPairs {
    static constexpr int tiles = Sizes<N>::kNodeTiles;
    unsigned pairs[tiles][2 * tiles][2];

    // out = this (or, `turned`, its transpose) times 16 columns of rows in shared memory: of rows' row, which is j (or i).
    template <bool turned>
    __device__ __forceinline__ void multiply(const bf16* rows, int pitch, bf16* out, int lane) const {
        float sums[tiles][2][4];
#pragma unroll
        for (int m = 0; m < tiles; ++m) clear(sums[m]);
#pragma unroll
        for (int k = 0; k < tiles; ++k) {
            unsigned both[4];
            ldmatrix_x4_transpose(both, rows + min(16 * k + lane % 16, N - 1) * pitch + lane / 16 * 8);
            const unsigned right[2][2] = {{both[0], both[1]}, {both[2], both[3]}};
#pragma unroll
            for (int m = 0; m < tiles; ++m) {
                unsigned left[4];
#pragma unroll
                for (int part = 0; part < 4; ++part)  // rows 8 (part % 2) on, columns 8 (part / 2) on
                    left[part] = turned ? movmatrix_transpose(pairs[k][2 * m + part % 2][part / 2]) : pairs[m][2 * k + part / 2][part % 2];
                mma_16x8x16(sums[m][0], left, right[0]);
                mma_16x8x16(sums[m][1], left, right[1]);
            }
        }
#pragma unroll
        for (int k = 0; k < 4 * tiles; ++k) {
            const int m = k / 4, half = k / 2 % 2, below = k % 2, node = 16 * m + lane / 4 + 8 * below;
            if (node < N) pair_at(out + node * 3 * kChannels + 8 * half + lane % 4 * 2) = pack_bf16(sums[m][half][2 * below], sums[m][half][2 * below + 1]);
        }
    }
};

// The weights that the forward kept, zeros outside of the graph.
template <int N>
__device__ __forceinline__ void load_weights(HeadPairs<N>& weights, const bf16* attention, int lane) {
#pragma unroll
    for (int k = 0; k < 4 * HeadPairs<N>::tiles * HeadPairs<N>::tiles; ++k) {
        const int below = k % 2, t = k / 2 % (2 * HeadPairs<N>::tiles), m = k / (4 * HeadPairs<N>::tiles);
        const int i = 16 * m + lane / 4 + 8 * below, j = 8 * t + lane % 4 * 2;
        const bf16* at = attention + i * N + j;
        unsigned& pair = weights.pairs[m][t][below];
        if (i >= N || j >= N) pair = 0;
        else if (N % 2 == 0) pair = pair_at(at);
        else pair = at[0].bits | (j + 1 < N ? (unsigned)at[1].bits << 16 : 0u);
    }
}

// dq, dk, dv of all heads into qkv_gradient [N, 3 D]. Queries, keys, values and dmessage must be there.
template <int N>
__device__ __forceinline__ void attention_backward(unsigned char* shared, const bf16* attention, bf16* qkv_gradient) {
    using S = NodeLayersShared<N>;
    constexpr int tiles = Sizes<N>::kNodeTiles;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
#pragma unroll 1
    for (int head = warp; head < kHeads; head += kWarps) {
        const bf16* query = (const bf16*)(shared + S::kQkv) + head * kHeadSize;
        const bf16 *key = query + kChannels, *value = key + kChannels, *messages = (const bf16*)(shared + S::kMessages) + head * kHeadSize;
        bf16* gradient = qkv_gradient + head * kHeadSize;
        HeadPairs<N> weights, scores;
        load_weights(weights, attention + head * N * N, lane);
        weights.template multiply<true>(messages, kRow, gradient + 2 * kChannels, lane);
#pragma unroll
        for (int m = 0; m < tiles; ++m) {
            unsigned rows[4];
            float g[2 * tiles][4], total[2] = {0, 0};  // the gradient of the weights, dmessage_i . v_j, and its mean by them
            clear(g);
            ldmatrix_x4(rows, messages + min(16 * m + lane % 16, N - 1) * kRow + lane / 16 * 8);
#pragma unroll
            for (int t = 0; t < 2 * tiles; ++t) {
                unsigned values[2];
                ldmatrix_x2(values, value + min(8 * t + lane % 8, N - 1) * S::kQkvPitch + lane / 8 % 2 * 8);
                mma_16x8x16(g[t], rows, values);
#pragma unroll
                for (int below = 0; below < 2; ++below) {
                    const unsigned pair = weights.pairs[m][t][below];
                    total[below] += low_half(pair) * g[t][2 * below] + high_half(pair) * g[t][2 * below + 1];
                }
            }
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                total[below] = quad_sum(total[below]);
#pragma unroll
                for (int t = 0; t < 2 * tiles; ++t) {
                    const unsigned pair = weights.pairs[m][t][below];
                    scores.pairs[m][t][below] = pack_bf16(0.25f * low_half(pair) * (g[t][2 * below] - total[below]),
                                                          0.25f * high_half(pair) * (g[t][2 * below + 1] - total[below]));
                }
            }
        }
        scores.template multiply<false>(key, S::kQkvPitch, gradient, lane);
        scores.template multiply<true>(query, S::kQkvPitch, gradient + kChannels, lane);
    }
}

}  // namespace backward
