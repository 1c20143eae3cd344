// Phase 6: the gradient of the edges.
#pragma once
#include "fragments.cuh"

namespace backward {

// edges_gradient += We_qk^T dqk_ij, and + A^T dh1_ij + B^T dh1_ji of an edge update. A warp takes 24 channels of all edges, 32 edges at a time; its weights stay in registers. The rows
// lie in slots of shared memory: dqk comes from global memory, dh1 of both directions from X. Packed rows of the weights are in the order that gives a lane four neighbouring
// channels of its first two column tiles, and two of the third.
template <int N>
struct ToEdges {
    using S = Sizes<N>;
    static constexpr int count = (S::kTiles + 1) / 2;  // times 32 edges
    uint4 weights[kOwnTiles][kToEdgesSteps / 2];

    __device__ __forceinline__ void load_weights(const bf16* packed) {
        const int thread = thread_index();
        packed += (thread / 32 * kOwnTiles * kToEdgesSteps / 2 * 32 + thread % 32) * 8;
#pragma unroll
        for (int k = 0; k < kOwnTiles * kToEdgesSteps / 2; ++k) weights[k / (kToEdgesSteps / 2)][k % (kToEdgesSteps / 2)] = load_now_16(packed + k * 32 * 8);
    }

    // Begins to bring the rows of 32 edges into their slot; a group of copies, empty where there are no such edges.
    static __device__ __forceinline__ void fetch(unsigned char* shared, int which, const bf16* query_key_gradient) {
        const int thread = thread_index();
        if (which < count) {
            bf16* slot = (bf16*)shared + which % S::kSlots * S::kSlot;
            auto edge_of = [&](int row) { return S::kEdges % 32 == 0 ? 32 * which + row : min(32 * which + row, S::kEdges - 1); };
#pragma unroll
            for (int k = 0; k < 6; ++k) {  // 16 rows x 16 pieces of 16 bytes at a time, of 48 pieces
                const int row = thread / 16 + k / 3 * 16, column = (thread % 16 + k % 3 * 16) * 8;
                cp_async_16(slot + row * S::kSlotRow + column, query_key_gradient + edge_of(row) * 2 * kChannels + column);
            }
            if (kUpdatesEdges && thread < 128) {
                const bf16* hidden = (const bf16*)(shared + S::kHidden);
                const int row = thread / 4, edge = edge_of(row), turned = edge % N * N + edge / N, half = thread % 2;
                *(uint4*)(slot + row * S::kSlotRow + 2 * kChannels + thread % 4 * 8) = *(const uint4*)(hidden + hidden_at(thread % 4 < 2 ? edge : turned, half));
            }
        }
        cp_async_commit();
    }

    // All edges; kSlots groups of rows are under way. Begins with a barrier.
    __device__ __forceinline__ void multiply(unsigned char* shared, const bf16* query_key_gradient, bf16* edges_gradient) {
        const int thread = thread_index(), lane = thread % 32, r = lane / 4, q = lane % 4;
        const bf16* rows = (const bf16*)shared + lane % 16 * S::kSlotRow + lane / 16 * 8;
        edges_gradient += thread / 32 * kOwnColumns;
        // Of the lane's four rows: what was there before, the first four channels and the last two.
        uint2 before[4];
        unsigned before_last[4];
        auto gradient_at = [&](int which, int k) {
            const int edge = 32 * which + 8 * k + r;
            return edges_gradient + (S::kEdges % 32 == 0 ? edge : min(edge, S::kEdges - 1)) * kChannels;
        };
        auto load = [&](int which) {
#pragma unroll
            for (int k = 0; k < 4; ++k) before[k] = load_now_8(gradient_at(which, k) + 4 * q), before_last[k] = load_now_4(gradient_at(which, k) + 16 + 2 * q);
        };
        load(0);
#pragma unroll 1
        for (int which = 0; which < count; ++which) {
            float sums[2][kOwnTiles][4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const unsigned pairs[kOwnTiles] = {before[k].x, before[k].y, before_last[k]};
#pragma unroll
                for (int t = 0; t < kOwnTiles; ++t) sums[k / 2][t][k % 2 * 2] = low_half(pairs[t]), sums[k / 2][t][k % 2 * 2 + 1] = high_half(pairs[t]);
            }
            load(min(which + 1, count - 1));
            cp_async_wait<S::kSlots - 2>();
            __syncthreads();
            if (which > 0) fetch(shared, which + S::kSlots - 1, query_key_gradient);  // where all warps are done
            else cp_async_commit();
            const bf16* slot = rows + which % S::kSlots * S::kSlot;
#pragma unroll
            for (int step = 0; step < kToEdgesSteps; ++step) {
                unsigned a[2][4];
#pragma unroll
                for (int n = 0; n < 2; ++n) ldmatrix_x4(a[n], slot + n * 16 * S::kSlotRow + step * 16);
#pragma unroll
                for (int t = 0; t < kOwnTiles; ++t)
#pragma unroll
                    for (int n = 0; n < 2; ++n) multiply_pairs(sums[n][t], a[n], weights[t][step / 2], step);
            }
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const float(&tiles)[kOwnTiles][4] = sums[k / 2];
                const int c = k % 2 * 2;
                if (S::kEdges % 32 == 0 || 32 * which + 8 * k + r < S::kEdges) {
                    *(uint2*)(gradient_at(which, k) + 4 * q) = make_uint2(pack_bf16(tiles[0][c], tiles[0][c + 1]), pack_bf16(tiles[1][c], tiles[1][c + 1]));
                    pair_at(gradient_at(which, k) + 16 + 2 * q) = pack_bf16(tiles[2][c], tiles[2][c + 1]);
                }
            }
        }
    }
};

}  // namespace backward
