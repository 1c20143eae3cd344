// The edge update: hidden layer, output, LayerNorm, feed-forward, LayerNorm of every edge.
#pragma once
#include "edge_values.cuh"
#include "node_update.cuh"

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
            float scale[2], mean[2];
            normalize_edges(x, scale, mean);
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
