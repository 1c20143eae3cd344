// Layers that read nodes alone, forward: all layers of a step in a single launch, one thread block a graph. From layer to
// layer the nodes lie in shared memory.
//
// Phases of a layer (a barrier between each two):
//   project        q, k, v of the nodes                                    warps share the 72 tiles of output channels
//   attend         scores, softmax, messages                               a warp takes a head, then another
//   update_nodes   output product, LayerNorm, feed-forward, LayerNorm      a warp takes 24 channels of all nodes
// The first and the last are those of the relational layer (../forward/), which names and packs everything alike.
#pragma once
#include "attention.cuh"

// Weights are [layers, seeds, packed]; nodes [seeds, graphs, N, D]. What is kept is [layers, seeds, kept_graphs, ...], null where nothing is.
struct NodeLayers {
    const bf16* matrices;   // PackedMatrices
    const float* vectors;   // PackedVectors
    const bf16* nodes;
    bf16* new_nodes;
    bf16* kept_nodes;       // [N, D]: what a layer reads
    bf16* attention;        // for this and the rest see Kept of ../forward.cuh
    bf16* middle_nodes;
    bf16* messages;
    bf16* node_qkv;
    bf16* node_normals;
    bf16* node_hidden;
    int layers, kept_graphs;
};

constexpr int kProjectedTiles = 3 * kColumnTiles / kWarps;  // a warp's tiles of queries, keys and values
static_assert(kProjectedTiles % kProjected == 0, "tiles a warp");

__device__ __forceinline__ void run_node_layers(const NodeLayers& all) {
    const long long graph = (long long)blockIdx.y * gridDim.x + blockIdx.x;
    const int first_tile = warp_index() * kProjectedTiles;
    copy_rows_async<kNodes>(shared_at<bf16>(ForwardShared::nodes), all.nodes + graph * kNodes * kChannels);
#pragma unroll 1
    for (int layer = 0; layer < all.layers; ++layer) {
        const long long seed = (long long)layer * gridDim.y + blockIdx.y, kept = seed * all.kept_graphs + blockIdx.x;
        const bf16* matrices = all.matrices + seed * PackedMatrices::size;
        ProjectionWeights projection;
        load_projection(projection, matrices, first_tile);
        __syncthreads();  // nobody reads the vectors of the layer before any more
        copy_async(ForwardShared::vectors, all.vectors + seed * PackedVectors::size, PackedVectors::size * 4);
        cp_async_commit();
        cp_async_wait<0>();
        __syncthreads();
        if (kKeeps && layer == 0) store_rows<kNodes>(all.kept_nodes + kept * kNodes * kChannels, shared_at<bf16>(ForwardShared::nodes));
        {
            NodeRows rows;
            load_nodes(rows);
#pragma unroll 1
            for (int tile = first_tile; tile < first_tile + kProjectedTiles; tile += kProjected)
                project(rows, projection, tile, matrices, tile < first_tile + kProjectedTiles - kProjected, all.node_qkv + kept * kNodes * 3 * kChannels);
        }
        TileFragments output_weight[kWarpTiles];
#pragma unroll
        for (int t = 0; t < kWarpTiles; ++t)
            load_tile(output_weight[t], matrices + PackedMatrices::node_output + (warp_index() * kWarpTiles + t) * PackedMatrices::tile);
        __syncthreads();
        attend(all.attention + kept * kHeads * kEdges, all.messages + kept * kNodes * kChannels);
        // The next layer's are kept; where nothing is, the last layer's stay of what all of them write.
        const bool to_next = kKeeps && layer < all.layers - 1;
        bf16* new_nodes = to_next ? all.kept_nodes + (kept + (long long)gridDim.y * all.kept_graphs) * kNodes * kChannels
                                  : all.new_nodes + graph * kNodes * kChannels;
        HiddenWeights none;
        update_nodes(matrices, nullptr, output_weight, all.middle_nodes + kept * kNodes * kChannels, new_nodes,
                     all.node_normals + kept * kNodes * kNormalRow, all.node_hidden + kept * kNodes * kNodeHidden, none);
    }
}

constexpr int kNodeLayersBytes = 96 * 1024;
static_assert(ForwardShared::bytes <= kNodeLayersBytes, "the nodes do not fit into shared memory");

// Grid (graphs, seeds), kThreads threads, kNodeLayersBytes of dynamic shared memory.
#if KEEPS
extern "C" __global__ void __launch_bounds__(kThreads, 1) node_layers_forward(const NodeLayers all) { run_node_layers(all); }
#else
extern "C" __global__ void __launch_bounds__(kThreads, 1) node_layers_inference(const NodeLayers all) { run_node_layers(all); }
#endif
