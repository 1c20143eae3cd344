// The edge update, forward: hidden layer, output, LayerNorm, feed-forward, LayerNorm of every edge, in one pass.
//
// A warp takes 16 edges at a time: all channels of e_ij stay in its registers, those of e_ji go through them. The weights
// lie in shared memory, as fragments. Warps wait for nobody: what one loads, the others' work covers.
//
// What should limit it: a tile of 16 edges of 192 channels takes a scheduler about 2000 instructions, most of them LayerNorms
// (1.1 us), and device memory 18.4 KB (0.6 us a multiprocessor, less where the reverse edges are in the L2 cache). Four
// schedulers work on four tiles at once.
#pragma once
#include "../whole_layer/forward/edge_values.cuh"
#include "edge_rows.cuh"

namespace rows {

// Offsets in bf16 of a seed's matrices, fragments all: tiles of 8 outputs with k permuted as the lanes' 16 bytes lie, and
// pairs of tiles of permuted outputs.
struct UpdateMatrices {
    static constexpr int tile = kChannels * 8;
    static constexpr int own = 0, reverse = own + 2 * tile;      // W_e and W_r, two tiles each
    static constexpr int feed_in = reverse + 2 * tile;           // a tile
    static constexpr int message_out = feed_in + tile;           // [D / 16 pairs of tiles, 32 lanes, 8]
    static constexpr int feed_out = message_out + 2 * tile;      // likewise: 8 inputs, which are there twice
    static constexpr int size = feed_out + 2 * tile;
};
// Offsets in floats of a seed's vectors.
struct UpdateVectors {
    static constexpr int message_bias = 0, norm_weight = kChannels, norm_bias = 2 * kChannels;
    static constexpr int feed_bias = 3 * kChannels, last_weight = 4 * kChannels, last_bias = 5 * kChannels;
    static constexpr int hidden_bias = 6 * kChannels, size = hidden_bias + kEdgeHidden;
};
constexpr int kUpdateShared = UpdateMatrices::size * 2 + UpdateVectors::size * 4;

// A seed's tensors follow each other.
struct EdgeUpdate {
    const bf16* edges;                   // [S, G, N, N, D]
    const bf16 *receivers, *senders;     // [S, G, N, M]
    const bf16* matrices;                // [S, UpdateMatrices::size]
    const float* vectors;                // [S, UpdateVectors::size]
    bf16* new_edges;                     // [S, G, N, N, D]
    bf16* hidden;                        // [S, G, N, N, kKept]; null where nothing is kept, as the next
    float* statistics;                   // [S, G, N, N, 4]: mean and 1 / std of both norms
    int graphs, nodes;
};

// Both hidden layers lie as the accumulators of their products do: ReLU, and the left operand of the next product.
__device__ __forceinline__ unsigned activate(float first, float second) {
    return pack_bf16(fmaxf(first, 0.0f), fmaxf(second, 0.0f));
}

// What the backward pass reads, written as soon as it is known: a lane's two numbers of the upper and of the lower edge in a
// part of 8, and of a norm the mean and 1 / std.
__device__ __forceinline__ void keep_hidden(const EdgeUpdate& given, unsigned first, unsigned end, int part, unsigned upper, unsigned lower) {
    if (!given.hidden) return;
    const unsigned edge = first + fragment_row();
    unsigned* kept = (unsigned*)(given.hidden + (long long)edge * kKept) + 4 * part + quad_position();
    if (edge < end) kept[0] = upper;
    if (edge + 8 < end) kept[8 * kKept / 2] = lower;
}
__device__ __forceinline__ void keep_statistics(const EdgeUpdate& given, unsigned first, unsigned end, int norm, const float (&mean)[2],
                                                const float (&scale)[2]) {
    const unsigned edge = first + fragment_row();
    if (!given.hidden || quad_position()) return;
    float2* kept = (float2*)given.statistics + 2ll * edge + norm;
    if (edge < end) kept[0] = make_float2(mean[0], scale[0]);
    if (edge + 8 < end) kept[16] = make_float2(mean[1], scale[1]);
}

}  // namespace rows

// Grid (blocks that share the edges of a seed, seeds).
extern "C" __global__ void __launch_bounds__(rows::kUpdateThreads, rows::kUpdateBlocks)
edge_update_rows(const rows::EdgeUpdate given) {
    using namespace rows;
    const int r = fragment_row(), q = quad_position(), lane = lane_index();
    const unsigned nodes = given.nodes, count = given.graphs * nodes * nodes, end = (blockIdx.y + 1) * count;  // of the seed's edges
    uint4* shared = (uint4*)dynamic_shared_memory();
    float* vectors = (float*)(shared + UpdateMatrices::size / 8);
    load_parameters<UpdateMatrices::size, UpdateVectors::size>(shared, vectors, given.matrices, given.vectors);
    __syncthreads();
    const uint4* fragments = shared + lane;  // of a tile or a pair: one every 32
    const unsigned warps = gridDim.x * (kUpdateThreads / 32), warp = blockIdx.x * (kUpdateThreads / 32) + warp_index();
#pragma unroll 1
    for (unsigned first = blockIdx.y * count + 16 * warp; first < end; first += 16 * warps) {
        const unsigned upper = min(first + r, end - 1), lower = min(first + r + 8, end - 1);
        const Ends upper_ends(upper, nodes), lower_ends(lower, nodes);
        EdgeRows rows, back;
        load_edges(rows, given.edges + (long long)upper * kChannels, given.edges + (long long)lower * kChannels);
        load_edges(back, given.edges + (long long)upper_ends.reverse * kChannels, given.edges + (long long)lower_ends.reverse * kChannels);
        float own[2][4], reverse[2][4] = {};
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const Ends& ends = half ? lower_ends : upper_ends;
                const unsigned receiver = load_constant_4(given.receivers + ends.receiver * kMessageHidden + 8 * t + 2 * q);
                const unsigned sender = load_constant_4(given.senders + ends.sender * kMessageHidden + 8 * t + 2 * q);
                own[t][2 * half] = low_float(receiver) + low_float(sender);
                own[t][2 * half + 1] = high_float(receiver) + high_float(sender);
            }
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b)
#pragma unroll
            for (int t = 0; t < 2; ++t)
                multiply_rows(own[t], rows.upper[b], rows.lower[b], fragments[UpdateMatrices::own / 8 + (t * kColumnBlocks + b) * 32]);
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b)
#pragma unroll
            for (int t = 0; t < 2; ++t)
                multiply_rows(reverse[t], back.upper[b], back.lower[b], fragments[UpdateMatrices::reverse / 8 + (t * kColumnBlocks + b) * 32]);
        unsigned hidden[4];
#pragma unroll
        for (int k = 0; k < 4; ++k)
            hidden[k] = activate(own[k / 2][k % 2 * 2] + reverse[k / 2][k % 2 * 2], own[k / 2][k % 2 * 2 + 1] + reverse[k / 2][k % 2 * 2 + 1]);
        keep_hidden(given, first, end, 0, hidden[0], hidden[1]);
        keep_hidden(given, first, end, 1, hidden[2], hidden[3]);
        EdgeValues x;
        unpack_edges(x, rows);
        float scale[2], mean[2];
        add_product(x, hidden, fragments + UpdateMatrices::message_out / 8);
        add_vector(x, vectors + UpdateVectors::message_bias);
        normalize_edges(x, scale, mean);
        keep_statistics(given, first, end, 0, mean, scale);
        scale_edges(x, vectors + UpdateVectors::norm_weight, vectors + UpdateVectors::norm_bias);
        const float2 bias = *(const float2*)(vectors + UpdateVectors::hidden_bias + 2 * q);
        float feed[2][4] = {{bias.x, bias.y, bias.x, bias.y}, {0, 0, 0, 0}};  // two chains
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b)
            multiply_rows(feed[b % 2], pack_row(x[b], 0), pack_row(x[b], 1), fragments[UpdateMatrices::feed_in / 8 + b * 32]);
        const unsigned second[4] = {activate(feed[0][0] + feed[1][0], feed[0][1] + feed[1][1]),
                                    activate(feed[0][2] + feed[1][2], feed[0][3] + feed[1][3]), 0, 0};
        keep_hidden(given, first, end, 2, second[0], second[1]);
        keep_hidden(given, first, end, 3, q == 0 ? 0x3F80u : 0, q == 0 ? 0x3F80u : 0);
        add_vector(x, vectors + UpdateVectors::feed_bias);
        add_product(x, second, fragments + UpdateMatrices::feed_out / 8);
        normalize_edges(x, scale, mean);
        keep_statistics(given, first, end, 1, mean, scale);
        scale_edges(x, vectors + UpdateVectors::last_weight, vectors + UpdateVectors::last_bias);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const long long edge = first + r + 8 * half;
            if (edge >= end) continue;
#pragma unroll
            for (int b = 0; b < kColumnBlocks; ++b) *(uint4*)(given.new_edges + edge * kChannels + 32 * b + 8 * q) = pack_row(x[b], half);
        }
    }
}
