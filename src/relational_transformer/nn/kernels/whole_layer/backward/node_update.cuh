// Phase 2, nodes: their LayerNorms, feed-forward and output product.
#pragma once
#include "node_product.cuh"

namespace backward {

// What the forward kept of a norm of the nodes: normalized rows, the lane's pairs of channels of the warp's rows, and 1 / std.
template <int N>
struct NodeNormals {
    static constexpr int rows = (N + kWarps - 1) / kWarps, count = kChannels / 64;
    unsigned pairs[rows][count];
    float rstd[rows];
    __device__ __forceinline__ NodeNormals(const bf16* kept, int which, int warp, int lane) {
#pragma unroll
        for (int k = 0; k < rows; ++k) {
            const bf16* row = kept + min(warp + k * kWarps, N - 1) * kNormalRow;
#pragma unroll
            for (int c = 0; c < count; ++c) pairs[k][c] = load_now_4(row + which * kChannels + 2 * lane + 64 * c);
            rstd[k] = __uint_as_float(load_now_4(row + 2 * kChannels + 2 * which));
        }
    }
};

// LayerNorm backward of the nodes' rows: from matrix 0 (the gradient of its output) matrix 1 becomes the normalized rows and matrix 2 the gradient of
// its input; the latter also goes to `rows_out` and, for products, `shared_rows`.
template <int N>
__device__ __forceinline__ void node_norm_backward(float* matrix, const NodeNormals<N>& normals, const float* norm_weight, bf16* rows_out, bf16* shared_rows, int warp, int lane) {
    constexpr int pitch = Sizes<N>::kPitch, stride = N * pitch, count = NodeNormals<N>::count;
    float2 weight[count];
#pragma unroll
    for (int c = 0; c < count; ++c) weight[c] = floats_at(norm_weight + 2 * lane + 64 * c);
#pragma unroll
    for (int k = 0; k < NodeNormals<N>::rows; ++k) {
        const int row = warp + k * kWarps;
        if (row >= N) break;
        float* at = matrix + row * pitch + 2 * lane;
        float2 x[count], d[count];
        float mean_d = 0, mean_dx = 0;
#pragma unroll
        for (int c = 0; c < count; ++c) {
            x[c] = make_float2(low_half(normals.pairs[k][c]), high_half(normals.pairs[k][c]));
            *(float2*)(at + stride + 64 * c) = x[c];
            d[c] = floats_at(at + 64 * c);
            d[c].x *= weight[c].x, d[c].y *= weight[c].y;
            mean_d += d[c].x + d[c].y, mean_dx += d[c].x * x[c].x + d[c].y * x[c].y;
        }
        mean_d = warp_sum(mean_d) * kMean, mean_dx = warp_sum(mean_dx) * kMean;
#pragma unroll
        for (int c = 0; c < count; ++c) {
            const float first = normals.rstd[k] * (d[c].x - mean_d - x[c].x * mean_dx), second = normals.rstd[k] * (d[c].y - mean_d - x[c].y * mean_dx);
            *(float2*)(at + 2 * stride + 64 * c) = make_float2(first, second);
            pair_at(rows_out + row * kChannels + 2 * lane + 64 * c) = pair_at(shared_rows + row * kRow + 2 * lane + 64 * c) = pack_bf16(first, second);
        }
    }
}

// The sums over nodes after node_norm_backward: of the norm's weight, its bias, and the bias before the norm.
template <int N>
__device__ __forceinline__ void node_norm_sums(const float* matrix, float* sums) {
    constexpr int pitch = Sizes<N>::kPitch, stride = N * pitch;
    const int column = thread_index();
    if (column >= kChannels) return;
    float weight = 0, bias = 0, before = 0;
    for (int row = 0; row < N; ++row) {
        const float* at = matrix + row * pitch + column;
        weight += at[0] * at[stride], bias += at[0], before += at[2 * stride];
    }
    atomicAdd(sums + column, weight), atomicAdd(sums + kChannels + column, bias), atomicAdd(sums + 2 * kChannels + column, before);
}

// From the gradient of n2 to that of the message, written where message_gradient.at(head, node) says. `small` holds the gradients of send and receive. Without an edge update there are none, and e comes
// into shared memory meanwhile, if there is any (not yet waited for).
template <int N, class Messages>
__device__ __forceinline__ void nodes_backward(unsigned char* shared, const bf16* edges_in, const bf16* node_normals, const bf16* node_hidden, const bf16* gradient_in, const bf16* weights,
                                               const float* vectors, bf16* node_out_gradient, bf16* node_in_gradient, bf16* output_gradient,
                                               const Messages& message_gradient, float* partial) {
    using S = Sizes<N>;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
    const bf16* small = (const bf16*)(shared + S::kSmall);
    float *gradient = (float*)(shared + S::kStage), *result = gradient + 2 * N * S::kPitch;
    bf16 *hidden = (bf16*)(shared + S::kNodeHiddenAt), *hidden_gradient = (bf16*)(shared + S::kSmall), *rows = (bf16*)(shared + S::kNodeRows);
    auto store = [&](float* matrix) {
        return [=](int row, int column, float first, float second) { *(float2*)(matrix + row * S::kPitch + column) = make_float2(first, second); };
    };
    auto zero = [](int, int) { return make_float2(0.0f, 0.0f); };
    const NodeNormals<N> second_normals(node_normals, 1, warp, lane), first_normals(node_normals, 0, warp, lane);  // all of this early: its latency is hidden here
    if (thread < 4 * N) cp_async_16(hidden + thread / 4 * 40 + thread % 4 * 8, node_hidden + 8 * thread);
    cp_async_commit();
    NodeProduct<N, 1, kSteps, false> node_out_transposed(weights + kNodeOutTransposed, warp % 4, lane);
    NodeProduct<N, kOwnTiles, 2, false> node_in_transposed(weights + kNodeInTransposed, warp * kOwnTiles, lane);
    if constexpr (kUpdatesEdges) {
        node_product<N, kOwnTiles, 2, false>(small, 40, weights + kSendReceiveTransposed, kColumnTiles, warp, lane, residual_of(gradient_in), store(gradient));
        cp_async_wait<0>();
    } else {
        for (int k = thread; k < N * kChannels / 2; k += kThreads) {
            const int row = k / (kChannels / 2), column = k % (kChannels / 2) * 2;
            *(float2*)(gradient + row * S::kPitch + column) = residual_of(gradient_in)(row, column);
        }
        for (int tile = warp; tile < S::kTiles; tile += kWarps) copy_edges_async<N>((bf16*)shared, edges_in, tile, lane);
        cp_async_commit();
        cp_async_wait<1>();  // the hidden layer, not e
    }
    __syncthreads();
    node_norm_backward<N>(gradient, second_normals, vectors + kNodeNorm2Weight, node_out_gradient, rows, warp, lane);
    __syncthreads();
    node_norm_sums<N>(gradient, partial + kSumNodeNorm2);
    if (warp < 4) {
        node_out_transposed.begin(zero);
        node_out_transposed.multiply(rows, kRow);
        node_out_transposed.finish([&](int row, int column, float first, float second) {
            const unsigned pair = pair_at(hidden + row * 40 + column);
            pair_at(node_in_gradient + row * 32 + column) = pair_at(hidden_gradient + row * 40 + column) =
                pack_bf16(low_half(pair) > 0 ? first : 0, high_half(pair) > 0 ? second : 0);
        });
    }
    __syncthreads();
    if (thread < kNodeHidden) {
        float sum = 0;
        for (int row = 0; row < N; ++row) sum += as_float(hidden_gradient[row * 40 + thread]);
        atomicAdd(partial + kSumNodeInBias + thread, sum);
    }
    node_in_transposed.begin([&](int row, int column) { return floats_at(result + row * S::kPitch + column); });
    node_in_transposed.multiply(hidden_gradient, 40);
    node_in_transposed.finish(store(gradient));
    __syncthreads();
    NodeProduct<N, kOwnTiles, kSteps, false> output_transposed(weights + kOutputTransposed, warp * kOwnTiles, lane);
    node_norm_backward<N>(gradient, first_normals, vectors + kNodeNorm1Weight, output_gradient, rows, warp, lane);
    __syncthreads();
    node_norm_sums<N>(gradient, partial + kSumNodeNorm1);
    output_transposed.begin(zero);
    output_transposed.multiply(rows, kRow);
    output_transposed.finish([&](int row, int column, float first, float second) {
        pair_at(message_gradient.at(column / kHeadSize, row) + column % kHeadSize) = pack_bf16(first, second);
    });
}

}  // namespace backward
