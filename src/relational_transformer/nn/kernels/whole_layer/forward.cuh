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
// They are in the files of forward/.
//
// Weights are packed in the order in which lanes read them (packing.py), so that a warp's load is one contiguous piece
// and its words are operands as they come. A profile on an H200 showed warps waiting for instructions wherever code lay
// beyond some 68 KB (4,300 instructions), in this kernel and in the backward one: so loops are kept rolled.
#pragma once
#include "forward/projections.cuh"
#include "forward/scores.cuh"
#include "forward/messages.cuh"
#include "forward/node_update.cuh"
#include "forward/edge_update.cuh"

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
    prefetch_weights(weights.matrices, PackedMatrices::size * 2);
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
