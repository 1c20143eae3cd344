// layer_backward: the gradients of one relational transformer layer, one thread block a graph. Fragment layouts: lane = 4 r + q; see mma_16x8x16 in
// the emulator of the tests. Weights come packed (`pack_backward` in packing.py): every matrix W [out, in] that is a B operand, and its transpose where
// needed, in fragment order, so that a fragment is one 8-byte load of a lane (16 bytes where the weights are the left operand). What the kernel leaves to products of matrices outside: weight_gradients.py.
//
// Phases, a barrier between each two; each is a file of backward/, phase 2 two:
// 1. Edge update backward. e -> shared (cp.async), for later. The forward kept the normalized edges, 1 / std, h1 and h2. A chunk is 8 tiles of 16 edges, one a warp; a lane
//    holds channels 32 b + 8 q ... + 7 of two rows: 16 bytes at a time from and to memory, dx2 -> dy1 -> dx1 in place in 96 float32 registers. The sums over edges (dC, dDm,
//    dEm, biases, norms) are split by columns: a matrix of the chunk is staged as bf16 (rows swizzled as in tile.cuh), then warp w reduces columns 24 w ... 24 w + 23 over its
//    128 edges by mma (staged matrix by ldmatrix.trans = B; A = h1^T, h2^T, dh2^T or a row of ones). Six matrices: de', de'*normal2, dx2 (with h2), normal1 (with dh2; y1 = affine of it, applied to
//    the sum at the end), dy1*normal1, dx1. After each, the sums are added to `partial` (one lane owns a number: deterministic), as all sums are. dx1 goes to the de buffer (global, bf16).
// 2. dA, dB (columns by warps, over all edges), dsend, dreceive; nodes backward: T0 = gradient, T1 = normalized, T2 = result, rows by warps; dmessage.
// 3. a, v and dmessage into shared memory; dv by heads.
// 4. u_ih = We_v,h^T dmessage_ih into shared memory (as many nodes as fit). Row i a warp: g = e u + v dmessage (the latter a block-diagonal B), softmax backward, ds in place of a; de += a u.
// 5. Queries and keys: warp w takes head w, then every other tile of head 8 + w / 2: a head's weights stay in 96 registers, the edge tiles pass by (ldmatrix). a is saved, so no sum over a
//    head is needed. dq_i, dk_j: mma with one-hot rows (works for any N); the halves of heads 8-11 meet in shared memory. Weight rows are packed so that a lane holds 4 neighbouring channels: 8-byte stores, whole sectors.
// 6. dn = do + Wn^T dqkv; de += We_qk^T dqk + A^T dh1_ij + B^T dh1_ji: a warp holds the weights of its 24 channels in 156 registers, the rows of edges pass by in shared memory, where they
//    come back from global memory (L2) meanwhile.
// Without an edge update (UPDATE_EDGES 0) phase 1 is left out, phase 2 is the nodes' part and brings e into shared memory, and phase 4 adds to the gradient that is given for the edges.
#pragma once
#include "backward/edge_update.cuh"
#include "backward/edge_ends.cuh"
#include "backward/node_update.cuh"
#include "backward/values.cuh"
#include "backward/scores.cuh"
#include "backward/queries_keys.cuh"
#include "backward/edge_gradient.cuh"

namespace backward {

template <int N>
__device__ __forceinline__ void run(const Arguments& all) {
    using S = Sizes<N>;
    constexpr int D = kChannels;
    constexpr long long node_size = N * D, edge_size = S::kEdges * D, hidden_size = N * 32;
    unsigned char* shared = dynamic_shared_memory();

    Place place(all.kept_graphs);
    auto message_gradient = [&] {
        const long long graph = (long long)place.seed * kHeads * all.kept_graphs + place.graph;
        return MessageGradient{plain_pointer(all.message_gradient + graph * N * kHeadSize), all.kept_graphs * N * kHeadSize};
    };
    if (thread_index() == 0) prefetch_to_cache(all.node_qkv + 3 * place.kept() * node_size, N * 3 * D * 2);
    prefetch_weights(all.weights + (long long)place.seed * kPacked, kPacked * 2);
    if constexpr (kUpdatesEdges) {
        edge_update_backward<N>(shared, all.edges + place.kept() * edge_size, plain_pointer(all.edge_normals + 2 * place.kept() * edge_size), plain_pointer(all.edge_hidden + place.kept() * S::kEdges * kHiddenRow),
                                plain_pointer(all.new_edges_gradient + place.given() * edge_size),
                                plain_pointer(all.weights + (long long)place.seed * kPacked), plain_pointer(all.vectors + (long long)place.seed * kVectors), plain_pointer(all.edges_gradient + place.given() * edge_size),
                                plain_pointer(all.partial + place.given() * kPartial), all.first);
        cp_async_wait<0>();
        __syncthreads();

        place = Place(all.kept_graphs);
        reverse_edges_backward<N>(shared, all.send_receive_gradient + place.kept() * hidden_size, plain_pointer(all.partial + place.given() * kPartial));
        __syncthreads();
    } else if (all.first) {
        clear_sums(all.partial + place.given() * kPartial, thread_index());
    }
    nodes_backward<N>(shared, all.edges + place.kept() * edge_size, all.node_normals + place.kept() * N * kNormalRow, all.node_hidden + place.kept() * hidden_size, all.new_nodes_gradient + place.given() * node_size,
                      plain_pointer(all.weights + (long long)place.seed * kPacked), plain_pointer(all.vectors + (long long)place.seed * kVectors),
                      all.node_out_gradient + place.kept() * node_size, all.node_in_gradient + place.kept() * hidden_size, all.output_gradient + place.kept() * node_size,
                      message_gradient(), plain_pointer(all.partial + place.given() * kPartial));

    place = Place(all.kept_graphs);
    const bf16* weights = plain_pointer(all.weights + (long long)place.seed * kPacked);
    __syncthreads();
    values_backward<N>(shared, all.node_qkv + 3 * place.kept() * node_size, all.attention + place.kept() * kHeads * S::kEdges, message_gradient(),
                       plain_pointer(all.qkv_gradient + 3 * place.kept() * node_size));
    {
        const MessageGradient messages = message_gradient();
        bf16* edges_gradient = plain_pointer(all.edges_gradient + place.given() * edge_size);
        const bf16* given = all.new_edges_gradient ? all.new_edges_gradient + place.given() * edge_size : nullptr;
        scores_backward<N>(shared, messages, weights, kUpdatesEdges ? edges_gradient : given, edges_gradient);
    }

    place = Place(all.kept_graphs);
    __syncthreads();
    for (int k = thread_index(); k < N * 2 * kColumnTiles; k += kThreads) {  // queries and keys of the nodes
        const int row = k / (2 * kColumnTiles), column = k % (2 * kColumnTiles) * 8;
        cp_async_16((bf16*)(shared + S::kStage) + row * S::kQueryKeyPitch + column, all.node_qkv + 3 * place.kept() * node_size + row * 3 * D + column);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();

    place = Place(all.kept_graphs);
    weights = plain_pointer(all.weights + (long long)place.seed * kPacked);
    bf16 *qkv_gradient = plain_pointer(all.qkv_gradient + 3 * place.kept() * node_size), *query_key_gradient = plain_pointer(all.query_key_gradient + 2 * place.kept() * edge_size);
    all_queries_keys_backward<N>(shared, weights, query_key_gradient, qkv_gradient);
    __syncthreads();
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
#pragma unroll 1
    for (int which = 0; which < S::kSlots; ++which) ToEdges<N>::fetch(shared, which, query_key_gradient);
    node_product<N, kOwnTiles, 3 * kSteps, true>(qkv_gradient, 3 * D, weights + kNodeQkvTransposed, kColumnTiles, warp, lane,
                                                 residual_of(all.output_gradient + place.kept() * node_size), [&](int row, int column, float first, float second) {
        pair_at(all.nodes_gradient + place.given() * node_size + row * D + column) = pack_bf16(first, second);
    });
    ToEdges<N> to_edges;
    to_edges.load_weights(weights + kToEdges);
    if (kUpdatesEdges && all.last) finish_edge_sums(weights, all.vectors + (long long)place.seed * kVectors, plain_pointer(all.partial + place.given() * kPartial));
    add_columns<N>(qkv_gradient, [&] { return all.partial + place.given() * kPartial + kSumQkvBias; }, thread);
    to_edges.multiply(shared, query_key_gradient, plain_pointer(all.edges_gradient + place.given() * edge_size));
}

}  // namespace backward

#ifdef NODES
extern "C" __global__ void __launch_bounds__(backward::kThreads, 1) layer_backward(const backward::Arguments arguments) { backward::run<NODES>(arguments); }
#endif
