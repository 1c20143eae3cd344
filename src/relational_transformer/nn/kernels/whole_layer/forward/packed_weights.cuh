// What the forward kernel is given: what to keep, its weights as packing.py lays them out, and how its tensors lie.
#pragma once
#include "../tile.cuh"

#ifndef KEEPS
#define KEEPS 1  // whether to write what a backward pass needs; without it the kernel is `layer_inference`
#endif
constexpr bool kKeeps = KEEPS;

// Offsets in bf16 of a seed's matrices. `tiles`: 8 outputs as the right operand, 16 bytes a lane and block of 32 inputs.
// `lefts`: 16 outputs as the left operand, twice 16 bytes a lane and block. Those of the edge update come last, here and in
// the vectors: a layer without it has the others alone.
struct PackedMatrices {
    static constexpr int tile = kChannels * 8, left = kChannels * 16;
    static constexpr int node_qkv = 0;                                       // tiles [72]
    static constexpr int edge_query_key = node_qkv + 72 * tile;              // lefts [12 heads][query, key]
    static constexpr int edge_value = edge_query_key + 24 * left;           // lefts [12 heads]
    static constexpr int node_output = edge_value + 12 * left;              // tiles [24]
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
    static constexpr int node_qkv_bias = 0;  // the nodes' plus the edges', if there are any
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
