// Phase 3: the nodes' values.
#pragma once
#include "fragments.cuh"

namespace backward {

// a and v into shared memory; dv_j = sum_i a_ij dmessage_i into qkv_gradient.
template <int N>
__device__ __forceinline__ void values_backward(unsigned char* shared, const bf16* node_qkv, const bf16* attention,
                                                const MessageGradient& message_gradient, bf16* qkv_gradient) {
    using S = Sizes<N>;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32, r = lane / 4, q = lane % 4;
    bf16 *values = (bf16*)(shared + S::kValues), *scores = (bf16*)(shared + S::kScores), *messages = (bf16*)(shared + S::kStage);
    for (int k = thread; k < N * kColumnTiles; k += kThreads) {
        const int row = k / kColumnTiles, column = k % kColumnTiles * 8;
        cp_async_16(messages + row * kRow + column, message_gradient.at(column / kHeadSize, row) + column % kHeadSize);
        cp_async_16(values + row * kRow + column, node_qkv + row * 3 * kChannels + 2 * kChannels + column);
    }
    if (S::kRows == S::kEdges)
        for (int k = thread; k < kHeads * S::kRows / 8; k += kThreads) cp_async_16(scores + 8 * k, attention + 8 * k);
    else
        for (int k = thread; k < kHeads * S::kRows; k += kThreads)  // where there is no edge, no weight
            scores[k] = k % S::kRows < S::kEdges ? attention[k / S::kRows * S::kEdges + k % S::kRows] : as_bf16(0.0f);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    auto weight_pair = [&](int head, int i, int j) {
        auto one = [&](int row) { return row < N ? (unsigned)scores[head * S::kRows + row * N + min(j, N - 1)].bits : 0u; };
        return one(i) | one(i + 1) << 16;
    };
    for (int head = warp; head < kHeads; head += kWarps) {  // a's transpose times dmessage
        float sums[S::kNodeTiles][2][4];
#pragma unroll
        for (int m = 0; m < S::kNodeTiles; ++m) clear(sums[m]);
#pragma unroll
        for (int k = 0; k < S::kNodeTiles; ++k) {
            unsigned both[4];
            ldmatrix_x4_transpose(both, messages + min(16 * k + lane % 16, N - 1) * kRow + head * kHeadSize + lane / 16 * 8);
            const unsigned b[2][2] = {{both[0], both[1]}, {both[2], both[3]}};
#pragma unroll
            for (int m = 0; m < S::kNodeTiles; ++m) {
                const int j = 16 * m + r, i = 16 * k + 2 * q;
                const unsigned rows[4] = {weight_pair(head, i, j), weight_pair(head, i, j + 8), weight_pair(head, i + 8, j), weight_pair(head, i + 8, j + 8)};
                mma_16x8x16(sums[m][0], rows, b[0]);
                mma_16x8x16(sums[m][1], rows, b[1]);
            }
        }
#pragma unroll
        for (int m = 0; m < S::kNodeTiles; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                bf16* at = qkv_gradient + (16 * m + r) * 3 * kChannels + 2 * kChannels + head * kHeadSize + 8 * half + 2 * q;
                if (16 * m + r < N) pair_at(at) = pack_bf16(sums[m][half][0], sums[m][half][1]);
                if (16 * m + r + 8 < N) pair_at(at + 8 * 3 * kChannels) = pack_bf16(sums[m][half][2], sums[m][half][3]);
            }
    }
    __syncthreads();
}

}  // namespace backward
