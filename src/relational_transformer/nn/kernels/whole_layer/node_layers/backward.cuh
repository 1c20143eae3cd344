// Layers that read nodes alone, backward: all layers of a step in a single launch, one thread block a graph.
//
// Phases of a layer, from the last layer to the first (a barrier between each two):
// 1. Nodes: LayerNorms, feed-forward and output product, as in the relational layer (../backward/node_update.cuh); dmessage stays in shared memory.
// 2. Attention: dq, dk, dv by heads.
// 3. dn = do + W^T dqkv, the gradient that the layer before is given; sums over dqkv.
// What is left to products of matrices outside: trajectory.py.
#pragma once
#include "attention_backward.cuh"

namespace backward {

// Gradients of nodes are [seeds, graphs, N, D], weights [layers, seeds, ...], sums [layers, seeds, graphs, kPartial], everything else
// [layers, seeds, kept_graphs, ...] with the shapes of `Arguments`.
struct NodeLayers {
    const bf16 *attention, *node_qkv, *node_normals, *node_hidden;
    const bf16* new_nodes_gradient;
    const bf16* weights;
    const float* vectors;
    bf16* nodes_gradient;
    bf16 *qkv_gradient, *output_gradient, *node_out_gradient, *node_in_gradient;
    float* partial;   // added up over launches, one a step
    int layers, kept_graphs;
    int first;        // whether this is the first of those launches
};

template <int N>
__device__ __forceinline__ void run_node_layers(const NodeLayers& all) {
    using S = NodeLayersShared<N>;
    constexpr int D = kChannels;
    constexpr long long node_size = N * D, hidden_size = N * kNodeHidden;
    unsigned char* shared = dynamic_shared_memory();
    const bf16* gradient = all.new_nodes_gradient;
#pragma unroll 1
    for (int layer = all.layers - 1; layer >= 0; --layer) {
        const Place place(all.kept_graphs);
        const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
        const long long seed = (long long)layer * gridDim.y + place.seed, kept = seed * all.kept_graphs + place.graph;
        const bf16* weights = plain_pointer(all.weights + seed * kPacked);
        prefetch_weights(weights, kPacked * 2);
        float* partial = plain_pointer(all.partial + (seed * gridDim.x + place.graph) * kPartial);
        const bf16* node_qkv = all.node_qkv + 3 * kept * node_size;
        for (int k = thread; k < N * 3 * kColumnTiles; k += kThreads) {
            const int row = k / (3 * kColumnTiles), column = k % (3 * kColumnTiles) * 8;
            cp_async_16((bf16*)(shared + S::kQkv) + row * S::kQkvPitch + column, node_qkv + row * 3 * D + column);
        }
        if (all.first) clear_sums(partial, thread);
        nodes_backward<N>(shared, nullptr, all.node_normals + kept * N * kNormalRow, all.node_hidden + kept * hidden_size, gradient + place.given() * node_size, weights,
                          all.vectors + seed * kVectors, all.node_out_gradient + kept * node_size, all.node_in_gradient + kept * hidden_size,
                          all.output_gradient + kept * node_size, MessageRows{(bf16*)(shared + S::kMessages)}, partial);
        __syncthreads();
        bf16* qkv_gradient = plain_pointer(all.qkv_gradient + 3 * kept * node_size);
        attention_backward<N>(shared, all.attention + kept * kHeads * N * N, qkv_gradient);
        __syncthreads();
        node_product<N, kOwnTiles, 3 * kSteps, true>(qkv_gradient, 3 * D, weights + kNodeQkvTransposed, kColumnTiles, warp, lane,
                                                     residual_of(all.output_gradient + kept * node_size), [&](int row, int column, float first, float second) {
            pair_at(all.nodes_gradient + place.given() * node_size + row * D + column) = pack_bf16(first, second);
        });
        add_columns<N>(qkv_gradient, [&] { return partial + kSumQkvBias; }, thread);
        gradient = all.nodes_gradient;
        __syncthreads();
    }
}

constexpr int kNodeLayersBytes = 96 * 1024;
static_assert(NodeLayersShared<NODES>::kBytes <= kNodeLayersBytes, "the nodes do not fit into shared memory");

}  // namespace backward

// Grid (graphs, seeds), kThreads threads, kNodeLayersBytes of dynamic shared memory.
extern "C" __global__ void __launch_bounds__(backward::kThreads, 1) node_layers_backward(const backward::NodeLayers all) { backward::run_node_layers<NODES>(all); }
