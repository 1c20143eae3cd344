// Phase 2, edges: what the hidden layer of the edge update read, the edges and the ends.
#pragma once
#include "fragments.cuh"

namespace backward {

// The weight gradients of A and B, and the gradients of send and receive (bf16, [N][40] in `small`).
template <int N>
__device__ __forceinline__ void reverse_edges_backward(unsigned char* shared, bf16* send_receive_gradient, float* partial) {
    using S = Sizes<N>;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32, r = lane / 4, q = lane % 4;
    const bf16 *edges = (const bf16*)shared, *hidden = (const bf16*)(shared + S::kHidden);
    bf16 *turned = (bf16*)(shared + S::kStage), *small = (bf16*)(shared + S::kSmall);
    for (int k = thread; k < 2 * S::kRows; k += kThreads) {  // dh1 of the reverse edge, in the same layout
        const int edge = k / 2, half = k % 2;
        *(uint4*)(turned + hidden_at(edge, half)) =
            edge < S::kEdges ? *(const uint4*)(hidden + hidden_at(edge % N * N + edge / N, half)) : make_uint4(0, 0, 0, 0);
    }
    for (int k = thread; k < N * 32; k += kThreads) {
        const int node = k / 32, channel = k % 16, first = k % 32 < 16 ? node : node * N, stride = k % 32 < 16 ? N : 1;
        float sum = 0;
        for (int other = 0; other < N; ++other) sum += as_float(hidden[hidden_at(first + other * stride, channel / 8) + channel % 8]);
        send_receive_gradient[k] = small[node * 40 + k % 32] = as_bf16(sum);
    }
    __syncthreads();
    if (thread < kHidden1) {
        float sum = 0;
        for (int node = 0; node < N; ++node) sum += as_float(small[node * 40 + thread]);
        atomicAdd(partial + kSumSenderBias + thread, sum);
    }
    float own[kOwnTiles][4], reverse[kOwnTiles][4];
    clear(own), clear(reverse);
#pragma unroll 4
    for (int tile = 0; tile < S::kTiles; ++tile) {
        unsigned a[4], b[kOwnTiles][2];
        own_columns(b, edges + tile * 16 * kRow, warp, lane);
        hidden_transposed(a, hidden, tile * 16, lane);
#pragma unroll
        for (int t = 0; t < kOwnTiles; ++t) mma_16x8x16(own[t], a, b[t]);
        hidden_transposed(a, turned, tile * 16, lane);
#pragma unroll
        for (int t = 0; t < kOwnTiles; ++t) mma_16x8x16(reverse[t], a, b[t]);
    }
#pragma unroll
    for (int t = 0; t < kOwnTiles; ++t)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int at = (r + k / 2 * 8) * kChannels + warp * kOwnColumns + 8 * t + 2 * q + k % 2;
            atomicAdd(partial + kSumOwn + at, own[t][k]);
            atomicAdd(partial + kSumReverse + at, reverse[t][k]);
        }
}

}  // namespace backward
