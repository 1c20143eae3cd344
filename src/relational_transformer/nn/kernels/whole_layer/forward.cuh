// One relational layer forward, one thread block a graph: a single launch, the edges in shared memory throughout.
// Without an edge update (UPDATE_EDGES 0) it ends with the nodes, and no edges are written.
//
// Phases (a barrier between each two; r = lane / 4, q = lane % 4):
//   project            q, k of the nodes                                       warps share the 48 tiles of output channels
//   score_pairs        q_ij . k_ij / 4 of every edge and head                  a warp holds a head's weights, streams all edges
//   normalize_scores   softmax over j                                          a thread takes one (i, head)
//   project            v of the nodes                                          warps share the 24 tiles of output channels
//   average_edges      context_ih = sum_j a_ijh e_ij                           a warp takes one i
//   gather_messages    message_ih = sum_j a_ijh v_jh + We_v,h context_ih       a warp takes a head, and part of another
//   update_nodes       output product, LayerNorm, feed-forward, LayerNorm      a warp takes 24 channels of all nodes
//   project_ends       what senders and receivers add to the edges' hidden layer
//   update_edges       the edge update                                         a warp takes 16 edges, all channels in registers
//
// Weights are packed in the order in which lanes read them (parameters.py), so that a warp's load is one contiguous piece
// and its words are operands as they come. A profile on an H200 showed warps waiting for instructions wherever code lay
// beyond some 68 KB (4,300 instructions), in this kernel and in the backward one: so loops are kept rolled.
#pragma once
#include "tile.cuh"

#ifndef KEEPS
#define KEEPS 1  // whether to write what a backward pass needs; without it the kernel is `layer_inference`
#endif
constexpr bool kKeeps = KEEPS;

// ---- Packed weights ----
// Offsets in bf16 of a seed's matrices. `tiles`: 8 outputs as the right operand, 16 bytes a lane and block of 32 inputs.
// `lefts`: 16 outputs as the left operand, twice 16 bytes a lane and block. Those of the edge update come last, here and in
// the vectors: a layer without it has the others alone.
struct PackedMatrices {
    static constexpr int tile = kChannels * 8, left = kChannels * 16;
    static constexpr int node_qkv = 0;                                       // tiles [72]
    static constexpr int edge_query_key = node_qkv + 72 * tile;              // lefts [12 heads][query, key]
    static constexpr int edge_value = edge_query_key + 24 * left;            // lefts [12 heads]
    static constexpr int node_output = edge_value + 12 * left;               // tiles [24]
    static constexpr int node_feed_forward_in = node_output + 24 * tile;     // tiles [4]
    static constexpr int node_feed_forward_out = node_feed_forward_in + 4 * tile;  // [24] tiles of one block of inputs
    static constexpr int edge_message_in = node_feed_forward_out + kChannels * kNodeHidden;  // lefts [of e_ij, of e_ji]
    static constexpr int ends = edge_message_in + 2 * left;                  // tiles [4]: two of senders, two of receivers
    static constexpr int edge_feed_forward_in = ends + 4 * tile;             // one tile
    static constexpr int edge_message_out = edge_feed_forward_in + tile;     // [12 pairs of tiles, 32 lanes, 8]
    static constexpr int edge_feed_forward_out = edge_message_out + 12 * 32 * 8;   // likewise, with the bias
    static constexpr int size = kUpdatesEdges ? edge_feed_forward_out + 12 * 32 * 8 : edge_message_in;
};
// Offsets in floats of a seed's biases and norms.
struct PackedVectors {
    static constexpr int node_qkv_bias = 0;  // the nodes' plus the edges'
    static constexpr int node_output_bias = node_qkv_bias + 3 * kChannels;
    static constexpr int node_norm_weight = node_output_bias + kChannels;
    static constexpr int node_norm_bias = node_norm_weight + kChannels;
    static constexpr int node_feed_forward_in_bias = node_norm_bias + kChannels;
    static constexpr int node_feed_forward_out_bias = node_feed_forward_in_bias + kNodeHidden;
    static constexpr int node_feed_forward_norm_weight = node_feed_forward_out_bias + kChannels;
    static constexpr int node_feed_forward_norm_bias = node_feed_forward_norm_weight + kChannels;
    static constexpr int edge_message_in_bias = node_feed_forward_norm_bias + kChannels;
    static constexpr int edge_message_out_bias = edge_message_in_bias + kMessageHidden;
    static constexpr int edge_norm_weight = edge_message_out_bias + kChannels;
    static constexpr int edge_norm_bias = edge_norm_weight + kChannels;
    static constexpr int edge_feed_forward_in_bias = edge_norm_bias + kChannels;
    static constexpr int edge_feed_forward_norm_weight = edge_feed_forward_in_bias + kEdgeHidden;
    static constexpr int edge_feed_forward_norm_bias = edge_feed_forward_norm_weight + kChannels;  // follows its weight, as edge_norm_bias
    static constexpr int size = kUpdatesEdges ? edge_feed_forward_norm_bias + kChannels : edge_message_in_bias;
};
struct LayerWeights {
    const bf16* matrices;  // [S, PackedMatrices::size]
    const float* vectors;  // [S, PackedVectors::size]
};
// How many graphs lie between the first ones of two neighbouring seeds: those of one step, or of all steps of a trajectory.
struct SeedStrides {
    int read;  // nodes and edges
    int made;  // new nodes and edges
    int kept;  // everything else
};

// ---- Shared memory ----
// Queries, keys and values are kept by channel, the nodes side by side: [D, kNodeStride] (24: no bank conflicts for 8
// channels x 4 pairs of nodes). Senders and receivers likewise: [M1, stride].
constexpr int kNodeStride = 24, kReceiverStride = 20;
static_assert(kNodes <= 20, "rows of nodes");
// Scores are float [H, N, kScoreStride] and a little between heads, where the weights take their place as bf16 with
// zeros up to 16 kNodeTiles: no bank conflicts for 8 rows (of one head, or of one node) x 4 pairs of neighbours.
constexpr int kScoreStride = 20, kHeadScores = (kNodes * kScoreStride + 31) / 32 * 32 + 4;
struct ForwardShared {
    // Each offset is in bytes, a multiple of 16.
    static constexpr int edges = 0;                                                  // bf16 [tiles * 16, D] swizzled
    static constexpr int query = edges + kEdgeTiles * 16 * kChannels * 2;            // bf16 [D, node stride]; later: messages
    static constexpr int key = query + kChannels * kNodeStride * 2;                  // likewise; later: nodes after the first norm
    static constexpr int value = key + kChannels * kNodeStride * 2;                  // likewise; later: the new nodes
    static constexpr int scores = value + kChannels * kNodeStride * 2;               // see above; later: hidden
    static constexpr int message_out = scores + kHeads * kHeadScores * 4;            // uint4 [12, 32 lanes]: fragments of two tiles
    static constexpr int feed_forward_out = message_out + 12 * 32 * 16;              // likewise
    static constexpr int nodes = message_out;                                        // before these two: bf16 [N, D] swizzled
    static constexpr int vectors = feed_forward_out + 12 * 32 * 16;                  // float [PackedVectors]
    static constexpr int partials = vectors + PackedVectors::size * 4;               // float2 [node tiles * 16, warps]
    static constexpr int hidden = partials + kNodeTiles * 16 * kWarps * 8;           // bf16 [N, FH + 8]
    static constexpr int senders = hidden + (kNodes * (kNodeHidden + 8) * 2 + 15) / 16 * 16;  // float [M1, node stride]
    static constexpr int receivers = senders + kMessageHidden * kNodeStride * 4;     // float [M1, receiver stride]
    static constexpr int bytes = receivers + kMessageHidden * kReceiverStride * 4;
};
static_assert(ForwardShared::bytes <= 227 * 1024, "the graph does not fit into shared memory");
static_assert(ForwardShared::scores % 16 == 0 && ForwardShared::message_out % 16 == 0 && ForwardShared::partials % 16 == 0 &&
              ForwardShared::senders % 16 == 0 && PackedMatrices::size % 8 == 0 && PackedVectors::size % 4 == 0, "alignment");
static_assert(kNodes * kChannels * 2 <= 2 * 12 * 32 * 16, "the nodes lie where the fragments come");
static_assert(kEdgeTiles * 32 * 16 <= kHeads * kHeadScores * 4, "the edges' hidden layer takes the scores' place");

template <class Value> __device__ __forceinline__ Value* shared_at(int offset) { return (Value*)(dynamic_shared_memory() + offset); }
__device__ __forceinline__ const float* shared_vector(int offset) { return shared_at<float>(ForwardShared::vectors) + offset; }

// ---- Fragments ----
// Every other chunk of 8 columns of a row of a swizzled array: four addresses and constant offsets.
struct SwizzledChunks {
    const bf16* start[4];
    __device__ __forceinline__ SwizzledChunks(const bf16* array, int row, int first) {
        const int turn = swizzle(row);
#pragma unroll
        for (int k = 0; k < 4; ++k) start[k] = array + row * kChannels + ((2 * k + first) ^ turn) * 8;
    }
    __device__ __forceinline__ const bf16* at(int k) const { return start[k % 4] + k / 4 * 64; }
};
// Of 16 rows of a swizzled array in shared memory as the left operand, in the natural order of k.
struct RowFragments { unsigned step[kChannels / 16][4]; };
__device__ __forceinline__ void load_rows(RowFragments& rows, const bf16* array, int first_row) {
    const int row = min(first_row + lane_index() % 16, kNodes - 1);  // beyond the graph: any row, its results are not kept
    const SwizzledChunks chunks(array, row, lane_index() / 16);
#pragma unroll
    for (int s = 0; s < kChannels / 16; ++s) ldmatrix_x4(rows.step[s], chunks.at(s));
}
// Of a tile of 8 outputs: words x, y of a block are the first 16 inputs', z and w the next.
struct TileFragments { uint4 block[kColumnBlocks]; };
__device__ __forceinline__ void load_tile(TileFragments& fragments, const bf16* packed) {
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) fragments.block[b] = load_constant_16(packed + (32 * b + lane_index()) * 8);
}
__device__ __forceinline__ void multiply_block(float (&d)[4], const RowFragments& rows, int b, const uint4& weight) {
    const unsigned first[2] = {weight.x, weight.y}, second[2] = {weight.z, weight.w};
    mma_16x8x16(d, rows.step[2 * b], first);
    mma_16x8x16(d, rows.step[2 * b + 1], second);
}
// In products with edges or means of edges the weights are the left operand (M: 16 output channels), kept in registers,
// and the edges the right one (N: 8 edges), 16 bytes at a time as they lie: the words x, y and z, w of a load are operands
// without a move, which permutes k: a lane's are 32 b + 8 q to + 7. Accumulators: channels r and r + 8 of edges 2 q ([0]
// and [2]) and 2 q + 1 ([1] and [3]).
struct LeftFragments { uint4 step[kColumnBlocks][2]; };
__device__ __forceinline__ void load_left(LeftFragments& fragments, const bf16* packed) {
#pragma unroll
    for (int k = 0; k < 2 * kColumnBlocks; ++k) fragments.step[k / 2][k % 2] = load_constant_16(packed + (32 * k + lane_index()) * 8);
}
__device__ __forceinline__ void multiply_left(float (&d)[4], const uint4& weight, unsigned first, unsigned second) {
    const unsigned a[4] = {weight.x, weight.y, weight.z, weight.w}, b[2] = {first, second};
    mma_16x8x16(d, a, b);
}

// ---- Loading ----
__device__ __forceinline__ void copy_async(int target, const void* source, int bytes) {
#pragma unroll 1
    for (int k = threadIdx.x * 16; k < bytes; k += kThreads * 16) cp_async_16(dynamic_shared_memory() + target + k, (const char*)source + k);
}
// Brings the seed's weights from device memory into the L2 cache; its graphs share out the work.
__device__ __forceinline__ void prefetch_weights(const bf16* matrices) {
    const unsigned share = (PackedMatrices::size * 2 / gridDim.x + 15) / 16 * 16, first = blockIdx.x * share;
    if (threadIdx.x == 0 && first < PackedMatrices::size * 2)
        prefetch_to_cache((const char*)matrices + first, min(share, PackedMatrices::size * 2 - first));
}
// Two groups of copies: nodes, biases and norms; then the edges.
__device__ __forceinline__ void start_loading(const LayerWeights& weights, const bf16* nodes, const bf16* edges) {
    copy_rows_async<kNodes>(shared_at<bf16>(ForwardShared::nodes), nodes);
    copy_async(ForwardShared::vectors, weights.vectors, PackedVectors::size * 4);
    cp_async_commit();
    bf16* shared_edges = shared_at<bf16>(ForwardShared::edges);
    copy_rows_async<kEdges>(shared_edges, edges);
    cp_async_commit();
    if constexpr (kEdges % 16 != 0) {  // rows that pad the last tile
#pragma unroll 1
        for (int k = kEdges * kChannels / 8 + threadIdx.x; k < kEdgeTiles * 16 * kChannels / 8; k += kThreads)
            ((uint4*)shared_edges)[k] = make_uint4(0, 0, 0, 0);
    }
}

// ---- Attention ----
// Queries and keys are projected three tiles of 8 outputs at a time and warp; values likewise, but after the scores: only
// then are they needed, and at the start all graphs of the device ask for weights and edges at once.
constexpr int kProjected = 3, kQueryKeyTiles = 2 * kColumnTiles / kWarps;  // a warp's tiles of queries and keys
static_assert(kQueryKeyTiles % kProjected == 0 && kColumnTiles == kWarps * kProjected, "tiles a warp");
using NodeRows = RowFragments[kNodeTiles];
using ProjectionWeights = TileFragments[kProjected];

__device__ __forceinline__ void load_projection(ProjectionWeights& weights, const bf16* matrices, int tile) {
#pragma unroll
    for (int t = 0; t < kProjected; ++t)
        load_tile(weights[t], matrices + PackedMatrices::node_qkv + (tile + t) * PackedMatrices::tile);
}
__device__ __forceinline__ void load_nodes(NodeRows& rows) {
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m) load_rows(rows[m], shared_at<bf16>(ForwardShared::nodes), 16 * m);
}
// The three tiles from `tile` on, into the rows of queries, keys and values. If `more`, the next three tiles' weights are
// loaded as registers become free.
__device__ __forceinline__ void project(const NodeRows& rows, ProjectionWeights& weights, int tile, const bf16* matrices, bool more, bf16* node_qkv) {
    const int r = fragment_row(), q = quad_position();
    const float* bias = shared_vector(PackedVectors::node_qkv_bias) + 8 * tile + 2 * q;
    const bf16* next = matrices + PackedMatrices::node_qkv + (tile + kProjected) * PackedMatrices::tile + lane_index() * 8;
    float d[kProjected][kNodeTiles][4];
#pragma unroll
    for (int t = 0; t < kProjected; ++t)
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            const float2 start = *(const float2*)(bias + 8 * t);
            d[t][m][0] = d[t][m][2] = start.x, d[t][m][1] = d[t][m][3] = start.y;
        }
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) {
#pragma unroll
        for (int s = 0; s < 2; ++s)
#pragma unroll
            for (int t = 0; t < kProjected; ++t)
#pragma unroll
                for (int m = 0; m < kNodeTiles; ++m) {
                    const uint4& weight = weights[t].block[b];
                    const unsigned words[2] = {s ? weight.z : weight.x, s ? weight.w : weight.y};
                    mma_16x8x16(d[t][m], rows[m].step[2 * b + s], words);
                }
#pragma unroll
        for (int t = 0; t < kProjected; ++t)
            load_constant_16_if(more, weights[t].block[b], next + t * PackedMatrices::tile + 32 * b * 8);
    }
    bf16* output = shared_at<bf16>(ForwardShared::query) + (8 * tile + 2 * q) * kNodeStride + r;
    node_qkv += r * 3 * kChannels + 8 * tile + 2 * q;
#pragma unroll
    for (int t = 0; t < kProjected; ++t)
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            bf16 *first_channel = output + 8 * t * kNodeStride + 16 * m, *second_channel = first_channel + kNodeStride;
            if (16 * m + r < kNodes) first_channel[0] = to_bf16(d[t][m][0]), second_channel[0] = to_bf16(d[t][m][1]);
            if (16 * m + r + 8 < kNodes) first_channel[8] = to_bf16(d[t][m][2]), second_channel[8] = to_bf16(d[t][m][3]);
            unsigned* kept = (unsigned*)(node_qkv + 16 * m * 3 * kChannels + 8 * t);
            if (kKeeps && 16 * m + r < kNodes) kept[0] = pack_bf16(d[t][m][0], d[t][m][1]);
            if (kKeeps && 16 * m + r + 8 < kNodes) kept[8 * 3 * kChannels / 2] = pack_bf16(d[t][m][2], d[t][m][3]);
        }
}
// Starts all copies and waits for the nodes. The first weights are loaded before anything else.
__device__ __forceinline__ void project_queries_keys(const LayerWeights& weights, const bf16* nodes, const bf16* edges, bf16* node_qkv) {
    const int first = warp_index() * kQueryKeyTiles;
    ProjectionWeights projection;
    load_projection(projection, weights.matrices, first);
    start_loading(weights, nodes, edges);
    cp_async_wait<1>();
    __syncthreads();
    NodeRows rows;
    load_nodes(rows);
#pragma unroll 1
    for (int tile = first; tile < first + kQueryKeyTiles; tile += kProjected)
        project(rows, projection, tile, weights.matrices, tile < first + kQueryKeyTiles - kProjected, node_qkv);
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

// A lane's part of the scores of 32 edges and one head: edges 8 t + 2 q + c, summed over the head's channels r and r + 8.
// The sum over the eight lanes with the same q: they share out the edges in three exchanges, each lane is left with one.
using PartialScores = float[4][2];
template <int round> __device__ __forceinline__ void exchange(PartialScores& score) {
    constexpr int bit = 16 >> round;
    const bool high = lane_index() & bit;
    if (round < 2) {
#pragma unroll
        for (int t = 0; t < 2 >> round; ++t)
#pragma unroll
            for (int c = 0; c < 2; ++c) {
                float &lower = score[t][c], &upper = score[t + (2 >> round)][c];
                const float given = high ? lower : upper, kept = high ? upper : lower;
                lower = kept + __shfl_xor_sync(0xFFFFFFFFu, given, bit);
            }
    } else {
        const float given = high ? score[0][0] : score[0][1], kept = high ? score[0][1] : score[0][0];
        score[0][0] = kept + __shfl_xor_sync(0xFFFFFFFFu, given, bit);
    }
}
__device__ __forceinline__ void store_score(const PartialScores& score, unsigned head, unsigned group) {
    const unsigned lane = lane_index(), edge = 32 * group + (lane >> 3) * 8 + 2 * (lane & 3) + (lane >> 2 & 1);
    if (kEdges % 32 == 0 || edge < kEdges)
        shared_at<float>(ForwardShared::scores)[head * kHeadScores + edge / kNodes * kScoreStride + edge % kNodes] = score[0][0] * 0.25f;
}

// A warp scores one head for all edges, then another for half of them (12 heads, 8 warps: head w and half of 8 + w / 2),
// 32 edges a step. The sums of a step's scores, and the loads of the other head, lie between the products of the next.
// Begins with a barrier (edges, queries and keys must be there).
__device__ __forceinline__ void score_pairs(const bf16* matrices) {
    static_assert(kHeads == kWarps + kWarps / 2, "heads a warp");
    constexpr int groups = (kEdges + 31) / 32, middle = (groups + 1) / 2;
    const int warp = warp_index(), r = fragment_row(), q = quad_position(), other = kWarps + warp / 2;
    const int other_first = warp % 2 ? middle : 0, steps = groups + (warp % 2 ? groups - middle : middle);
    const bf16* packed = matrices + PackedMatrices::edge_query_key;
    LeftFragments query_weight, key_weight;
    load_left(query_weight, packed + 2 * warp * PackedMatrices::left);
    load_left(key_weight, packed + (2 * warp + 1) * PackedMatrices::left);
    packed += 2 * other * PackedMatrices::left + lane_index() * 8;
    __syncthreads();  // keeps the loads before the wait
    cp_async_wait<0>();
    __syncthreads();
    const bf16* edges = shared_at<bf16>(ForwardShared::edges);
    PartialScores previous = {};
    unsigned head = warp, group = 0, previous_head = 0, previous_group = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
        const bool last_of_head = step == groups - 1;
        float query_sum[4][4], key_sum[4][4];  // q_ij and k_ij of four times 8 edges, begun with the nodes' part
        const RowBlocks rows(edges, 32 * group + r);
        const bf16* query = shared_at<bf16>(ForwardShared::query) + (head * kHeadSize + r) * kNodeStride;
        const bf16* key = shared_at<bf16>(ForwardShared::key) + (head * kHeadSize + r) * kNodeStride;
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            // The lane's two edges as columns of the result. The last group may reach beyond the graph, into shared memory
            // of other use: columns do not mix, and those are not stored.
            const unsigned edge = 32 * group + 8 * t + 2 * q, next = edge + 1;
            const unsigned i = kNodes % 8 ? edge / kNodes : (32 * group + 8 * t) / kNodes, j = edge - i * kNodes;
            const unsigned next_i = kNodes % 2 ? next / kNodes : i, next_j = kNodes % 2 ? next % kNodes : j + 1;
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
            uint4 edge[4];
#pragma unroll
            for (int t = 0; t < 4; ++t) edge[t] = rows.load(b, 8 * t);
#pragma unroll
            for (int s = 0; s < 2; ++s)
#pragma unroll
                for (int t = 0; t < 4; ++t) {
                    multiply_left(query_sum[t], query_weight.step[b][s], s ? edge[t].z : edge[t].x, s ? edge[t].w : edge[t].y);
                    multiply_left(key_sum[t], key_weight.step[b][s], s ? edge[t].z : edge[t].x, s ? edge[t].w : edge[t].y);
                }
#pragma unroll
            for (int s = 0; s < 2; ++s) {
                load_constant_16_if(last_of_head, query_weight.step[b][s], packed + 32 * (2 * b + s) * 8);
                load_constant_16_if(last_of_head, key_weight.step[b][s], packed + PackedMatrices::left + 32 * (2 * b + s) * 8);
            }
            if (b == 1) exchange<0>(previous);
            if (b == 2) exchange<1>(previous);
            if (b == 3) exchange<2>(previous);
            if (b == 4 && step > 0) store_score(previous, previous_head, previous_group);
        }
#pragma unroll
        for (int t = 0; t < 4; ++t)
#pragma unroll
            for (int c = 0; c < 2; ++c) previous[t][c] = query_sum[t][c] * key_sum[t][c] + query_sum[t][2 + c] * key_sum[t][2 + c];
        previous_head = head, previous_group = group;
        head = step >= groups - 1 ? other : warp;
        group = last_of_head ? other_first : group + 1;
    }
    exchange<0>(previous);
    exchange<1>(previous);
    exchange<2>(previous);
    store_score(previous, previous_head, previous_group);
}

// The weights a_ijh of a node i and a head as bf16 in shared memory, for all j and zeros after them.
__device__ __forceinline__ bf16* weights_of(int head, int i) {
    return (bf16*)(shared_at<float>(ForwardShared::scores) + head * kHeadScores + i * kScoreStride);
}

__device__ __forceinline__ void normalize_scores(bf16* attention) {
    static_assert(kNodes * kHeads <= kThreads, "one row a thread");
    const int head = threadIdx.x / kNodes, i = threadIdx.x % kNodes;
    if (head >= kHeads) return;
    const float4* scores = (const float4*)weights_of(head, i);
    float weight[kScoreStride], largest = -3.0e38f, sum = 0.0f;
#pragma unroll
    for (int k = 0; k < (kNodes + 3) / 4; ++k) {
        const float4 four = scores[k];
        weight[4 * k] = four.x, weight[4 * k + 1] = four.y, weight[4 * k + 2] = four.z, weight[4 * k + 3] = four.w;
    }
#pragma unroll
    for (int j = 0; j < kNodes; ++j) largest = fmaxf(largest, weight[j]);
#pragma unroll
    for (int j = 0; j < kNodes; ++j) weight[j] = __expf(weight[j] - largest), sum += weight[j];
    const float scale = __fdividef(1.0f, sum);
    unsigned pairs[8 * kNodeTiles];
#pragma unroll
    for (int k = 0; k < 8 * kNodeTiles; ++k)
        pairs[k] = pack_bf16(2 * k < kNodes ? weight[2 * k] * scale : 0.0f, 2 * k + 1 < kNodes ? weight[2 * k + 1] * scale : 0.0f);
#pragma unroll
    for (int k = 0; k < 2 * kNodeTiles; ++k)
        ((uint4*)weights_of(head, i))[k] = make_uint4(pairs[4 * k], pairs[4 * k + 1], pairs[4 * k + 2], pairs[4 * k + 3]);
    if (!kKeeps) return;
    bf16* row = attention + (head * kNodes + i) * kNodes;
#pragma unroll
    for (int k = 0; k < kNodes; k += kNodes % 8 == 0 ? 8 : kNodes % 4 == 0 ? 4 : 1) {
        if (kNodes % 8 == 0) *(uint4*)(row + k) = make_uint4(pairs[k / 2], pairs[k / 2 + 1], pairs[k / 2 + 2], pairs[k / 2 + 3]);
        else if (kNodes % 4 == 0) *(uint2*)(row + k) = make_uint2(pairs[k / 2], pairs[k / 2 + 1]);
        else row[k] = bf16{(unsigned short)(pairs[k / 2] >> k % 2 * 16)};
    }
}

// Where the context of a head and a node lies: of one head all graphs of the seed together, [H, graphs, N, D].
struct Context {
    bf16* graph;  // the first head's of this graph
    int graphs;   // of the seed
    __device__ __forceinline__ bf16* at(int head, int node) const {
        return graph + (long long)(head * graphs) * (kNodes * kChannels) + node * kChannels;
    }
};

// The context of node i: the weights [heads, j] times the edges [j, D] (transposed by ldmatrix).
__device__ __forceinline__ void average_edges(const Context& context) {
    const bf16* edges = shared_at<bf16>(ForwardShared::edges);
    const int lane = lane_index(), r = fragment_row(), q = quad_position();
#pragma unroll 1
    for (int i = warp_index(); i < kNodes; i += kWarps) {
        unsigned weight[kNodeTiles][4];
        int edge[kNodeTiles];  // this lane's row of ldmatrix: j = 0 to 15 for the left 8 columns, then for the right
        const bf16 *upper = weights_of(r, i), *lower = weights_of(min(r + 8, kHeads - 1), i);
#pragma unroll
        for (int m = 0; m < kNodeTiles; ++m) {
            const int j = 16 * m + 2 * q;
            weight[m][0] = *(const unsigned*)(upper + j), weight[m][1] = *(const unsigned*)(lower + j);
            weight[m][2] = *(const unsigned*)(upper + j + 8), weight[m][3] = *(const unsigned*)(lower + j + 8);
            edge[m] = min(i * kNodes + 16 * m + lane % 16, kEdges - 1);  // beyond the graph: any row, its weight is zero
        }
        const SwizzledChunks rows[2] = {{edges, edge[0], lane / 16}, {edges, edge[kNodeTiles - 1], lane / 16}};
        bf16* outputs[2] = {context.at(r, i), context.at(min(r + 8, kHeads - 1), i)};
        const int column = 2 * (q & 2) + (q & 1) * 8;
#pragma unroll 4
        for (int pair = 0; pair < kColumnTiles / 2; ++pair) {  // of tiles
            float left[4] = {0, 0, 0, 0}, right[4] = {0, 0, 0, 0};
#pragma unroll
            for (int m = 0; m < kNodeTiles; ++m) {
                unsigned columns[4];
                ldmatrix_x4_transpose(columns, rows[m].at(pair));
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
                if (r + 8 * half < kHeads) *(uint2*)(outputs[half] + column + 16 * pair) = four;
            }
        }
    }
}

// Two neighbouring nodes' word of a row of nodes, zero outside the graph.
__device__ __forceinline__ unsigned node_word(const bf16* row, int node) {
    if (node >= kNodes) return 0;
    const unsigned pair = *(const unsigned*)(row + node);
    return kNodes % 2 && node == kNodes - 1 ? pair & 0xFFFFu : pair;
}

// The messages of one head to `tiles` times 8 nodes from first_node on, as far as there are any.
template <int tiles>
__device__ __forceinline__ void gather_head(const LeftFragments& weight, int head, int first_node, const Context& context, bf16* messages) {
    const int r = fragment_row(), q = quad_position();
    const bf16* value = shared_at<bf16>(ForwardShared::value) + (head * kHeadSize + r) * kNodeStride;
    uint4 rows[tiles][kColumnBlocks];
#pragma unroll
    for (int t = 0; t < tiles; ++t) {
        const bf16* row = context.at(head, min(first_node + 8 * t + r, kNodes - 1)) + 8 * q;
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) rows[t][b] = *(const uint4*)(row + 32 * b);
    }
    float d[tiles][2][4] = {};  // two chains each
#pragma unroll
    for (int m = 0; m < kNodeTiles; ++m) {
        const int j = 16 * m + 2 * q;
        const uint4 values = make_uint4(node_word(value, j), node_word(value + 8 * kNodeStride, j),
                                        node_word(value, j + 8), node_word(value + 8 * kNodeStride, j + 8));
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
            const bf16* weights = weights_of(head, min(first_node + 8 * t + r, kNodes - 1)) + j;
            multiply_left(d[t][0], values, *(const unsigned*)weights, *(const unsigned*)(weights + 8));
        }
    }
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b)
#pragma unroll
        for (int t = 0; t < tiles; ++t) {
            multiply_left(d[t][1], weight.step[b][0], rows[t][b].x, rows[t][b].y);
            multiply_left(d[t][0], weight.step[b][1], rows[t][b].z, rows[t][b].w);
        }
#pragma unroll
    for (int t = 0; t < tiles; ++t)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const unsigned pair = movmatrix_transpose(pack_bf16(d[t][0][2 * half] + d[t][1][2 * half],
                                                                d[t][0][2 * half + 1] + d[t][1][2 * half + 1]));
            const int node = first_node + 8 * t + r, column = head * kHeadSize + 8 * half + 2 * q;
            if (node < kNodes) {
                *(unsigned*)(shared_at<bf16>(ForwardShared::query) + row_offset(node, column)) = pair;
                if (kKeeps) *(unsigned*)(messages + node * kChannels + column) = pair;
            }
        }
}
constexpr int kWarpTiles = kColumnTiles / kWarps;  // a warp's share of the nodes' channels: 3 tiles of 8, for every node

// Begins with a barrier (the context must be there). A warp takes a head, and some nodes of another. Meanwhile the weights
// of the next product come.
__device__ __forceinline__ void gather_messages(const bf16* matrices, const Context& context, bf16* messages,
                                                TileFragments (&output_weight)[kWarpTiles]) {
    constexpr int tiles = (kNodes + 7) / 8, middle = (tiles + 1) / 2;
    const int warp = warp_index(), other = kWarps + warp / 2;
    LeftFragments own_weight, other_weight;
    load_left(own_weight, matrices + PackedMatrices::edge_value + warp * PackedMatrices::left);
    load_left(other_weight, matrices + PackedMatrices::edge_value + other * PackedMatrices::left);
    __syncthreads();
    gather_head<tiles>(own_weight, warp, 0, context, messages);
#pragma unroll
    for (int t = 0; t < kWarpTiles; ++t)
        load_tile(output_weight[t], matrices + PackedMatrices::node_output + (warp * kWarpTiles + t) * PackedMatrices::tile);
    gather_head<middle>(other_weight, other, warp % 2 * middle * 8, context, messages);
}

// ---- Nodes ----
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

// Begins with a barrier (the messages must be there).
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
        load_rows(rows, shared_at<bf16>(ForwardShared::query), 16 * m);
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
    store_nodes<true>(x, shared_at<bf16>(ForwardShared::value), new_nodes);
}

// ---- Edges ----
// senders_j and receivers_i: 2 tiles of 8 channels each, for each tile of nodes, one a warp.
// Begins with a barrier (the new nodes must be there).
__device__ __forceinline__ void project_ends(const TileFragments& weight) {
    const int node_tile = warp_index() / 4, part = warp_index() % 4 / 2, column = warp_index() % 2 * 8 + 2 * quad_position();
    __syncthreads();
    if (node_tile >= kNodeTiles) return;
    RowFragments rows;
    load_rows(rows, shared_at<bf16>(ForwardShared::value), 16 * node_tile);
    float d[2][4] = {};  // two chains
    if (part == 0) {  // the senders'
        const float2 bias = *(const float2*)(shared_vector(PackedVectors::edge_message_in_bias) + column);
        d[0][0] = d[0][2] = bias.x, d[0][1] = d[0][3] = bias.y;
    }
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) multiply_block(d[b % 2], rows, b, weight.block[b]);
    const int stride = part == 0 ? kNodeStride : kReceiverStride;
    float* output = shared_at<float>(part == 0 ? ForwardShared::senders : ForwardShared::receivers) + column * stride;
    const int upper = 16 * node_tile + fragment_row(), lower = upper + 8;
    if (upper < kNodes) output[upper] = d[0][0] + d[1][0], output[stride + upper] = d[0][1] + d[1][1];
    if (lower < kNodes) output[lower] = d[0][2] + d[1][2], output[stride + lower] = d[0][3] + d[1][3];
}

// The edge update computes its 192 outputs in a permuted order: of tile 4 b + t (b: block of 32 channels), output n stands
// for channel 32 b + 8 (n / 2) + 2 t + n % 2. So a lane's four tiles of a block are the 8 consecutive channels from
// 32 b + 8 q: residuals, vectors and results move 16 bytes at a time, and the accumulators of a block are the left operand
// of the next product. 16 edges: [b][t][0, 1] are channels 32 b + 8 q + 2 t and the next of the upper row.
using EdgeValues = float[kColumnBlocks][4][4];

// LayerNorm in two parts; `scale` is 1 / std of both rows.
__device__ __forceinline__ void normalize_edges(EdgeValues& x, float (&scale)[2]) {
    float shift[2];  // (x - mean) / std = x * scale + shift
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
    for (int k = 0; k < kColumnBlocks * 16; ++k) {
        float& value = x[k / 16][k / 4 % 4][k % 4];
        value = value * scale[k % 4 / 2] + shift[k % 4 / 2];
    }
}
__device__ __forceinline__ void scale_edges(EdgeValues& x, const float* weight, const float* bias) {
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 2; ++k) {
        const int column = k / 2 * 32 + quad_position() * 8 + k % 2 * 4;
        const float4 w = *(const float4*)(weight + column), b = *(const float4*)(bias + column);
        float(&one)[4] = x[k / 2][k % 2 * 2], (&two)[4] = x[k / 2][k % 2 * 2 + 1];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            one[2 * half] = one[2 * half] * w.x + b.x;
            one[2 * half + 1] = one[2 * half + 1] * w.y + b.y;
            two[2 * half] = two[2 * half] * w.z + b.z;
            two[2 * half + 1] = two[2 * half + 1] * w.w + b.w;
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

// Adds the product of 16 activations (left operand) and an output matrix, whose fragments lie in shared memory.
__device__ __forceinline__ void add_product(EdgeValues& x, const unsigned (&activation)[4], const uint4* fragments) {
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 2; ++k) {
        const uint4 two = fragments[32 * k];
        const unsigned first[2] = {two.x, two.y}, second[2] = {two.z, two.w};
        mma_16x8x16(x[k / 2][k % 2 * 2], activation, first);
        mma_16x8x16(x[k / 2][k % 2 * 2 + 1], activation, second);
    }
}

// Eight consecutive channels of one row of a block, as bf16.
__device__ __forceinline__ uint4 pack_row(const float (&block)[4][4], int half) {
    return make_uint4(pack_bf16(block[0][2 * half], block[0][2 * half + 1]), pack_bf16(block[1][2 * half], block[1][2 * half + 1]),
                      pack_bf16(block[2][2 * half], block[2][2 * half + 1]), pack_bf16(block[3][2 * half], block[3][2 * half + 1]));
}

// Writes 16 rows of channels from row 16 `tile` on, as far as there are any.
__device__ __forceinline__ void store_edges(const EdgeValues& x, int tile, bf16* rows) {
    constexpr bool whole = kEdges % 16 == 0;  // every tile is full
    const int upper = 16 * tile + fragment_row();
    bf16* output = rows + upper * kChannels + 8 * quad_position();
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) {
        if (whole || upper < kEdges) *(uint4*)(output + 32 * b) = pack_row(x[b], 0);
        if (whole || upper + 8 < kEdges) *(uint4*)(output + 8 * kChannels + 32 * b) = pack_row(x[b], 1);
    }
}

// The hidden layer of all the warp's tiles, with its weights in registers as the left operand; the result, transposed, is
// the left operand of the next product: 4 words a lane and tile, kept in shared memory (each lane reads what it wrote).
// Begins with project_ends, between two barriers.
__device__ __forceinline__ void edges_hidden(const HiddenWeights& weights, uint4* hidden, bf16* edge_hidden) {
    const bf16* edges = shared_at<bf16>(ForwardShared::edges);
    const int r = fragment_row(), q = quad_position();
    const float* senders = shared_at<float>(ForwardShared::senders) + r * kNodeStride;
    const float* receivers = shared_at<float>(ForwardShared::receivers) + r * kReceiverStride;
    project_ends(weights.ends);
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
            // The lane's two edges as columns of the result; if the number of nodes is even, they have one receiver.
            const int edge = min(16 * tile + 8 * t + 2 * q, kEdges - 1), next = min(edge + 1, kEdges - 1);
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float *sender = senders + 8 * half * kNodeStride, *receiver = receivers + 8 * half * kReceiverStride;
                if (kNodes % 2 == 0) {
                    const int even = min(edge, kEdges - 2);
                    const float2 two = *(const float2*)(sender + even % kNodes);
                    const float one = receiver[even / kNodes];
                    d[t][2 * half] = two.x + one, d[t][2 * half + 1] = two.y + one;
                } else {
                    d[t][2 * half] = sender[edge % kNodes] + receiver[edge / kNodes];
                    d[t][2 * half + 1] = sender[next % kNodes] + receiver[next / kNodes];
                }
            }
        }
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            uint4 edge[2], back_edge[2];
#pragma unroll
            for (int t = 0; t < 2; ++t) edge[t] = rows.load(b, 8 * t), back_edge[t] = back_rows[t].load(b);
#pragma unroll
            for (int s = 0; s < 2; ++s)
#pragma unroll
                for (int t = 0; t < 2; ++t) {
                    multiply_left(d[t], weights.own.step[b][s], s ? edge[t].z : edge[t].x, s ? edge[t].w : edge[t].y);
                    multiply_left(back[t], weights.reverse.step[b][s], s ? back_edge[t].z : back_edge[t].x, s ? back_edge[t].w : back_edge[t].y);
                }
        }
        unsigned words[4];  // word t + 2 half: edges 8 t + r, channels 8 half + 2 q and the next
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                words[t + 2 * half] = movmatrix_transpose(pack_bf16(fmaxf(d[t][2 * half] + back[t][2 * half], 0.0f),
                                                                    fmaxf(d[t][2 * half + 1] + back[t][2 * half + 1], 0.0f)));
        hidden[tile * 32] = make_uint4(words[0], words[1], words[2], words[3]);
        if (!kKeeps) continue;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int edge = 16 * tile + k % 2 * 8 + r;
            if (kEdges % 16 == 0 || edge < kEdges) *(unsigned*)(edge_hidden + edge * kHiddenRow + k / 2 * 8 + 2 * q) = words[k];
        }
    }
}

__device__ __forceinline__ void update_edges(const bf16* matrices, const HiddenWeights& hidden_weights, bf16* new_edges, bf16* edge_normals,
                                             bf16* edge_hidden) {
    const int r = fragment_row(), q = quad_position(), lane = lane_index();
    uint4* hidden = shared_at<uint4>(ForwardShared::scores) + lane;  // [tiles, 32]
    TileFragments in_weight;  // k permuted as the accumulators lie
    load_tile(in_weight, matrices + PackedMatrices::edge_feed_forward_in);
    edges_hidden(hidden_weights, hidden, edge_hidden);
    const float2 in_bias = *(const float2*)(shared_vector(PackedVectors::edge_feed_forward_in_bias) + 2 * q);
    const unsigned one_pair = q == 0 ? 0x3F803F80u : 0;  // the second hidden layer fills half of k: 1 at k = 8 and 9, times its bias
#pragma unroll 1
    for (int tile = warp_index(); tile < kEdgeTiles; tile += kWarps) {
        const int upper = 16 * tile + r, lower = upper + 8;
        const uint4 words = hidden[tile * 32];
        const RowBlocks rows(shared_at<bf16>(ForwardShared::edges), upper);
        unsigned activation[4] = {words.x, words.y, words.z, words.w};
        EdgeValues x;
#pragma unroll
        for (int b = 0; b < kColumnBlocks; ++b) {
            const uint4 above = rows.load(b), below = rows.load(b, 8);
#pragma unroll
            for (int t = 0; t < 4; ++t) {
                x[b][t][0] = low_float(word(above, t)), x[b][t][1] = high_float(word(above, t));
                x[b][t][2] = low_float(word(below, t)), x[b][t][3] = high_float(word(below, t));
            }
        }
        // Twice: add an output product, normalize; between the two, the second hidden layer.
#pragma unroll 1
        for (int part = 0;; ++part) {
            constexpr int next_vectors = PackedVectors::edge_feed_forward_norm_weight - PackedVectors::edge_norm_weight;
            add_product(x, activation, shared_at<uint4>(ForwardShared::message_out) + part * 12 * 32 + lane);
            if (part == 0) add_vector(x, shared_vector(PackedVectors::edge_message_out_bias));
            const float* norm = shared_vector(PackedVectors::edge_norm_weight) + part * next_vectors;
            float scale[2];
            normalize_edges(x, scale);
            if (kKeeps) store_edges(x, tile, edge_normals + part * kEdges * kChannels);
            if (kKeeps && q == 0) {
                float* scales = (float*)(edge_hidden + upper * kHiddenRow + kMessageHidden + kEdgeHidden) + part;
                if (kEdges % 16 == 0 || upper < kEdges) scales[0] = scale[0];
                if (kEdges % 16 == 0 || lower < kEdges) scales[8 * kHiddenRow / 2] = scale[1];
            }
            scale_edges(x, norm, norm + kChannels);
            if (part == 1) break;
            float d[2][4] = {{in_bias.x, in_bias.y, in_bias.x, in_bias.y}, {0, 0, 0, 0}};  // two chains
#pragma unroll
            for (int b = 0; b < kColumnBlocks; ++b) {
                const uint4 above = pack_row(x[b], 0), below = pack_row(x[b], 1), weight = in_weight.block[b];
                multiply_left(d[0], make_uint4(above.x, below.x, above.y, below.y), weight.x, weight.y);
                multiply_left(d[1], make_uint4(above.z, below.z, above.w, below.w), weight.z, weight.w);
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) d[0][k] = fmaxf(d[0][k] + d[1][k], 0.0f);
            activation[0] = pack_bf16(d[0][0], d[0][1]), activation[1] = pack_bf16(d[0][2], d[0][3]);
            activation[2] = activation[3] = one_pair;
            bf16* second = edge_hidden + upper * kHiddenRow + kMessageHidden + 2 * q;
            if (!kKeeps) continue;
            if (kEdges % 16 == 0 || upper < kEdges) *(unsigned*)second = activation[0];
            if (kEdges % 16 == 0 || lower < kEdges) *(unsigned*)(second + 8 * kHiddenRow) = activation[1];
        }
        store_edges(x, tile, new_edges);
    }
}

// Where a backward pass finds what it reads; all null where nothing is kept.
struct Kept {
    bf16* nodes;         // [N, D] and
    bf16* edges;         // [N, N, D]: what was read, or null where others have it
    bf16* attention;     // [H, N, N]
    bf16* middle_nodes;  // [N, D] after the first norm
    bf16* messages;      // [N, D]
    bf16* edge_normals;  // [2, N, N, D]: edges normalized, by the first norm and by the second; this and the next: of an edge update
    bf16* edge_hidden;   // [N, N, kHiddenRow]
    bf16* node_qkv;      // [N, 3 D]: queries, keys and values of the nodes
    bf16* node_normals;  // [N, kNormalRow]
    bf16* node_hidden;   // [N, FH]
};

// The layer of one graph; all addresses are its own.
__device__ __forceinline__ void run_layer(LayerWeights weights, const bf16* nodes, const bf16* edges, bf16* new_nodes, bf16* new_edges,
                                          const Context& contexts, const Kept& kept) {
    weights.matrices += (long long)blockIdx.y * PackedMatrices::size;
    weights.vectors += (long long)blockIdx.y * PackedVectors::size;
    prefetch_weights(weights.matrices);
    project_queries_keys(weights, nodes, edges, kept.node_qkv);
    score_pairs(weights.matrices);
    if (kKeeps && kept.nodes) {
        store_rows<kNodes>(kept.nodes, shared_at<bf16>(ForwardShared::nodes));
        store_rows<kEdges>(kept.edges, shared_at<bf16>(ForwardShared::edges));
    }
    {
        const int tile = 2 * kColumnTiles + warp_index() * kProjected;
        ProjectionWeights value_weight;
        load_projection(value_weight, weights.matrices, tile);
        __syncthreads();
        normalize_scores(kept.attention);
        NodeRows rows;
        load_nodes(rows);
        project(rows, value_weight, tile, weights.matrices, false, kept.node_qkv);
    }
    __syncthreads();
    if constexpr (kUpdatesEdges) {
        copy_async(ForwardShared::message_out, weights.matrices + PackedMatrices::edge_message_out, 2 * 12 * 32 * 16);
        cp_async_commit();
    }
    average_edges(contexts);
    TileFragments output_weight[kWarpTiles];
    gather_messages(weights.matrices, contexts, kept.messages, output_weight);
    HiddenWeights hidden_weights;
    update_nodes(weights.matrices, nodes, output_weight, kept.middle_nodes, new_nodes, kept.node_normals, kept.node_hidden, hidden_weights);
    if constexpr (kUpdatesEdges) update_edges(weights.matrices, hidden_weights, new_edges, kept.edge_normals, kept.edge_hidden);
}

// Both kernels: grid (graphs, seeds), kThreads threads, ForwardShared::bytes of dynamic shared memory. Tensors are 16-byte
// aligned and, but for the stride of the seeds, contiguous [seeds, graphs, ...]. What only an edge update writes (new_edges,
// edge_normals, edge_hidden) is null without one.
#if KEEPS
extern "C" __global__ void __launch_bounds__(kThreads, 1)
layer_forward(LayerWeights weights,
              SeedStrides strides,
              const bf16* nodes,        // [N, D]
              const bf16* edges,        // [N, N, D]
              bf16* kept_nodes,         // see Kept, for this and the next
              bf16* kept_edges,
              bf16* new_nodes,          // [N, D]
              bf16* new_edges,          // [N, N, D]
              bf16* attention,          // see Kept, for this and the rest but for
              bf16* middle_nodes,
              bf16* messages,
              bf16* context,            // [H, graphs, N, D] of a seed
              bf16* edge_normals,
              bf16* edge_hidden,
              bf16* node_qkv,
              bf16* node_normals,
              bf16* node_hidden
) {
    const auto place = [](int stride) { return (long long)blockIdx.y * stride + blockIdx.x; };
    const long long read = place(strides.read), made = place(strides.made), kept = place(strides.kept);
    const Kept addresses = {
        kept_nodes ? kept_nodes + kept * kNodes * kChannels : nullptr,
        kept_edges + kept * kEdges * kChannels,
        attention + kept * kHeads * kEdges,
        middle_nodes + kept * kNodes * kChannels,
        messages + kept * kNodes * kChannels,
        edge_normals + kept * 2 * kEdges * kChannels,
        edge_hidden + kept * kEdges * kHiddenRow,
        node_qkv + kept * kNodes * 3 * kChannels,
        node_normals + kept * kNodes * kNormalRow,
        node_hidden + kept * kNodes * kNodeHidden,
    };
    const Context contexts = {context + ((long long)blockIdx.y * kHeads * strides.kept + blockIdx.x) * kNodes * kChannels, strides.kept};
    run_layer(weights, nodes + read * kNodes * kChannels, edges + read * kEdges * kChannels, new_nodes + made * kNodes * kChannels,
              new_edges + made * kEdges * kChannels, contexts, addresses);
}
#else
// The same new nodes and edges, to the bit, and nothing else but a context that needs no later reader: all launches of a
// stream may share it.
extern "C" __global__ void __launch_bounds__(kThreads, 1)
layer_inference(LayerWeights weights,
                const bf16* nodes,      // [N, D]
                const bf16* edges,      // [N, N, D]
                bf16* new_nodes,        // [N, D]
                bf16* new_edges,        // [N, N, D]
                bf16* context           // [H, graphs, N, D] of a seed
) {
    const long long place = (long long)blockIdx.y * gridDim.x + blockIdx.x;
    const Context contexts = {context + ((long long)blockIdx.y * kHeads * gridDim.x + blockIdx.x) * kNodes * kChannels, (int)gridDim.x};
    run_layer(weights, nodes + place * kNodes * kChannels, edges + place * kEdges * kChannels, new_nodes + place * kNodes * kChannels,
              new_edges + place * kEdges * kChannels, contexts, Kept{});
}
#endif
