// Output product, LayerNorm, feed-forward, LayerNorm of the nodes.
#pragma once
#include "messages.cuh"

using NodeValues = float[kNodeTiles][kWarpTiles][4];  // accumulators: [..][..][0, 1] of the upper row, [2, 3] of the lower

// The lane's two channels of the warp's tile t of a vector of the weights.
__device__ __forceinline__ float2 of_tile(int vector, int t) {
    return *(const float2*)(shared_vector(vector) + (warp_index() * kWarpTiles + t) * 8 + 2 * quad_position());
}

// LayerNorm of rows whose channels are spread over the warps: each warp's mean and squared deviations of its 24 channels,
// joined (exactly, by the parallel formula) after a barrier. The normalized rows are kept as the first or the second ones.
__device__ __forceinline__ void normalize_nodes(NodeValues& x, int weight, int bias, bf16* node_normals, int which) {
    float2* partials = shared_at<float2>(ForwardShared::partials);
    const int r = fragment_row(), q = quad_position(), warp = warp_index();
    constexpr float count = 8 * kWarpTiles;
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = 0.0f, squares = 0.0f;
#pragma unroll
            for (int t = 0; t < kWarpTiles; ++t) sum += x[m][t][2 * half] + x[m][t][2 * half + 1];
            const float mean = quad_sum(sum) * (1.0f / count);
#pragma unroll
            for (int t = 0; t < kWarpTiles; ++t) {
                const float first = x[m][t][2 * half] - mean, second = x[m][t][2 * half + 1] - mean;
                squares += first * first + second * second;
            }
            squares = quad_sum(squares);
            if (q == 0) partials[(16 * m + 8 * half + r) * kWarps + warp] = make_float2(mean, squares);
        }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float4* parts = (const float4*)(partials + (16 * m + 8 * half + r) * kWarps);
            float means[kWarps], mean = 0.0f, squares = 0.0f;
#pragma unroll
            for (int w = 0; w < kWarps / 2; ++w) {
                const float4 two = parts[w];
                means[2 * w] = two.x, means[2 * w + 1] = two.z;
                mean += two.x + two.z, squares += two.y + two.w;
            }
            mean *= 1.0f / kWarps;
            float between = 0.0f;
#pragma unroll
            for (int w = 0; w < kWarps; ++w) between += (means[w] - mean) * (means[w] - mean);
            const float scale = rsqrtf((squares + count * between) * (1.0f / kChannels) + kEpsilon);
            const int row = 16 * m + 8 * half + r;
            bf16* kept = node_normals + row * kNormalRow;
            if (kKeeps && row < kNodes && warp == 0 && q == 0) ((float*)(kept + 2 * kChannels))[which] = scale;
            kept += which * kChannels + warp * kWarpTiles * 8 + 2 * q;
#pragma unroll
            for (int t = 0; t < kWarpTiles; ++t) {
                const float2 w = of_tile(weight, t), b = of_tile(bias, t);
                const float first = (x[m][t][2 * half] - mean) * scale, second = (x[m][t][2 * half + 1] - mean) * scale;
                if (kKeeps && row < kNodes) *(unsigned*)(kept + 8 * t) = pack_bf16(first, second);
                x[m][t][2 * half] = first * w.x + b.x, x[m][t][2 * half + 1] = second * w.y + b.y;
            }
        }
}

// Writes the warp's channels of every node to a swizzled array in shared memory and, unless told otherwise, to device memory.
template <bool to_global> __device__ __forceinline__ void store_nodes(const NodeValues& x, bf16* shared, bf16* global) {
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = 16 * m + 8 * half + fragment_row(), first_column = warp_index() * kWarpTiles * 8 + 2 * quad_position();
            if (row < kNodes) {
#pragma unroll
                for (int t = 0; t < kWarpTiles; ++t) {
                    const unsigned pair = pack_bf16(x[m][t][2 * half], x[m][t][2 * half + 1]);
                    *(unsigned*)(shared + row_offset(row, first_column + 8 * t)) = pair;
                    if (to_global) *(unsigned*)(global + row * kChannels + first_column + 8 * t) = pair;
                }
            }
        }
}

// What the edges' hidden layer needs, loaded early.
struct HiddenWeights { LeftFragments own, reverse; TileFragments ends; };

// Begins with a barrier (the messages must be there). Without edges the nodes are read in shared memory, where the layer before left them.
__device__ __forceinline__ void update_nodes(const bf16* matrices, const bf16* nodes, const TileFragments (&output_weight)[kWarpTiles],
                                             bf16* middle_nodes, bf16* new_nodes, bf16* node_normals, bf16* node_hidden, HiddenWeights& hidden_weights) {
    bf16* middle = shared_at<bf16>(ForwardShared::key);
    bf16* hidden = shared_at<bf16>(ForwardShared::hidden);
    constexpr int hidden_stride = kNodeHidden + 8;
    const int r = fragment_row(), q = quad_position(), lane = lane_index(), warp = warp_index(), first_tile = warp * kWarpTiles;
    NodeValues x;
    const bf16* residual = nodes + 8 * first_tile + 2 * q;
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = min(16 * m + 8 * half + r, kNodes - 1);
#pragma unroll
            for (int t = 0; t < kWarpTiles; ++t) {
                const unsigned pair = load_constant_4(residual + row * kChannels + 8 * t);
                const float2 bias = of_tile(PackedVectors::node_output_bias, t);
                x[m][t][2 * half] = bias.x + low_float(pair), x[m][t][2 * half + 1] = bias.y + high_float(pair);
            }
        }
    cp_async_wait<0>();  // the edge update's fragments: any of the barriers before it will do
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m) {
        RowFragments rows;
        load_rows(rows, shared_at<bf16>(ForwardShared::messages), 16 * m);
#pragma unroll
        for (int s = 0; s < 2 * kColumnBlocks; ++s)
#pragma unroll
            for (int t = 0; t < kWarpTiles; ++t) {
                const uint4& weight = output_weight[t].block[s / 2];
                const unsigned words[2] = {s % 2 ? weight.z : weight.x, s % 2 ? weight.w : weight.y};
                mma_16x8x16(x[m][t], rows.step[s], words);
            }
    }
    // The feed-forward's hidden layer is 4 tiles of 8 for each tile of nodes, one a warp. What it needs is loaded early.
    const int node_tile = warp / 4, hidden_tile = warp % 4;
    TileFragments in_weight;
    load_tile(in_weight, matrices + PackedMatrices::node_feed_forward_in + hidden_tile * PackedMatrices::tile);
    uint4 out_weight[kWarpTiles];
#pragma unroll
    for (int t = 0; t < kWarpTiles; ++t)
        out_weight[t] = load_constant_16(matrices + PackedMatrices::node_feed_forward_out + ((first_tile + t) * 32 + lane) * 8);
    normalize_nodes(x, PackedVectors::node_norm_weight, PackedVectors::node_norm_bias, node_normals, 0);
    store_nodes<kKeeps>(x, middle, middle_nodes);
    __syncthreads();
    if (node_tile < kNodeTiles) {
        const int column = hidden_tile * 8 + 2 * q;
        const float2 bias = *(const float2*)(shared_vector(PackedVectors::node_feed_forward_in_bias) + column);
        float d[2][4] = {{bias.x, bias.y, bias.x, bias.y}, {0, 0, 0, 0}};  // two chains
        RowFragments rows;
        load_rows(rows, middle, 16 * node_tile);
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) multiply_block(d[b % 2], rows, b, in_weight.block[b]);
        const int upper = 16 * node_tile + r, lower = upper + 8;
#pragma unroll
        for (int k = 0; k < 4; ++k) d[0][k] = fmaxf(d[0][k] + d[1][k], 0.0f);
        const unsigned pairs[2] = {pack_bf16(d[0][0], d[0][1]), pack_bf16(d[0][2], d[0][3])};
        if (upper < kNodes) *(unsigned*)(hidden + upper * hidden_stride + column) = pairs[0];
        if (lower < kNodes) *(unsigned*)(hidden + lower * hidden_stride + column) = pairs[1];
        if (kKeeps && upper < kNodes) *(unsigned*)(node_hidden + upper * kNodeHidden + column) = pairs[0];
        if (kKeeps && lower < kNodes) *(unsigned*)(node_hidden + lower * kNodeHidden + column) = pairs[1];
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m) {
        const bf16* row = hidden + min(16 * m + lane % 16, kNodes - 1) * hidden_stride + lane / 16 * 8;
        unsigned first[4], second[4];
        ldmatrix_x4(first, row);
        ldmatrix_x4(second, row + 16);
#pragma unroll
        for (int t = 0; t < kWarpTiles; ++t) {
            const float2 bias = of_tile(PackedVectors::node_feed_forward_out_bias, t);
#pragma unroll
            for (int k = 0; k < 4; ++k) x[m][t][k] += k % 2 ? bias.y : bias.x;
            const unsigned low[2] = {out_weight[t].x, out_weight[t].y}, high[2] = {out_weight[t].z, out_weight[t].w};
            mma_16x8x16(x[m][t], first, low);
            mma_16x8x16(x[m][t], second, high);
        }
    }
    if constexpr (kUpdatesEdges) {
        load_left(hidden_weights.own, matrices + PackedMatrices::edge_message_in);
        load_left(hidden_weights.reverse, matrices + PackedMatrices::edge_message_in + PackedMatrices::left);
        load_tile(hidden_weights.ends, matrices + PackedMatrices::ends + warp % 4 * PackedMatrices::tile);
    }
    normalize_nodes(x, PackedVectors::node_feed_forward_norm_weight, PackedVectors::node_feed_forward_norm_bias, node_normals, 1);
    store_nodes<true>(x, shared_at<bf16>(ForwardShared::new_nodes), new_nodes);
}
