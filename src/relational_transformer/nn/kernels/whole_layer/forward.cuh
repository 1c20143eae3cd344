// One relational layer forward, one thread block a graph: a single launch, the edges in shared memory throughout.
//
// Phases (a barrier between each two; r = lane / 4, q = lane % 4):
//   project_nodes      q, k, v of the nodes                                    warps share the 72 tiles of output channels
//   score_pairs        q_ij . k_ij / 4 of every edge and head                  a warp holds a head's weights, streams all edges
//   normalize_scores   softmax over j                                          a thread takes one (i, head)
//   average_edges      context_ih = sum_j a_ijh e_ij                           a warp takes one i
//   gather_messages    message_ih = sum_j a_ijh v_jh + We_v,h context_ih       a warp takes (head, half of its channels) items
//   update_nodes       output product, LayerNorm, feed-forward, LayerNorm      a warp takes 24 channels of all nodes
//   project_ends       what senders and receivers add to the edges' hidden layer
//   update_edges       the edge update                                         a warp takes 16 edges, all channels in registers
#pragma once
#include "tile.cuh"

// ---- Shared memory ----
// Queries and keys are kept by channel, the nodes side by side: [D, kNodeStride] (24: no bank conflicts for 8 channels x 4
// pairs of nodes). Senders and receivers likewise: [M1, kNodeStride].
constexpr int kNodeStride = 24;
static_assert(kNodes <= 20, "rows of nodes");
struct ForwardShared {
    // Each offset is in bytes, a multiple of 16.
    static constexpr int edges = 0;                                                  // bf16 [tiles * 16, D] swizzled
    static constexpr int query = edges + kEdgeTiles * 16 * kChannels * 2;            // bf16 [D, node stride]; later: messages
    static constexpr int key = query + kChannels * kNodeStride * 2;                  // likewise; later: nodes after the first norm
    static constexpr int value = key + kChannels * kNodeStride * 2;                  // bf16 [N, D] swizzled; later: the new nodes
    static constexpr int scores = value + kNodes * kChannels * 2;                    // float [N * N, H]: scores, then weights; later: hidden
    static constexpr int message_out = scores + kEdgeTiles * 16 * kHeads * 4;        // uint2 [24 tiles, 32 lanes]: fragments
    static constexpr int feed_forward_out = message_out + kColumnTiles * 32 * 8;     // uint2 [24 tiles, 32 lanes]: fragments, with the bias
    static constexpr int vectors = feed_forward_out + kColumnTiles * 32 * 8;         // float [5, D]: the edge update's, see below
    static constexpr int partials = vectors + 5 * kChannels * 4;                     // float2 [node tiles * 16, warps]
    static constexpr int hidden = partials + kNodeTiles * 16 * kWarps * 8;           // bf16 [N, FH + 8]
    static constexpr int senders = hidden + (kNodes * (kNodeHidden + 8) * 2 + 15) / 16 * 16;  // float [M1, node stride]
    static constexpr int receivers = senders + kMessageHidden * kNodeStride * 4;     // float [M1, node stride]
    static constexpr int bytes = receivers + kMessageHidden * kNodeStride * 4;
};
static_assert(ForwardShared::bytes <= 227 * 1024, "the graph does not fit into shared memory");
static_assert(ForwardShared::scores % 16 == 0 && ForwardShared::message_out % 16 == 0 && ForwardShared::senders % 16 == 0, "alignment");

// The rows of ForwardShared::vectors.
enum EdgeVector { kMessageOutBias, kNormWeight, kNormBias, kFeedForwardNormWeight, kFeedForwardNormBias };

template <class Value> __device__ __forceinline__ Value* shared_at(int offset) { return (Value*)(dynamic_shared_memory() + offset); }

// ---- Loading ----
// The edge update computes its 192 outputs in the permuted order of fragments: of tile 4 b + t (b: block of 32 channels),
// output n stands for channel 32 b + 8 (n / 2) + 2 t + n % 2. So a lane's four tiles of a block are the 8 consecutive
// channels from 32 b + 8 q: residuals, vectors and results move 16 bytes at a time, and the accumulators of a block are
// the left operand of the next product in the usual k order.
__device__ __forceinline__ int permuted_channel(int tile, int n) { return tile / 4 * 32 + n / 2 * 8 + tile % 4 * 2 + n % 2; }

__device__ __forceinline__ void start_loading(const LayerWeights& weights, const bf16* edges) {
    bf16* shared_edges = shared_at<bf16>(ForwardShared::edges);
    copy_rows_async(shared_edges, edges, kEdges);
    const float* const vectors[5] = {weights.edge_message_out_bias, weights.edge_norm_weight, weights.edge_norm_bias,
                                     weights.edge_feed_forward_norm_weight, weights.edge_feed_forward_norm_bias};
    constexpr int chunks = kChannels / 4;
    if (threadIdx.x < chunks) {
#pragma unroll
        for (int v = 0; v < 5; ++v)
            cp_async_16(shared_at<float>(ForwardShared::vectors) + v * kChannels + threadIdx.x * 4, vectors[v] + threadIdx.x * 4);
    }
    cp_async_commit();
    for (int k = kEdges * kChannels / 8 + threadIdx.x; k < kEdgeTiles * 16 * kChannels / 8; k += kThreads)
        ((uint4*)shared_edges)[k] = make_uint4(0, 0, 0, 0);  // rows that pad the last tile
}

// The fragments of the edge update's two output products, three a thread: loaded early, stored when they have come.
struct OutputFragments { uint2 message[kColumnTiles * 32 / kThreads], feed_forward[kColumnTiles * 32 / kThreads]; };
static_assert(kColumnTiles * 32 % kThreads == 0, "fragments a thread");

__device__ __forceinline__ void load_output_fragments(OutputFragments& fragments, const LayerWeights& weights) {
#pragma unroll
    for (int n = 0; n < kColumnTiles * 32 / kThreads; ++n) {
        const int k = threadIdx.x + n * kThreads, lane = k % 32, channel = permuted_channel(k / 32, lane / 4), q = lane % 4;
        const bf16* row = weights.edge_message_out + channel * kMessageHidden + 2 * q;
        fragments.message[n] = make_uint2(load_constant_4(row), load_constant_4(row + 8));
        fragments.feed_forward[n] = make_uint2(load_constant_4(weights.edge_feed_forward_out + channel * kEdgeHidden + 2 * q),
                                               load_constant_4(weights.edge_feed_forward_out_bias + channel));
    }
}
__device__ __forceinline__ void store_output_fragments(const OutputFragments& fragments) {
#pragma unroll
    for (int n = 0; n < kColumnTiles * 32 / kThreads; ++n) {
        const int k = threadIdx.x + n * kThreads;
        shared_at<uint2>(ForwardShared::message_out)[k] = fragments.message[n];
        // The second hidden layer fills only half of k: its bias, in two bf16 numbers, takes k = 8 and 9.
        const float bias = __uint_as_float(fragments.feed_forward[n].y), rounded = to_float(to_bf16(bias));
        shared_at<uint2>(ForwardShared::feed_forward_out)[k] =
            make_uint2(fragments.feed_forward[n].x, k % 4 == 0 ? pack_bf16(rounded, bias - rounded) : 0);
    }
}

// ---- Attention ----
__device__ __forceinline__ void project_nodes(const LayerWeights& weights, const bf16* nodes) {
    constexpr int per_warp = 3 * kColumnTiles / kWarps, group = 3;  // 9 tiles of 8 outputs a warp, three at a time
    static_assert(3 * kColumnTiles % kWarps == 0 && per_warp % group == 0, "tiles a warp");
    RowFragments rows[kNodeTiles];
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m) load_constant_rows(rows[m], nodes, kChannels, 16 * m, kNodes);
    bf16* by_channel = shared_at<bf16>(ForwardShared::query);  // queries and keys: 2 D rows of nodes
    bf16* value = shared_at<bf16>(ForwardShared::value);
    const int r = fragment_row(), q = quad_position();
#pragma unroll 1
    for (int first = 0; first < per_warp; first += group) {
        WeightFragments fragments[group];
        float2 bias[group];
#pragma unroll
        for (int t = 0; t < group; ++t) {
            const int tile = warp_index() * per_warp + first + t;
            load_weight(fragments[t], weights.node_qkv + tile * 8 * kChannels, kChannels);
            bias[t] = load_constant_float2(weights.node_qkv_bias + 8 * tile + 2 * q);
        }
#pragma unroll
        for (int t = 0; t < group; ++t) {
            const int tile = warp_index() * per_warp + first + t, column = 8 * tile + 2 * q;
#pragma unroll
            for (int m = 0; m < kNodeTiles; ++m) {
                float d[4] = {bias[t].x, bias[t].y, bias[t].x, bias[t].y};
                multiply(d, rows[m], fragments[t]);
                const int upper = 16 * m + r, lower = upper + 8;
                if (tile < 2 * kColumnTiles) {
                    bf16 *first_channel = by_channel + column * kNodeStride, *second_channel = first_channel + kNodeStride;
                    if (upper < kNodes) first_channel[upper] = to_bf16(d[0]), second_channel[upper] = to_bf16(d[1]);
                    if (lower < kNodes) first_channel[lower] = to_bf16(d[2]), second_channel[lower] = to_bf16(d[3]);
                } else {
                    const int of_value = column - 2 * kChannels;
                    if (upper < kNodes) *(unsigned*)(value + row_offset(upper, of_value)) = pack_bf16(d[0], d[1]);
                    if (lower < kNodes) *(unsigned*)(value + row_offset(lower, of_value)) = pack_bf16(d[2], d[3]);
                }
            }
        }
    }
}

// The values of two neighbouring nodes in a row of nodes (see kNodeStride): of `node` and of `next`.
__device__ __forceinline__ float2 node_pair(const bf16* row, int node, int next) {
    if (kNodes % 2 == 0 && next != node) {  // node is even, next follows it
        const unsigned pair = *(const unsigned*)(row + node);
        return make_float2(low_float(pair), high_float(pair));
    }
    const float first = to_float(row[node]);
    return make_float2(first, next == node ? first : to_float(row[next]));
}

// Scores of one head for the edges of the groups of 32 from `first` to `last` - 1.
__device__ __forceinline__ void score_head(const LeftWeights& query_weight, const LeftWeights& key_weight, int head, int first, int last) {
    const bf16* edges = shared_at<bf16>(ForwardShared::edges);
    const int r = fragment_row(), q = quad_position();
    const bf16* query = shared_at<bf16>(ForwardShared::query) + (head * kHeadSize + r) * kNodeStride;
    const bf16* key = shared_at<bf16>(ForwardShared::key) + (head * kHeadSize + r) * kNodeStride;
    float* scores = shared_at<float>(ForwardShared::scores);
#pragma unroll 1
    for (int group = first; group < last; ++group) {
        float query_sum[4][4], key_sum[4][4];  // q_ij and k_ij of four times 8 edges, begun with the nodes' part
        const RowBlocks rows(edges, 32 * group + r);
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            // The lane's two edges as columns of the result. The last group may reach beyond the graph, into shared memory
            // of other use: columns do not mix, and those are not stored.
            const int edge = 32 * group + 8 * t + 2 * q, next = edge + 1;
            const int i = edge / kNodes, j = edge % kNodes, next_i = kNodes % 2 ? next / kNodes : i, next_j = kNodes % 2 ? next % kNodes : j + 1;
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
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                const uint4 edge = rows.load(b, 8 * t);
                multiply_left(query_sum[t], query_weight.block[b], edge);
                multiply_left(key_sum[t], key_weight.block[b], edge);
            }
        }
        // The sum over the head's channels: the lane's two, then those of the eight lanes with the same q, which share out
        // the 32 edges in three exchanges: each lane is left with one.
        const int lane = lane_index();
        float score[4][2];
#pragma unroll
        for (int t = 0; t < 4; ++t)
#pragma unroll
            for (int c = 0; c < 2; ++c) score[t][c] = query_sum[t][c] * key_sum[t][c] + query_sum[t][2 + c] * key_sum[t][2 + c];
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                const float given = lane & 16 ? score[t][c] : score[t + 2][c], kept = lane & 16 ? score[t + 2][c] : score[t][c];
                score[t][c] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, 16);
            }
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            const float given = lane & 8 ? score[0][c] : score[1][c], kept = lane & 8 ? score[1][c] : score[0][c];
            score[0][c] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, 8);
        }
        const float given = lane & 4 ? score[0][0] : score[0][1], kept = lane & 4 ? score[0][1] : score[0][0];
        const float total = kept + __shfl_xor_sync(0xFFFFFFFFu, given, 4);
        const int edge = 32 * group + (lane >> 3) * 8 + 2 * q + (lane >> 2 & 1);
        if (kEdges % 32 == 0 || edge < kEdges) scores[edge * kHeads + head] = total * 0.25f;  // 1 / sqrt(head size)
    }
}

// A warp scores one head for all edges, then another for half of them (12 heads, 8 warps: head w and half of 8 + w / 2).
// Begins with a barrier (edges, queries and keys must be there).
__device__ __forceinline__ void score_pairs(const LayerWeights& weights) {
    static_assert(kHeads == kWarps + kWarps / 2, "heads a warp");
    const int warp = warp_index();
    constexpr int groups = (kEdges + 31) / 32, middle = (groups + 1) / 2;
    LeftWeights query_weight, key_weight;
#pragma unroll 1
    for (int part = 0; part < 2; ++part) {
        const int head = part == 0 ? warp : kWarps + warp / 2;
        const int first = part == 1 && warp % 2 == 1 ? middle : 0;
        const int last = part == 1 && warp % 2 == 0 ? middle : groups;
        load_left(query_weight, weights.edge_qkv + head * kHeadSize * kChannels, kChannels);
        load_left(key_weight, weights.edge_qkv + (kChannels + head * kHeadSize) * kChannels, kChannels);
        if (part == 0) __syncthreads();
        score_head(query_weight, key_weight, head, first, last);
    }
}

__device__ __forceinline__ void normalize_scores(bf16* attention) {
    for (int k = threadIdx.x; k < kNodes * kHeads; k += kThreads) {
        const int i = k / kHeads, head = k % kHeads;
        float* scores = shared_at<float>(ForwardShared::scores) + i * kNodes * kHeads + head;
        float weight[kNodes], largest = -3.0e38f, sum = 0.0f;
#pragma unroll
        for (int j = 0; j < kNodes; ++j) weight[j] = scores[j * kHeads], largest = fmaxf(largest, weight[j]);
#pragma unroll
        for (int j = 0; j < kNodes; ++j) weight[j] = __expf(weight[j] - largest), sum += weight[j];
        const float scale = __fdividef(1.0f, sum);
#pragma unroll
        for (int j = 0; j < kNodes; ++j) scores[j * kHeads] = weight[j] *= scale;
        if (attention) {
            bf16* row = attention + (head * kNodes + i) * kNodes;
#pragma unroll
            for (int j = 0; j < kNodes; ++j) {
                if (kNodes % 2) row[j] = to_bf16(weight[j]);
                else if (j % 2 == 0) *(unsigned*)(row + j) = pack_bf16(weight[j], weight[j + 1]);
            }
        }
    }
}

// Two neighbouring attention weights as a fragment's word: a_ijh and a_i(j+1)h, zero outside the graph.
__device__ __forceinline__ unsigned weight_pair(int i, int j, int head) {
    const float* weights = shared_at<float>(ForwardShared::scores) + (i * kNodes + j) * kHeads + head;
    const bool inside = i < kNodes && head < kHeads;
    return pack_bf16(inside && j < kNodes ? weights[0] : 0.0f, inside && j + 1 < kNodes ? weights[kHeads] : 0.0f);
}

// context [N, H, D] in device memory: of node i, the weights [heads, j] times the edges [j, D] (transposed by ldmatrix).
__device__ __forceinline__ void average_edges(bf16* context) {
    const bf16* edges = shared_at<bf16>(ForwardShared::edges);
    const int lane = lane_index(), r = fragment_row(), q = quad_position();
#pragma unroll 1
    for (int i = warp_index(); i < kNodes; i += kWarps) {
        unsigned weight[kNodeTiles][4];
        const bf16* row[kNodeTiles];  // this lane's row of ldmatrix: j = 0 to 15 for the left 8 columns, then for the right
        int row_swizzle[kNodeTiles];
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            const int j = 16 * m + 2 * q;
            weight[m][0] = weight_pair(i, j, r), weight[m][1] = weight_pair(i, j, r + 8);
            weight[m][2] = weight_pair(i, j + 8, r), weight[m][3] = weight_pair(i, j + 8, r + 8);
            const int edge = min(i * kNodes + 16 * m + lane % 16, kEdges - 1);  // beyond the graph: any row, its weight is zero
            row[m] = edges + edge * kChannels, row_swizzle[m] = swizzle(edge);
        }
        bf16* output = context + (i * kHeads + r) * kChannels + 2 * (q & 2) + (q & 1) * 8;
#pragma unroll
        for (int pair = 0; pair < kColumnTiles / 2; ++pair) {
            float left[4] = {0, 0, 0, 0}, right[4] = {0, 0, 0, 0};
#pragma unroll
            for (int m = 0; m < kNodeTiles; ++m) {
                unsigned columns[4];
                ldmatrix_x4_transpose(columns, row[m] + ((2 * pair + lane / 16) ^ row_swizzle[m]) * 8);
                const unsigned left_columns[2] = {columns[0], columns[1]}, right_columns[2] = {columns[2], columns[3]};
                mma_16x8x16(left, weight[m], left_columns);
                mma_16x8x16(right, weight[m], right_columns);
            }
            // Neighbouring lanes exchange halves so that each stores 4 consecutive channels (even lanes of the left tile).
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const unsigned in_left = pack_bf16(left[2 * half], left[2 * half + 1]);
                const unsigned in_right = pack_bf16(right[2 * half], right[2 * half + 1]);
                const unsigned received = __shfl_xor_sync(0xFFFFFFFFu, q & 1 ? in_left : in_right, 1);
                const uint2 four = q & 1 ? make_uint2(received, in_right) : make_uint2(in_left, received);
                if (r + 8 * half < kHeads) *(uint2*)(output + half * 8 * kChannels + 16 * pair) = four;
            }
        }
    }
}

// Begins with a barrier (the context must be there).
__device__ __forceinline__ void gather_messages(const LayerWeights& weights, const bf16* context, bf16* messages) {
    const bf16* value = shared_at<bf16>(ForwardShared::value);
    bf16* shared_messages = shared_at<bf16>(ForwardShared::query);
    const int r = fragment_row(), q = quad_position();
    constexpr int per_warp = kColumnTiles / kWarps;
    WeightFragments fragments[per_warp];
#pragma unroll
    for (int t = 0; t < per_warp; ++t)
        load_weight(fragments[t], weights.edge_qkv + (2 * kChannels + 8 * (warp_index() * per_warp + t)) * kChannels, kChannels);
    __syncthreads();
#pragma unroll
    for (int t = 0; t < per_warp; ++t) {
        const int tile = warp_index() * per_warp + t, head = tile / 2;
        unsigned values[kNodeTiles][2];  // v_j of the tile's 8 channels, k = j
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m)
            ldmatrix_x2_transpose(values[m], value + row_offset(min(16 * m + lane_index() % 16, kNodes - 1), 8 * tile));
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            const int upper = 16 * m + r, lower = upper + 8;
            float d[4] = {0, 0, 0, 0};
#pragma unroll
            for (int n = 0; n < kNodeTiles; ++n) {
                const int j = 16 * n + 2 * q;
                const unsigned weight[4] = {weight_pair(upper, j, head), weight_pair(lower, j, head),
                                            weight_pair(upper, j + 8, head), weight_pair(lower, j + 8, head)};
                mma_16x8x16(d, weight, values[n]);
            }
            const bf16* rows = context + head * kChannels + 8 * q;
#pragma unroll
            for (int b = 0; b < kColumnBlocks; ++b) {
                const uint4 zero = make_uint4(0, 0, 0, 0);
                const uint4 above = upper < kNodes ? *(const uint4*)(rows + upper * kHeads * kChannels + 32 * b) : zero;
                const uint4 below = lower < kNodes ? *(const uint4*)(rows + lower * kHeads * kChannels + 32 * b) : zero;
                multiply_block(d, above, below, fragments[t].block[b]);
            }
            const int column = 8 * tile + 2 * q;
            const unsigned first = pack_bf16(d[0], d[1]), second = pack_bf16(d[2], d[3]);
            if (upper < kNodes) *(unsigned*)(shared_messages + row_offset(upper, column)) = first;
            if (lower < kNodes) *(unsigned*)(shared_messages + row_offset(lower, column)) = second;
            if (messages && upper < kNodes) *(unsigned*)(messages + upper * kChannels + column) = first;
            if (messages && lower < kNodes) *(unsigned*)(messages + lower * kChannels + column) = second;
        }
    }
}

// ---- Nodes ----
constexpr int kWarpTiles = kColumnTiles / kWarps;  // a warp's share of the channels: 3 tiles of 8, for every node
using NodeValues = float[kNodeTiles][kWarpTiles][4];  // accumulators: [..][..][0, 1] of the upper row, [2, 3] of the lower

// The warp's channels of a LayerNorm's weight and bias, or of another vector, as accumulators lie.
using NodeVector = float2[kWarpTiles];
__device__ __forceinline__ void load_vector(NodeVector& vector, const float* values) {
#pragma unroll
    for (int t = 0; t < kWarpTiles; ++t)
        vector[t] = load_constant_float2(values + (warp_index() * kWarpTiles + t) * 8 + 2 * quad_position());
}

// LayerNorm of rows whose channels are spread over the warps: each warp's mean and squared deviations of its 24 channels,
// joined (exactly, by the parallel formula) after a barrier. statistics: float [N, 4], of which mean and 1 / std are written.
__device__ __forceinline__ void normalize_nodes(NodeValues& x, const NodeVector& weight, const NodeVector& bias, float* statistics) {
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
            const int row = 16 * m + 8 * half + r;
            float means[kWarps], mean = 0.0f, squares = 0.0f;
#pragma unroll
            for (int w = 0; w < kWarps; ++w) {
                const float2 part = partials[row * kWarps + w];
                means[w] = part.x, mean += part.x * (1.0f / kWarps), squares += part.y;
            }
#pragma unroll
            for (int w = 0; w < kWarps; ++w) squares += count * (means[w] - mean) * (means[w] - mean);
            const float scale = rsqrtf(squares * (1.0f / kChannels) + kEpsilon);
            if (statistics && warp == 0 && q == 0 && row < kNodes) *(float2*)(statistics + 4 * row) = make_float2(mean, scale);
#pragma unroll
            for (int t = 0; t < kWarpTiles; ++t) {
                x[m][t][2 * half] = (x[m][t][2 * half] - mean) * scale * weight[t].x + bias[t].x;
                x[m][t][2 * half + 1] = (x[m][t][2 * half + 1] - mean) * scale * weight[t].y + bias[t].y;
            }
        }
}

// Writes the warp's channels of every node to a swizzled array in shared memory and to device memory (unless null).
__device__ __forceinline__ void store_nodes(const NodeValues& x, bf16* shared, bf16* global) {
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m)
#pragma unroll
        for (int t = 0; t < kWarpTiles; ++t)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = 16 * m + 8 * half + fragment_row();
                const int column = (warp_index() * kWarpTiles + t) * 8 + 2 * quad_position();
                const unsigned pair = pack_bf16(x[m][t][2 * half], x[m][t][2 * half + 1]);
                if (row < kNodes) {
                    *(unsigned*)(shared + row_offset(row, column)) = pair;
                    if (global) *(unsigned*)(global + row * kChannels + column) = pair;
                }
            }
}

// Begins with a barrier (the messages must be there).
__device__ __forceinline__ void update_nodes(const LayerWeights& weights, const bf16* nodes, bf16* middle_nodes, bf16* new_nodes,
                                             float* statistics) {
    const bf16* messages = shared_at<bf16>(ForwardShared::query);
    bf16* middle = shared_at<bf16>(ForwardShared::key);
    bf16* hidden = shared_at<bf16>(ForwardShared::hidden);
    constexpr int hidden_stride = kNodeHidden + 8;
    const int r = fragment_row(), q = quad_position(), warp = warp_index(), first_column = warp * kWarpTiles * 8;
    NodeValues x;
    {
        WeightFragments fragments[kWarpTiles];
#pragma unroll
        for (int t = 0; t < kWarpTiles; ++t)
            load_weight(fragments[t], weights.node_output + (first_column + 8 * t) * kChannels, kChannels);
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m)
#pragma unroll
            for (int t = 0; t < kWarpTiles; ++t) {
                const int column = first_column + 8 * t + 2 * q;
                const float2 bias = load_constant_float2(weights.node_output_bias + column);
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int row = 16 * m + 8 * half + r;
                    const unsigned pair = row < kNodes ? load_constant_4(nodes + row * kChannels + column) : 0;
                    x[m][t][2 * half] = bias.x + low_float(pair), x[m][t][2 * half + 1] = bias.y + high_float(pair);
                }
            }
        __syncthreads();
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            RowFragments rows;
            load_shared_rows(rows, messages, 16 * m, kNodes);
#pragma unroll
            for (int t = 0; t < kWarpTiles; ++t) multiply(x[m][t], rows, fragments[t]);
        }
    }
    // The feed-forward's hidden layer is 4 tiles of 8 for each tile of nodes, one a warp. What it needs is loaded early.
    const int node_tile = warp / 4, hidden_tile = warp % 4;
    NodeVector norm_weight, norm_bias, last_weight, last_bias, out_bias;
    load_vector(norm_weight, weights.node_norm_weight);
    load_vector(norm_bias, weights.node_norm_bias);
    WeightFragments in_weight;
    load_weight(in_weight, weights.node_feed_forward_in + hidden_tile * 8 * kChannels, kChannels);
    const float2 in_bias = load_constant_float2(weights.node_feed_forward_in_bias + hidden_tile * 8 + 2 * q);
    uint4 out_weight[kWarpTiles];
#pragma unroll
    for (int t = 0; t < kWarpTiles; ++t)
        out_weight[t] = load_constant_16(weights.node_feed_forward_out + (first_column + 8 * t + r) * kNodeHidden + 8 * q);
    load_vector(out_bias, weights.node_feed_forward_out_bias);
    load_vector(last_weight, weights.node_feed_forward_norm_weight);
    load_vector(last_bias, weights.node_feed_forward_norm_bias);
    normalize_nodes(x, norm_weight, norm_bias, statistics);
    store_nodes(x, middle, middle_nodes);
    __syncthreads();
    if (node_tile < kNodeTiles) {
        const int column = hidden_tile * 8 + 2 * q;
        float d[4] = {in_bias.x, in_bias.y, in_bias.x, in_bias.y};
        RowFragments rows;
        load_shared_rows(rows, middle, 16 * node_tile, kNodes);
        multiply(d, rows, in_weight);
        const int upper = 16 * node_tile + r, lower = upper + 8;
        if (upper < kNodes) *(unsigned*)(hidden + upper * hidden_stride + column) = pack_bf16(fmaxf(d[0], 0.0f), fmaxf(d[1], 0.0f));
        if (lower < kNodes) *(unsigned*)(hidden + lower * hidden_stride + column) = pack_bf16(fmaxf(d[2], 0.0f), fmaxf(d[3], 0.0f));
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m) {
        const int upper = 16 * m + r, lower = upper + 8;
        const uint4 zero = make_uint4(0, 0, 0, 0);
        const uint4 above = upper < kNodes ? *(const uint4*)(hidden + upper * hidden_stride + 8 * q) : zero;
        const uint4 below = lower < kNodes ? *(const uint4*)(hidden + lower * hidden_stride + 8 * q) : zero;
#pragma unroll
        for (int t = 0; t < kWarpTiles; ++t) {
#pragma unroll
            for (int k = 0; k < 4; ++k) x[m][t][k] += k % 2 ? out_bias[t].y : out_bias[t].x;
            multiply_block(x[m][t], above, below, out_weight[t]);
        }
    }
    normalize_nodes(x, last_weight, last_bias, statistics ? statistics + 2 : nullptr);
    store_nodes(x, shared_at<bf16>(ForwardShared::value), new_nodes);
}

// ---- Edges ----
// senders_j and receivers_i: 2 tiles of 8 channels each, for each tile of nodes, one a warp.
// Begins with a barrier (the new nodes must be there).
__device__ __forceinline__ void project_ends(const LayerWeights& weights) {
    const int node_tile = warp_index() / 4, part = warp_index() % 4 / 2, column = warp_index() % 2 * 8, q = quad_position();
    WeightFragments fragments;
    load_weight(fragments, weights.edge_message_in + column * 4 * kChannels + (2 + part) * kChannels, 4 * kChannels);
    const float2 bias = load_constant_float2(weights.edge_message_in_bias + column + 2 * q);
    __syncthreads();
    if (node_tile >= kNodeTiles) return;
    RowFragments rows;
    load_shared_rows(rows, shared_at<bf16>(ForwardShared::value), 16 * node_tile, kNodes);
    float d[4] = {0, 0, 0, 0};
    if (part == 0) d[0] = d[2] = bias.x, d[1] = d[3] = bias.y;  // the senders'
    multiply(d, rows, fragments);
    float* output = shared_at<float>(part == 0 ? ForwardShared::senders : ForwardShared::receivers) + (column + 2 * q) * kNodeStride;
    const int upper = 16 * node_tile + fragment_row(), lower = upper + 8;
    if (upper < kNodes) output[upper] = d[0], output[kNodeStride + upper] = d[1];
    if (lower < kNodes) output[lower] = d[2], output[kNodeStride + lower] = d[3];
}

// 16 edges, all channels, in the permuted order: [b][t][0, 1] are channels 32 b + 8 q + 2 t and the next of the upper row.
using EdgeValues = float[kColumnBlocks][4][4];

__device__ __forceinline__ void normalize_edges(EdgeValues& x, const float* weight, const float* bias) {
    float scale[2], shift[2];  // (x - mean) / std = x * scale + shift
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sums[4] = {}, squares[4] = {};  // four chains; one pass: residuals of normalized edges have small means
#pragma unroll
        for (int k = 0; k < kColumnBlocks * 4; ++k) {
            const float first = x[k / 4][k % 4][2 * half], second = x[k / 4][k % 4][2 * half + 1];
            sums[k % 4] += first, squares[k % 4] += first * first;
            sums[k % 4] += second, squares[k % 4] += second * second;
        }
        const float mean = quad_sum((sums[0] + sums[1]) + (sums[2] + sums[3])) * (1.0f / kChannels);
        const float square = quad_sum((squares[0] + squares[1]) + (squares[2] + squares[3])) * (1.0f / kChannels);
        const float variance = fmaxf(square - mean * mean, 0.0f);
        scale[half] = rsqrtf(variance + kEpsilon);
        shift[half] = -mean * scale[half];
    }
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 2; ++k) {
        const int column = k / 2 * 32 + quad_position() * 8 + k % 2 * 4;
        const float4 w = *(const float4*)(weight + column), b = *(const float4*)(bias + column);
        float(&one)[4] = x[k / 2][k % 2 * 2], (&two)[4] = x[k / 2][k % 2 * 2 + 1];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            one[2 * half] = (one[2 * half] * scale[half] + shift[half]) * w.x + b.x;
            one[2 * half + 1] = (one[2 * half + 1] * scale[half] + shift[half]) * w.y + b.y;
            two[2 * half] = (two[2 * half] * scale[half] + shift[half]) * w.z + b.z;
            two[2 * half + 1] = (two[2 * half + 1] * scale[half] + shift[half]) * w.w + b.w;
        }
    }
}

// Adds a vector over the channels to both rows.
__device__ __forceinline__ void add_vector(EdgeValues& x, const float* vector) {
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 2; ++k) {
        const float4 v = *(const float4*)(vector + k / 2 * 32 + quad_position() * 8 + k % 2 * 4);
        float(&one)[4] = x[k / 2][k % 2 * 2], (&two)[4] = x[k / 2][k % 2 * 2 + 1];
        one[0] += v.x, one[1] += v.y, one[2] += v.x, one[3] += v.y;
        two[0] += v.z, two[1] += v.w, two[2] += v.z, two[3] += v.w;
    }
}

// Eight consecutive channels of one row of a block, as bf16.
__device__ __forceinline__ uint4 pack_row(const float (&block)[4][4], int half) {
    return make_uint4(pack_bf16(block[0][2 * half], block[0][2 * half + 1]), pack_bf16(block[1][2 * half], block[1][2 * half + 1]),
                      pack_bf16(block[2][2 * half], block[2][2 * half + 1]), pack_bf16(block[3][2 * half], block[3][2 * half + 1]));
}

// Begins with project_ends, between two barriers, while the first weights are on their way.
__device__ __forceinline__ void update_edges(const LayerWeights& weights, bf16* new_edges) {
    const bf16* edges = shared_at<bf16>(ForwardShared::edges);
    const float* senders = shared_at<float>(ForwardShared::senders);
    const float* receivers = shared_at<float>(ForwardShared::receivers);
    const float* vectors = shared_at<float>(ForwardShared::vectors);
    const int r = fragment_row(), q = quad_position(), lane = lane_index();

    WeightFragments in_weight;
    load_weight(in_weight, weights.edge_feed_forward_in, kChannels);
    const float2 in_bias = load_constant_float2(weights.edge_feed_forward_in_bias + 2 * q);

    // First the hidden layer of all the warp's tiles, with its weights in registers as the left operand; the result,
    // transposed, is the left operand of the next product: 4 words a lane and tile, kept in shared memory (each lane reads
    // what it wrote).
    uint4* hidden = shared_at<uint4>(ForwardShared::scores) + lane;  // [tiles, 32]
    {
        LeftWeights own, reverse;
        load_left(own, weights.edge_message_in, 4 * kChannels);
        load_left(reverse, weights.edge_message_in + kChannels, 4 * kChannels);
        project_ends(weights);
        __syncthreads();
#pragma unroll 1
        for (int tile = warp_index(); tile < kEdgeTiles; tile += kWarps) {
            float d[2][4], back[2][4] = {};  // [8 edges]: of the edges, with their nodes' part; of their reverses
            const int first = min(16 * tile + r, kEdges - 1), second = min(16 * tile + 8 + r, kEdges - 1);
            const RowBlocks rows(edges, 16 * tile + r);
            const RowBlocks back_rows[2] = {RowBlocks(edges, first % kNodes * kNodes + first / kNodes),
                                            RowBlocks(edges, second % kNodes * kNodes + second / kNodes)};
#pragma unroll
            for (int t = 0; t < 2; ++t) {
#pragma unroll
                for (int c = 0; c < 2; ++c) {  // the lane's two edges as columns of the result
                    const int edge = min(16 * tile + 8 * t + 2 * q + c, kEdges - 1), i = edge / kNodes, j = edge % kNodes;
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        const int channel = (r + 8 * half) * kNodeStride;
                        d[t][2 * half + c] = senders[channel + j] + receivers[channel + i];
                    }
                }
            }
#pragma unroll
            for (int b = 0; b < kColumnBlocks; ++b)
#pragma unroll
                for (int t = 0; t < 2; ++t) {
                    multiply_left(d[t], own.block[b], rows.load(b, 8 * t));
                    multiply_left(back[t], reverse.block[b], back_rows[t].load(b));
                }
            unsigned words[4];  // word t + 2 half: edges 8 t + r, channels 8 half + 2 q and the next
#pragma unroll
            for (int t = 0; t < 2; ++t)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    words[t + 2 * half] = movmatrix_transpose(pack_bf16(fmaxf(d[t][2 * half] + back[t][2 * half], 0.0f),
                                                                        fmaxf(d[t][2 * half + 1] + back[t][2 * half + 1], 0.0f)));
            hidden[tile * 32] = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }

    const uint2* message_out = shared_at<uint2>(ForwardShared::message_out) + lane;
    const uint2* feed_forward_out = shared_at<uint2>(ForwardShared::feed_forward_out) + lane;
    const unsigned one_pair = q == 0 ? 0x3F803F80u : 0;  // 1 at k = 8 and 9: times the bias, see store_output_fragments
#pragma unroll 1
    for (int tile = warp_index(); tile < kEdgeTiles; tile += kWarps) {
        const int upper = 16 * tile + r, lower = upper + 8;
        const uint4 words = hidden[tile * 32];
        const RowBlocks rows(edges, upper);
        const unsigned activation[4] = {words.x, words.y, words.z, words.w};
        EdgeValues x;
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            const uint4 above = rows.load(b), below = rows.load(b, 8);
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                x[b][t][0] = low_float(word(above, t)), x[b][t][1] = high_float(word(above, t));
                x[b][t][2] = low_float(word(below, t)), x[b][t][3] = high_float(word(below, t));
                const uint2 pair = message_out[(4 * b + t) * 32];
                const unsigned weight[2] = {pair.x, pair.y};
                mma_16x8x16(x[b][t], activation, weight);
            }
        }
        add_vector(x, vectors + kMessageOutBias * kChannels);
        normalize_edges(x, vectors + kNormWeight * kChannels, vectors + kNormBias * kChannels);

        float d[4] = {in_bias.x, in_bias.y, in_bias.x, in_bias.y};
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) multiply_block(d, pack_row(x[b], 0), pack_row(x[b], 1), in_weight.block[b]);
        const unsigned second[4] = {pack_bf16(fmaxf(d[0], 0.0f), fmaxf(d[1], 0.0f)), pack_bf16(fmaxf(d[2], 0.0f), fmaxf(d[3], 0.0f)),
                                    one_pair, one_pair};
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b)
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                const uint2 pair = feed_forward_out[(4 * b + t) * 32];
                const unsigned weight[2] = {pair.x, pair.y};
                mma_16x8x16(x[b][t], second, weight);
            }
        normalize_edges(x, vectors + kFeedForwardNormWeight * kChannels, vectors + kFeedForwardNormBias * kChannels);
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            const bool whole = kEdges % 16 == 0;  // every tile is full
            if (whole || upper < kEdges) *(uint4*)(new_edges + upper * kChannels + 32 * b + 8 * q) = pack_row(x[b], 0);
            if (whole || lower < kEdges) *(uint4*)(new_edges + lower * kChannels + 32 * b + 8 * q) = pack_row(x[b], 1);
        }
    }
}

// grid (graphs, seeds), kThreads threads, ForwardShared::bytes of dynamic shared memory. Tensors are contiguous,
// [seeds, graphs, ...] and 16-byte aligned. `context` is always needed; attention, middle_nodes, messages and
// node_statistics (what the backward reads) may be null.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
layer_forward(LayerWeights all_weights,
              const bf16* nodes,        // [N, D]
              const bf16* edges,        // [N, N, D]
              bf16* new_nodes,          // [N, D]
              bf16* new_edges,          // [N, N, D]
              bf16* attention,          // [H, N, N]
              bf16* middle_nodes,       // [N, D] after the first norm
              bf16* messages,           // [N, D]
              bf16* context,            // [N, H, D]
              float* node_statistics    // [N, 4] mean and 1 / std of the first norm, then of the second
) {
    const long long graph = (long long)blockIdx.y * gridDim.x + blockIdx.x;
    const LayerWeights weights = all_weights.of_seed(blockIdx.y);
    nodes += graph * kNodes * kChannels;
    edges += graph * kEdges * kChannels;
    new_nodes += graph * kNodes * kChannels;
    new_edges += graph * kEdges * kChannels;
    if (attention) attention += graph * kHeads * kEdges;
    if (middle_nodes) middle_nodes += graph * kNodes * kChannels;
    if (messages) messages += graph * kNodes * kChannels;
    context += graph * kNodes * kHeads * kChannels;
    if (node_statistics) node_statistics += graph * kNodes * 4;

    start_loading(weights, edges);
    OutputFragments fragments;
    load_output_fragments(fragments, weights);
    project_nodes(weights, nodes);
    store_output_fragments(fragments);
    cp_async_wait<0>();
    score_pairs(weights);
    __syncthreads();
    normalize_scores(attention);
    __syncthreads();
    average_edges(context);
    gather_messages(weights, context, messages);
    update_nodes(weights, nodes, middle_nodes, new_nodes, node_statistics);
    update_edges(weights, new_edges);
}
