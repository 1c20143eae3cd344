// What attention gathers: mean edges by heads, and messages to the nodes.
#pragma once
#include "scores.cuh"

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
                *(unsigned*)(shared_at<bf16>(ForwardShared::messages) + row_offset(node, column)) = pair;
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
