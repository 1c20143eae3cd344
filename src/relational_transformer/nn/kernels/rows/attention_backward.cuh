// Relational attention of one head size (16), backward: from the edges and what the forward pass kept to the gradients of
// every edge's queries and keys, in one pass over the edges.
//
//     t_ijh = u_ih . e_ij      a_ijh = 2^(score - log sum)      ds_ijh = a_ijh (g_ih . v_jh + t_ijh - delta_ih) / 4
//     dq_ijh = ds_ijh k_ijh    dk_ijh = ds_ijh q_ijh            dq_ih = sum_j dq_ijh      de_ij = sum_h a_ijh u_ih + ...
//
// Blocks, chunks and copies are those of the forward pass; with the edges come the rows' u. A chunk has three phases, each
// begun with a barrier:
//   lift_weights      t of all heads, 16 edges of a row at a time           warps share the tiles
//   differentiate     queries, keys and scores again; ds, dq, dk, dq_i      a warp takes a head
//   give_to_edges     sum_h a_ijh u_ih                                      a warp takes 16 channels
// What is left for products of cuBLAS: de_ij += W_q^T dq_ij + W_k^T dk_ij and the gradients of both weights.
//
// What should limit it: the products of the forward pass again, then device memory, which has to bring the edges and take
// their gradient and twice as much for dq and dk: 98 KB a multiprocessor for 64 edges of 192 channels (3.0 us).
#pragma once
#include "attended.cuh"

namespace rows {

struct AttentionBackward {
    Attended of;
    const bf16* gradient;   // g [S, G, NQ, D]
    const bf16* lifted;     // u [S, G, NQ, H, D]
    const float* log_sums;  // [S, G, NQ, H], base 2
    const float* delta;     // [S, G, NQ, H]: g . message
    bf16* query_gradient;   // dq_i [S, G, NQ, D]
    bf16* edge_gradient;    // [S, G, NQ, NK, D]: sum_h a_ijh u_ih
    bf16* pairs;            // dq_ij, dk_ij of the edges that the launch works on, [S, C, rows, NK, 2 D]
    bf16* attention;        // a_ijh of the same, [S, C, rows, NK, H]
};

constexpr int kAttentionRow = 24;  // of an edge in shared memory: its heads, zeros up to 16, and 8 against bank conflicts

// What lies where in shared memory: twice a chunk's edges and its rows' u, all swizzled; t as float [H, row of t]; a as bf16
// [edges, kAttentionRow].
struct BackwardShared {
    bf16 *edges[2], *lifted[2], *attention;
    float* through;
    int through_row;  // 4 more than a chunk has edges: no bank conflicts for 8 edges x 4 pairs of heads
    __device__ __forceinline__ BackwardShared(const Attended& given) {
        const int half = (given.capacity + given.rows * kHeads) * kChannels;
        edges[0] = (bf16*)dynamic_shared_memory();
        edges[1] = edges[0] + half;
        lifted[0] = edges[0] + given.capacity * kChannels;
        lifted[1] = lifted[0] + half;
        through_row = given.capacity + 4;
        through = (float*)(edges[1] + half);
        attention = (bf16*)(through + kHeads * through_row);
    }
};

// The rows' tiles of 16 edges, each of one row, shared out among the warps.
template <class Work> __device__ __forceinline__ void for_tiles(const Attended& given, const Chunk& chunk, int first, int step, Work work) {
    const int of_row = (given.keys + 15) / 16;
#pragma unroll 1
    for (int tile = first; tile < chunk.rows * of_row; tile += step) work(tile / of_row, tile % of_row * 16);
}

__device__ __forceinline__ void lift_weights(const AttentionBackward& pass, const Chunk& chunk, const BackwardShared& shared, const bf16* edges,
                                             const bf16* lifted) {
    const Attended& given = pass.of;
    const int lane = lane_index(), r = fragment_row(), q = quad_position();
    const int head = min(lane / 16 * 8 + lane % 8, kHeads - 1);  // whose row of u the lane gives to ldmatrix; beyond: any
    for_tiles(given, chunk, warp_index(), kHeads, [&](int row, int key) {
        float d[2][4] = {};  // heads 0 to 7 and the others
        const int edge = min(row * given.keys + key + lane % 16, chunk.edges - 1);
#pragma unroll 2
        for (int s = 0; s < kChannels / 16; ++s) {
            unsigned rows[4], weights[4];
            ldmatrix_x4(rows, edges + row_offset(edge, 16 * s + lane / 16 * 8));
            ldmatrix_x4(weights, lifted + row_offset(row * kHeads + head, 16 * s + lane / 8 % 2 * 8));
            const unsigned first[2] = {weights[0], weights[1]}, second[2] = {weights[2], weights[3]};
            mma_16x8x16(d[0], rows, first);
            mma_16x8x16(d[1], rows, second);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int of_row = key + 8 * half + r;
            if (of_row >= given.keys) continue;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int of_head = k / 2 * 8 + 2 * q + k % 2;
                if (of_head < kHeads) shared.through[of_head * shared.through_row + row * given.keys + of_row] = d[k / 2][2 * half + k % 2];
            }
        }
    });
}

// dq_i of the warp's head, from a lane's sums over its edges.
__device__ __forceinline__ void store_query_gradient(const AttentionBackward& pass, const Chunk& chunk, int row, const Four& sum) {
    float total[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        total[c] = sum.value[c];
#pragma unroll
        for (int bit = 4; bit < 32; bit *= 2) total[c] += __shfl_xor_sync(0xFFFFFFFFu, total[c], bit);
    }
    if (fragment_row() == 0)
        *(uint2*)(pass.query_gradient + (chunk.node(pass.of) + row) * kChannels + warp_index() * kHeadSize + 4 * quad_position()) =
            make_uint2(pack_bf16(total[0], total[1]), pack_bf16(total[2], total[3]));
}

// 16 edges at a time, of two rows at most: a row has 16 keys or more.
__device__ __forceinline__ void differentiate(const AttentionBackward& pass, const Chunk& chunk, const TileFragments (&weight)[4],
                                              const BackwardShared& shared, const bf16* edges) {
    const Attended& given = pass.of;
    const int r = fragment_row(), q = quad_position(), head = warp_index(), channel = head * kHeadSize + 4 * q;
    const long long node = chunk.node(given), first_key = (long long)chunk.graph * given.keys;
    const unsigned char* mask = mask_of(given, chunk);
    bf16* pairs = pass.pairs + chunk.place(given) * 2 * kChannels + channel;
    const float* through = shared.through + head * shared.through_row;
    Four sum = {};  // of dq_ij over the lane's edges of the row
    int row = 0;
#pragma unroll 1
    for (int first = 0; first < chunk.edges; first += 16) {
        Products products = {};
        multiply_edges(products, weight, edges, first);
        const bool last_of_row = first + 16 >= (row + 1) * given.keys;
        Four next = {};  // of the next row
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int number = first + 8 * half + r;
            const EdgeOf edge(min(number, chunk.edges - 1), given.keys);
            const Four query = add_product_of(load_four(given.query + (node + edge.row) * given.query_stride + channel), products[0], half);
            const Four key = add_product_of(load_four(given.key + (first_key + edge.key) * given.key_stride + channel), products[1], half);
            const Four value = load_four(given.value + (first_key + edge.key) * given.value_stride + channel);
            const Four gradient = load_four(pass.gradient + (node + edge.row) * kChannels + channel);
            const long long place = (node + edge.row) * kHeads + head;
            const bool present = number < chunk.edges && (!mask || mask[edge.row * given.mask_row + edge.key * given.mask_key]);
            const float score = quad_sum(dot(query, key)), from_value = quad_sum(dot(gradient, value));
            const float a = present ? exp2f(score * (0.25f * 1.44269504f) - pass.log_sums[place]) : 0.0f;
            const float ds = present ? a * (from_value + through[edge.row * given.keys + edge.key] - pass.delta[place]) * 0.25f : 0.0f;
            if (number >= chunk.edges) continue;
            const bool of_row = edge.row == row;
            float dq[4], dk[4];
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                dq[c] = ds * key.value[c], dk[c] = ds * query.value[c];
                sum.value[c] += of_row ? dq[c] : 0.0f, next.value[c] += of_row ? 0.0f : dq[c];
            }
            bf16* pair = pairs + (long long)number * 2 * kChannels;
            *(uint2*)pair = make_uint2(pack_bf16(dq[0], dq[1]), pack_bf16(dq[2], dq[3]));
            *(uint2*)(pair + kChannels) = make_uint2(pack_bf16(dk[0], dk[1]), pack_bf16(dk[2], dk[3]));
            if (q == 0) shared.attention[number * kAttentionRow + head] = to_bf16(a);
        }
        if (last_of_row) store_query_gradient(pass, chunk, row++, sum), sum = next;
    }
}

// Writes the warp's 16 channels of the edges' gradient through the values, and the attention weights of all edges.
__device__ __forceinline__ void give_to_edges(const AttentionBackward& pass, const Chunk& chunk, const BackwardShared& shared, const bf16* lifted) {
    const Attended& given = pass.of;
    const int lane = lane_index(), r = fragment_row(), first_channel = 16 * warp_index();
    for_tiles(given, chunk, 0, 1, [&](int row, int key) {
        unsigned weights[4], columns[4];
        const int edge = min(row * given.keys + key + lane % 16, chunk.edges - 1);
        ldmatrix_x4(weights, shared.attention + edge * kAttentionRow + lane / 16 * 8);
        const int head = min(lane % 16, kHeads - 1);  // beyond: any, its weight is zero
        ldmatrix_x4_transpose(columns, lifted + row_offset(row * kHeads + head, first_channel + lane / 16 * 8));
        const unsigned left_columns[2] = {columns[0], columns[1]}, right_columns[2] = {columns[2], columns[3]};
        float left[4] = {}, right[4] = {};
        mma_16x8x16(left, weights, left_columns);
        mma_16x8x16(right, weights, right_columns);
        bf16* output = pass.edge_gradient + ((chunk.node(given) + row) * given.keys + key + r) * kChannels + first_channel + four_column();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const uint2 four = exchange_halves(left, right, half);
            if (key + 8 * half + r < given.keys) *(uint2*)(output + 8 * half * kChannels) = four;
        }
    });
    unsigned* attention = (unsigned*)(pass.attention + chunk.place(given) * kHeads);
#pragma unroll 1
    for (int k = threadIdx.x; k < chunk.edges * (kHeads / 2); k += kAttentionThreads)
        attention[k] = *(const unsigned*)(shared.attention + k / (kHeads / 2) * kAttentionRow + k % (kHeads / 2) * 2);
}

}  // namespace rows

// Grid (blocks that share the chunks of a seed, seeds).
extern "C" __global__ void __launch_bounds__(rows::kAttentionThreads, kChannels > 128 ? 1 : 2)
attention_backward_rows(const rows::AttentionBackward pass) {
    using namespace rows;
    const Attended& given = pass.of;
    const BackwardShared shared(given);
    const int chunks = given.chunks();
    TileFragments weight[4];
    load_weights(weight, given);
    const auto copy = [&](int number, int turn) {
        const Chunk chunk(given, number);
        copy_rows(turn ? shared.edges[1] : shared.edges[0], edges_of(given, chunk), chunk.edges);
        copy_rows(turn ? shared.lifted[1] : shared.lifted[0], pass.lifted + chunk.node(given) * kHeads * kChannels, chunk.rows * kHeads);
        cp_async_commit();
    };
    if (blockIdx.x < chunks) copy(blockIdx.x, 0);
    for (int k = threadIdx.x; k < given.capacity * kAttentionRow / 2; k += kAttentionThreads) ((unsigned*)shared.attention)[k] = 0;
    int turn = 0;
#pragma unroll 1
    for (int number = blockIdx.x; number < chunks; number += gridDim.x, turn ^= 1) {
        const Chunk chunk(given, number);
        const bf16 *edges = turn ? shared.edges[1] : shared.edges[0], *lifted = turn ? shared.lifted[1] : shared.lifted[0];
        cp_async_wait<0>();
        __syncthreads();  // the edges are there, and nobody reads the last chunk any more
        if (number + gridDim.x < chunks) copy(number + gridDim.x, turn ^ 1);
        lift_weights(pass, chunk, shared, edges, lifted);
        __syncthreads();
        differentiate(pass, chunk, weight, shared, edges);
        __syncthreads();
        give_to_edges(pass, chunk, shared, lifted);
    }
}
