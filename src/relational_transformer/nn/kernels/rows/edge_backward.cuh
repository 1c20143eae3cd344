// The edge update, backward: from the gradient of the new edges back to what the first LayerNorm reads, and to both hidden
// layers, in one pass over the edges.
//
// A warp takes 16 edges at a time, all channels in its registers, first at the last LayerNorm and then at the first one; what
// lay between is made again from the edges, the hidden layers and the norms' means and deviations. Sums over edges that are no
// products of what is written stay in shared memory, a warp's own; a block adds its warps' at the end.
//
// What should limit it: some 4600 instructions a scheduler for 16 edges of 192 channels (2.6 us, four schedulers at once);
// device memory has to bring 12.3 KB and take 6.1 (0.6 us a multiprocessor). With 192 channels the loop has 73 KB of
// instructions, a little more than the 68 KB beyond which other kernels here waited for them.
#pragma once
#include "../whole_layer/forward/edge_values.cuh"
#include "edge_rows.cuh"

namespace rows {

constexpr int kBackwardBlocks = 2;                       // of a multiprocessor
constexpr int kSides = 48;                               // numbers of an edge: dm_ij, dm_ji, t, zeros
constexpr int kLastUnits = kEdgeHidden + 1;              // what dy is multiplied with: the second hidden layer and a one
constexpr int kLastRow = kChannels + 2;                  // no bank conflicts for 4 units x 4 quads of channels
constexpr int kFeedRow = kMessageHidden + 2;             // of t m^T, t and df

// Offsets in bf16 of a seed's matrices: pairs of tiles of permuted outputs, and tiles of 8 outputs with k permuted.
struct BackwardMatrices {
    static constexpr int tile = kChannels * 8;
    static constexpr int message_out = 0, feed_out = 2 * tile, feed_in = 4 * tile;        // pairs: W_5, W_7, W_6^T
    static constexpr int feed_out_turned = 6 * tile, message_out_turned = 7 * tile;       // W_7^T, one tile; W_5^T, two
    static constexpr int size = 9 * tile;
};
// Offsets in floats of a seed's vectors.
struct BackwardVectors {
    static constexpr int message_bias = 0, norm_weight = kChannels, last_weight = 2 * kChannels;
    static constexpr int bias = 3 * kChannels, size = 4 * kChannels;  // the first norm's and the feed-forward's
};
// Offsets in floats of a warp's sums: dy with f and one; g x^ and g of the last norm, du x^ of the first; t with m, t, df; and
// each lane's part of the latter two, [32, 4].
struct Sums {
    static constexpr int last = 0, norms = kLastUnits * kLastRow, feed = norms + 3 * kChannels;
    static constexpr int lanes = (feed + kEdgeHidden * kFeedRow + 3) / 4 * 4, size = lanes + 128;
};

// A seed's tensors follow each other.
struct EdgeBackward {
    const bf16 *gradient, *edges;  // [S, G, N, N, D]
    const bf16* hidden;            // [S, G, N, N, kKept], as the forward pass keeps it, and the next
    const float* statistics;       // [S, G, N, N, 4]
    const bf16* matrices;          // [S, BackwardMatrices::size]
    const float* vectors;          // [S, BackwardVectors::size]
    bf16* edge_gradient;           // dz [S, G, N, N, D]
    bf16* sides;                   // [S, G, N, N, kSides]
    float* last_sums;              // [S, blocks, kLastUnits, D]
    float* within;                 // [S, blocks, 3 D + F (M + 2)]: sums of norms, and t with m, t, df
    int graphs, nodes;
};

// The sum over the eight lanes of a column of quads: they share out eight values, and each is left with one, of channel
// `left_channel()`.
__device__ __forceinline__ float share_out(float (&value)[8]) {
#pragma unroll
    for (int count = 4, bit = 16; count; count /= 2, bit /= 2) {
        const bool high = lane_index() & bit;
#pragma unroll
        for (int k = 0; k < count; ++k) {
            const float given = high ? value[k] : value[k + count], kept = high ? value[k + count] : value[k];
            value[k] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, bit);
        }
    }
    return value[0];
}
__device__ __forceinline__ int left_channel() {
    const int lane = lane_index();
    return quad_position() * 8 + (lane & 16 ? 4 : 0) + (lane & 8 ? 2 : 0) + (lane & 4 ? 1 : 0);
}

// z = W_5 m + b_5 + e, normalized.
__device__ __forceinline__ void normalize_again(EdgeValues& x, const EdgeRows& rows, const unsigned (&message)[4], const uint4* fragments,
                                                const float* vectors, const float (&mean)[2], const float (&scale)[2]) {
    unpack_edges(x, rows);
    add_vector(x, vectors + BackwardVectors::message_bias);
    add_product(x, message, fragments + BackwardMatrices::message_out / 8);
    standardize_edges(x, mean, scale);
}
// The gradient of two tiles of channels of u, du = dy + W_6^T df.
struct TwoTiles { float tile[2][4]; };
__device__ __forceinline__ TwoTiles through_feed(const EdgeRows& last, const unsigned (&feed)[4], const uint4* fragments, int k) {
    TwoTiles d;
#pragma unroll
    for (int t = 0; t < 2; ++t) {
        const unsigned upper = word(last.upper[k / 2], k % 2 * 2 + t), lower = word(last.lower[k / 2], k % 2 * 2 + t);
        d.tile[t][0] = low_float(upper), d.tile[t][1] = high_float(upper), d.tile[t][2] = low_float(lower), d.tile[t][3] = high_float(lower);
    }
    const uint4 two = fragments[BackwardMatrices::feed_in / 8 + 32 * k];
    const unsigned first[2] = {two.x, two.y}, second[2] = {two.z, two.w};
    mma_16x8x16(d.tile[0], feed, first);
    mma_16x8x16(d.tile[1], feed, second);
    return d;
}
__device__ __forceinline__ void forget_edges(EdgeRows& rows) {
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) forget(rows.upper[b]), forget(rows.lower[b]);
}
__device__ __forceinline__ unsigned only_active(unsigned gradient, unsigned hidden) {
    return gradient & ((hidden & 0xFFFFu ? 0xFFFFu : 0) | (hidden >> 16 ? 0xFFFF0000u : 0));
}
__device__ __forceinline__ void add_two(float* sums, float first, float second) {
    float2 so_far = *(float2*)sums;
    *(float2*)sums = make_float2(so_far.x + first, so_far.y + second);
}

}  // namespace rows

// Grid (blocks that share the edges of a seed, seeds).
extern "C" __global__ void __launch_bounds__(rows::kUpdateThreads, rows::kBackwardBlocks)
edge_backward_rows(const rows::EdgeBackward given) {
    using namespace rows;
    constexpr int warps_of_block = kUpdateThreads / 32;
    const int r = fragment_row(), q = quad_position(), lane = lane_index();
    const unsigned nodes = given.nodes, count = given.graphs * nodes * nodes, end = (blockIdx.y + 1) * count;  // of the seed's edges
    uint4* shared = (uint4*)dynamic_shared_memory();
    float* vectors = (float*)(shared + BackwardMatrices::size / 8);
    float* sums = vectors + BackwardVectors::size;  // of all warps
    load_parameters<BackwardMatrices::size, BackwardVectors::size>(shared, vectors, given.matrices, given.vectors);
    for (int k = threadIdx.x; k < warps_of_block * Sums::size; k += kUpdateThreads) sums[k] = 0.0f;
    __syncthreads();
    const uint4* fragments = shared + lane;
    float* own = sums + warp_index() * Sums::size;
    const unsigned warps = gridDim.x * warps_of_block, warp = blockIdx.x * warps_of_block + warp_index();
#pragma unroll 1
    for (unsigned first = blockIdx.y * count + 16 * warp; first < end; first += 16 * warps) {
        const unsigned upper = min(first + r, end - 1), lower = min(first + r + 8, end - 1);
        const bool is_upper = first + r < end, is_lower = first + r + 8 < end;
        const unsigned* upper_hidden = (const unsigned*)(given.hidden + (long long)upper * kKept) + q;
        const unsigned* lower_hidden = (const unsigned*)(given.hidden + (long long)lower * kKept) + q;
        const unsigned message[4] = {load_constant_4(upper_hidden), load_constant_4(lower_hidden), load_constant_4(upper_hidden + 4),
                                     load_constant_4(lower_hidden + 4)};
        const unsigned feed[4] = {load_constant_4(upper_hidden + 8), load_constant_4(lower_hidden + 8), 0, 0};
        float mean[2][2], scale[2][2];  // [norm][half]
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int norm = 0; norm < 2; ++norm) {
                const float2 pair = load_constant_float2(given.statistics + 4ll * (half ? lower : upper) + 2 * norm);
                mean[norm][half] = pair.x, scale[norm][half] = pair.y;
            }
        EdgeRows gradient;  // g, then dy
        EdgeValues x;
        {
            EdgeRows rows;
            load_edges(rows, given.edges + (long long)upper * kChannels, given.edges + (long long)lower * kChannels);
            load_edges(gradient, given.gradient + (long long)upper * kChannels, given.gradient + (long long)lower * kChannels);
            normalize_again(x, rows, message, fragments, vectors, mean[0], scale[0]);
        }
        scale_edges(x, vectors + BackwardVectors::norm_weight, vectors + BackwardVectors::bias);
        add_product(x, feed, fragments + BackwardMatrices::feed_out / 8);
        standardize_edges(x, mean[1], scale[1]);
        // Through the last norm. Rows that do not exist have no gradient.
        float average[2] = {}, along[2] = {};
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            if (!is_upper) gradient.upper[b] = make_uint4(0, 0, 0, 0);
            if (!is_lower) gradient.lower[b] = make_uint4(0, 0, 0, 0);
            float by_normal[8], alone[8];
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                const float2 weight = *(const float2*)(vectors + BackwardVectors::last_weight + 32 * b + 8 * q + 2 * t);
                const unsigned pair[2] = {word(gradient.upper[b], t), word(gradient.lower[b], t)};
#pragma unroll
                for (int p = 0; p < 2; ++p) {
                    const float g[2] = {p ? high_float(pair[0]) : low_float(pair[0]), p ? high_float(pair[1]) : low_float(pair[1])};
                    by_normal[2 * t + p] = g[0] * x[b][t][p] + g[1] * x[b][t][2 + p], alone[2 * t + p] = g[0] + g[1];
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const float weighted = g[half] * (p ? weight.y : weight.x);
                        average[half] += weighted, along[half] += weighted * x[b][t][2 * half + p];
                    }
                }
            }
            own[Sums::norms + 32 * b + left_channel()] += share_out(by_normal);
            own[Sums::norms + kChannels + 32 * b + left_channel()] += share_out(alone);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
            average[half] = quad_sum(average[half]) * (1.0f / kChannels), along[half] = quad_sum(along[half]) * (1.0f / kChannels);
        forget_edges(gradient);
        float df[2][4] = {};  // two chains
        const unsigned ones = r == 0 ? 0x3F803F80u : 0;
        const unsigned turned_feed[4] = {movmatrix_transpose(feed[0]), ones, movmatrix_transpose(feed[1]), ones};
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            __syncwarp();
            unsigned words[4][2];
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                const int channel = 32 * b + 8 * q + 2 * t;
                const float2 weight = *(const float2*)(vectors + BackwardVectors::last_weight + channel);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const unsigned pair = word(half ? gradient.lower[b] : gradient.upper[b], t);
                    const float left = low_float(pair) * weight.x - average[half] - x[b][t][2 * half] * along[half];
                    const float right = high_float(pair) * weight.y - average[half] - x[b][t][2 * half + 1] * along[half];
                    words[t][half] = (half ? is_lower : is_upper) ? pack_bf16(left * scale[1][half], right * scale[1][half]) : 0;
                }
                const unsigned turned[2] = {movmatrix_transpose(words[t][0]), movmatrix_transpose(words[t][1])};
                float d[4] = {};
                mma_16x8x16(d, turned_feed, turned);
                add_two(own + Sums::last + r * kLastRow + channel, d[0], d[1]);
                if (r == 0) add_two(own + Sums::last + kEdgeHidden * kLastRow + channel, d[2], d[3]);
            }
            gradient.upper[b] = make_uint4(words[0][0], words[1][0], words[2][0], words[3][0]);
            gradient.lower[b] = make_uint4(words[0][1], words[1][1], words[2][1], words[3][1]);
            multiply_rows(df[b % 2], gradient.upper[b], gradient.lower[b], fragments[BackwardMatrices::feed_out_turned / 8 + 32 * b]);
        }
        // Both edges' df and t = df / std of the lane's two units, where f is not zero; and sums of t with m.
        unsigned feed_gradient[4] = {}, scaled[2];
        float* of_lane = own + Sums::lanes + 4 * lane;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float left = feed[half] & 0xFFFFu ? df[0][2 * half] + df[1][2 * half] : 0.0f;
            const float right = feed[half] >> 16 ? df[0][2 * half + 1] + df[1][2 * half + 1] : 0.0f;
            feed_gradient[half] = pack_bf16(left, right), scaled[half] = pack_bf16(left * scale[0][half], right * scale[0][half]);
            add_two(of_lane, low_float(scaled[half]), high_float(scaled[half]));
            add_two(of_lane + 2, left, right);
        }
        {
            const unsigned turned[4] = {movmatrix_transpose(scaled[0]), 0, movmatrix_transpose(scaled[1]), 0};
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                const unsigned columns[2] = {movmatrix_transpose(message[2 * t]), movmatrix_transpose(message[2 * t + 1])};
                float d[4] = {};
                mma_16x8x16(d, turned, columns);
                add_two(own + Sums::feed + r * kFeedRow + 8 * t + 2 * q, d[0], d[1]);
            }
        }
        // Through the first norm.
        {
            EdgeRows rows;
            load_edges(rows, given.edges + (long long)upper * kChannels, given.edges + (long long)lower * kChannels);
            normalize_again(x, rows, message, fragments, vectors, mean[0], scale[0]);
        }
        average[0] = average[1] = along[0] = along[1] = 0.0f;
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            __syncwarp();  // else loads of all blocks are moved before it, and registers spill
            float by_normal[8];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const TwoTiles d = through_feed(gradient, feed_gradient, fragments, 2 * b + k);
                const float4 weight = *(const float4*)(vectors + BackwardVectors::norm_weight + 32 * b + 8 * q + 4 * k);
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    const float* two = d.tile[c / 2] + c % 2;
                    const float* normal = x[b][2 * k + c / 2] + c % 2;
                    const float w = c == 0 ? weight.x : c == 1 ? weight.y : c == 2 ? weight.z : weight.w;
                    by_normal[4 * k + c] = two[0] * normal[0] + two[2] * normal[2];
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        average[half] += two[2 * half] * w, along[half] += two[2 * half] * w * normal[2 * half];
                }
            }
            own[Sums::norms + 2 * kChannels + 32 * b + left_channel()] += share_out(by_normal);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
            average[half] = quad_sum(average[half]) * (1.0f / kChannels), along[half] = quad_sum(along[half]) * (1.0f / kChannels);
        forget_edges(gradient);
        float dm[2][4] = {};
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            __syncwarp();
            unsigned words[4][2];
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                const TwoTiles d = through_feed(gradient, feed_gradient, fragments, 2 * b + k);
                const float4 weight = *(const float4*)(vectors + BackwardVectors::norm_weight + 32 * b + 8 * q + 4 * k);
#pragma unroll
                for (int t = 0; t < 2; ++t)
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const float* normal = x[b][2 * k + t] + 2 * half;
                        const float left = d.tile[t][2 * half] * (t ? weight.z : weight.x) - average[half] - normal[0] * along[half];
                        const float right = d.tile[t][2 * half + 1] * (t ? weight.w : weight.y) - average[half] - normal[1] * along[half];
                        words[2 * k + t][half] = pack_bf16(left * scale[0][half], right * scale[0][half]);
                    }
            }
            const uint4 above = make_uint4(words[0][0], words[1][0], words[2][0], words[3][0]);
            const uint4 below = make_uint4(words[0][1], words[1][1], words[2][1], words[3][1]);
            if (is_upper) *(uint4*)(given.edge_gradient + (long long)upper * kChannels + 32 * b + 8 * q) = above;
            if (is_lower) *(uint4*)(given.edge_gradient + (long long)lower * kChannels + 32 * b + 8 * q) = below;
#pragma unroll
            for (int t = 0; t < 2; ++t)
                multiply_rows(dm[t], above, below, fragments[BackwardMatrices::message_out_turned / 8 + (t * kColumnBlocks + b) * 32]);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (half ? !is_lower : !is_upper) continue;
            const unsigned edge = half ? lower : upper;
            unsigned* sides = (unsigned*)(given.sides + (long long)edge * kSides) + q;
            unsigned* reverse = (unsigned*)(given.sides + (long long)Ends(edge, nodes).reverse * kSides) + 8 + q;
#pragma unroll
            for (int t = 0; t < 2; ++t)
                sides[4 * t] = reverse[4 * t] = only_active(pack_bf16(dm[t][2 * half], dm[t][2 * half + 1]), message[2 * t + half]);
            sides[16] = scaled[half], sides[20] = 0;
        }
    }
#pragma unroll
    for (int c = 0; c < 4; ++c) {  // t and df of units 2 q and 2 q + 1
        float total = own[Sums::lanes + 4 * lane + c];
#pragma unroll
        for (int bit = 4; bit < 32; bit *= 2) total += __shfl_xor_sync(0xFFFFFFFFu, total, bit);
        if (r == 0) own[Sums::feed + (2 * q + c % 2) * kFeedRow + kMessageHidden + c / 2] = total;
    }
    __syncthreads();
    constexpr int within = 3 * kChannels + kEdgeHidden * kFeedRow;
    const long long block = (long long)blockIdx.y * gridDim.x + blockIdx.x;
#pragma unroll 1
    for (int k = threadIdx.x; k < kLastUnits * kChannels + within; k += kUpdateThreads) {
        const int inside = k - kLastUnits * kChannels;
        const int place = inside < 0 ? Sums::last + k / kChannels * kLastRow + k % kChannels : Sums::norms + inside;
        float total = 0.0f;
#pragma unroll
        for (int w = 0; w < warps_of_block; ++w) total += sums[w * Sums::size + place];
        if (inside < 0) given.last_sums[block * kLastUnits * kChannels + k] = total;
        else given.within[block * within + inside] = total;
    }
}
