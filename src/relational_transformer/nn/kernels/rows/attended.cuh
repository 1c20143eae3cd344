// What attention's passes over the edges share: their inputs, chunks of rows, and queries and keys of 16 edges.
#pragma once
#include "../whole_layer/tile.cuh"

namespace rows {

constexpr int kAttentionThreads = 32 * kHeads;
__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xFF800000u); }

// What is attended to: some rows of some graphs of every seed. A seed's tensors follow each other. Rows of queries, keys and
// values lie their strides apart, of channels by heads.
struct Attended {
    const bf16 *query, *key, *value;  // [S, G, NQ or NK, D]
    const bf16* edges;                // [S, G, NQ, NK, D]
    const bf16* weights;              // [S, H] of four tiles: two of queries, two of keys, so that a lane has four neighbours
    const unsigned char* mask;        // [S, G, NQ, NK] by its strides; null where every pair is there
    long long mask_seed, mask_graph, mask_row, mask_key;
    int query_stride, key_stride, value_stride;
    int graphs, queries, keys;            // of a seed, of a graph
    int first_graph, some_graphs;         // those that the launch works on
    int first_row, some_rows;             // likewise, of each
    int rows;      // of a chunk, at most
    int capacity;  // edges of a chunk, at most, up to a multiple of 16
    __device__ __forceinline__ int chunks_of_graph() const { return (some_rows + rows - 1) / rows; }
    __device__ __forceinline__ int chunks() const { return chunks_of_graph() * some_graphs; }
};

// Some rows of a graph.
struct Chunk {
    int graph;       // of all graphs of all seeds
    int first;       // row of the graph
    int rows;
    int edges;
    __device__ __forceinline__ Chunk(const Attended& given, int number) {
        const int of_graph = given.chunks_of_graph(), row = number % of_graph * given.rows;
        graph = blockIdx.y * given.graphs + given.first_graph + number / of_graph;
        first = given.first_row + row;
        rows = min(given.rows, given.some_rows - row);
        edges = rows * given.keys;
    }
    // The first row, of all rows of all graphs and seeds.
    __device__ __forceinline__ long long node(const Attended& given) const { return (long long)graph * given.queries + first; }
    // The first edge among those that the launch works on.
    __device__ __forceinline__ long long place(const Attended& given) const {
        const int number = graph - blockIdx.y * given.graphs - given.first_graph;
        return (((long long)blockIdx.y * given.some_graphs + number) * given.some_rows + first - given.first_row) * given.keys;
    }
};

// Begins to copy rows of channels into a swizzled array; a thread stays at its 8 channels and goes on 16 rows at a time.
__device__ __forceinline__ void copy_rows(bf16* shared, const bf16* global, int rows) {
    constexpr int pieces = kChannels / 8, at_once = kAttentionThreads / pieces;
    static_assert(at_once % 8 == 0 && kAttentionThreads % pieces == 0, "rows of a thread are swizzled alike");
    const int first = threadIdx.x / pieces, column = threadIdx.x % pieces * 8;
    global += first * kChannels + column, shared += row_offset(first, column);
#pragma unroll 4
    for (int row = first; row < rows; row += at_once, shared += at_once * kChannels, global += at_once * kChannels)
        cp_async_16(shared, global);
}
__device__ __forceinline__ const bf16* edges_of(const Attended& given, const Chunk& chunk) {
    return given.edges + chunk.node(given) * given.keys * kChannels;
}

// The weights of the warp's head.
__device__ __forceinline__ void load_weights(TileFragments (&weight)[4], const Attended& given) {
#pragma unroll
    for (int t = 0; t < 4; ++t)
        load_tile(weight[t], given.weights + ((long long)(blockIdx.y * kHeads + warp_index()) * 4 + t) * 8 * kChannels);
}

// Queries ([0]) and keys ([1]) that 16 edges from `first` on make for the warp's head: the edges are the left operand, the
// channels the right one. A lane has channels 4 q to 4 q + 3 (tile t: 4 q + 2 t and the next) of the upper edge ([0], [1]) and
// of the lower.
using Products = float[2][2][4];
__device__ __forceinline__ void multiply_edges(Products& products, const TileFragments (&weight)[4], const bf16* edges, int first) {
    const SwizzledChunks columns(edges, first + lane_index() % 16, lane_index() / 16);
#pragma unroll
    for (int s = 0; s < kChannels / 16; ++s) {
        unsigned rows[4];
        ldmatrix_x4(rows, columns.at(s));
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            const uint4& block = weight[t].block[s / 2];
            const unsigned words[2] = {s % 2 ? block.z : block.x, s % 2 ? block.w : block.y};
            mma_16x8x16(products[t / 2][t % 2], rows, words);
        }
    }
}

// Four channels of a node, and a scalar product with four of another.
struct Four { float value[4]; };
__device__ __forceinline__ Four load_four(const bf16* channels) {
    const uint2 words = load_read_only_8(channels);
    return {{low_float(words.x), high_float(words.x), low_float(words.y), high_float(words.y)}};
}
__device__ __forceinline__ Four add_product_of(const Four& node, const float (&products)[2][4], int half) {
    return {{node.value[0] + products[0][2 * half], node.value[1] + products[0][2 * half + 1], node.value[2] + products[1][2 * half],
             node.value[3] + products[1][2 * half + 1]}};
}
__device__ __forceinline__ float dot(const Four& a, const Four& b) {
    return (a.value[0] * b.value[0] + a.value[1] * b.value[1]) + (a.value[2] * b.value[2] + a.value[3] * b.value[3]);
}

// A fragment of edges i j of a chunk: the row of an edge within the chunk, and its key.
struct EdgeOf {
    int row, key;
    __device__ __forceinline__ EdgeOf(int edge, int keys) {
        const unsigned reciprocal = (1u << 20) / keys + 1;  // its quotients are exact as long as edges * keys < 2^20
        row = edge * reciprocal >> 20, key = edge - row * keys;
    }
};
__device__ __forceinline__ const unsigned char* mask_of(const Attended& given, const Chunk& chunk) {
    if (!given.mask) return nullptr;
    return given.mask + blockIdx.y * given.mask_seed + (chunk.graph - (int)blockIdx.y * given.graphs) * given.mask_graph + chunk.first * given.mask_row;
}

// Neighbouring lanes exchange halves of two tiles' accumulators so that each has 4 consecutive channels of a row, as bf16: even
// lanes of the left tile, odd ones of the right, from channel `four_column()` on.
__device__ __forceinline__ uint2 exchange_halves(const float (&left)[4], const float (&right)[4], int half) {
    const bool odd = quad_position() & 1;
    const unsigned in_left = pack_bf16(left[2 * half], left[2 * half + 1]), in_right = pack_bf16(right[2 * half], right[2 * half + 1]);
    const unsigned received = __shfl_xor_sync(0xFFFFFFFFu, odd ? in_left : in_right, 1);
    return odd ? make_uint2(received, in_right) : make_uint2(in_left, received);
}
__device__ __forceinline__ int four_column() { return 2 * (quad_position() & 2) + (quad_position() & 1) * 8; }

}  // namespace rows
