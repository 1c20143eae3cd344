// Products of the nodes' rows with a matrix.
#pragma once
#include "fragments.cuh"

namespace backward {

// Products of the nodes' rows: out [N, 8 column_tiles] = start + rows [N, 16 steps] W^T. A NodeProduct is the work of one warp, `group` column tiles, in parts
// that may stand apart: the weights' loads before a barrier, the product after it. `start(row, column)` gives what two columns start from (bias, residual), `use(row,
// column, first, second)` gets their results. Rows come from global memory (weights permuted) or shared memory (natural).
template <int N, int group, int steps, bool global>
struct NodeProduct {
    static constexpr int node_tiles = Sizes<N>::kNodeTiles, blocks = steps / 2, held = blocks < 6 ? blocks : node_tiles > 1 ? 4 : 6;  // blocks of weights under way at once
    const bf16* packed;
    int first_column, lane;
    uint4 weights[held][group];
    float sums[node_tiles][group][4];

    __device__ __forceinline__ NodeProduct(const bf16* matrix, int first_tile, int lane)
        : packed(matrix + (first_tile * steps * 32 + 2 * lane) * 4), first_column(8 * first_tile + lane % 4 * 2), lane(lane) {
#pragma unroll
        for (int block = 0; block < held; ++block) load(block);
    }
    __device__ __forceinline__ void load(int block) {
#pragma unroll
        for (int g = 0; g < group; ++g) weights[block % held][g] = load_now_16(packed + (g * steps + 2 * block) * 32 * 4);
    }
    template <class Start>
    __device__ __forceinline__ void begin(Start start) {
#pragma unroll
        for (int m = 0; m < node_tiles; ++m)
#pragma unroll
            for (int g = 0; g < group; ++g) {
                const int row = 16 * m + lane / 4, column = first_column + 8 * g;
                const float2 above = start(min(row, N - 1), column), below = start(min(row + 8, N - 1), column);
                sums[m][g][0] = above.x, sums[m][g][1] = above.y, sums[m][g][2] = below.x, sums[m][g][3] = below.y;
            }
    }
    __device__ __forceinline__ void multiply(const bf16* rows, int pitch) {
        const int r = lane / 4, q = lane % 4;
#pragma unroll
        for (int block = 0; block < blocks; ++block) {
#pragma unroll
            for (int m = 0; m < node_tiles; ++m) {
                unsigned a[2][4];
                if (global) {
                    const uint4 above = *(const uint4*)(rows + min(16 * m + r, N - 1) * pitch + 32 * block + 8 * q);
                    const uint4 below = *(const uint4*)(rows + min(16 * m + r + 8, N - 1) * pitch + 32 * block + 8 * q);
                    a[0][0] = above.x, a[0][1] = below.x, a[0][2] = above.y, a[0][3] = below.y;
                    a[1][0] = above.z, a[1][1] = below.z, a[1][2] = above.w, a[1][3] = below.w;
                } else {
                    const bf16* address = rows + min(16 * m + lane % 16, N - 1) * pitch + 32 * block + lane / 16 * 8;
                    ldmatrix_x4(a[0], address);
                    ldmatrix_x4(a[1], address + 16);
                }
#pragma unroll
                for (int step = 0; step < 2; ++step)
#pragma unroll
                    for (int g = 0; g < group; ++g) multiply_pairs(sums[m][g], a[step], weights[block % held][g], step);
            }
            if (block + held < blocks) load(block + held);
        }
    }
    template <class Use>
    __device__ __forceinline__ void finish(Use use) {
#pragma unroll
        for (int m = 0; m < node_tiles; ++m)
#pragma unroll
            for (int g = 0; g < group; ++g) {
                const int row = 16 * m + lane / 4, column = first_column + 8 * g;
                if (row < N) use(row, column, sums[m][g][0], sums[m][g][1]);
                if (row + 8 < N) use(row + 8, column, sums[m][g][2], sums[m][g][3]);
            }
    }
};

// All of it, by all warps.
template <int N, int group, int steps, bool global, class Start, class Use>
__device__ __forceinline__ void node_product(const bf16* rows, int pitch, const bf16* packed, int column_tiles, int warp, int lane, Start start, Use use) {
#pragma unroll 1
    for (int first = warp * group; first < column_tiles; first += kWarps * group) {
        NodeProduct<N, group, steps, global> product(packed, first, lane);
        product.begin(start);
        product.multiply(rows, pitch);
        product.finish(use);
    }
}

// Adds the sums over the nodes of dqkv [N, 3 D] to those at `sums_at()`, four columns a thread.
template <int N, class Sums>
__device__ __forceinline__ void add_columns(const bf16* qkv_gradient, Sums sums_at, int thread) {
    if (thread < 3 * kChannels / 4) {
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int row = 0; row < N; ++row) {
            const uint2 pairs = *(const uint2*)(qkv_gradient + row * 3 * kChannels + 4 * thread);
            sum.x += low_half(pairs.x), sum.y += high_half(pairs.x), sum.z += low_half(pairs.y), sum.w += high_half(pairs.y);
        }
        float* sums = sums_at() + 4 * thread;
        atomicAdd(sums, sum.x), atomicAdd(sums + 1, sum.y), atomicAdd(sums + 2, sum.z), atomicAdd(sums + 3, sum.w);
    }
}

// What node_product may start from.
__device__ __forceinline__ auto residual_of(const bf16* rows) {
    return [=](int row, int column) {
        const unsigned pair = pair_at(rows + row * kChannels + column);
        return make_float2(low_half(pair), high_half(pair));
    };
}

}  // namespace backward
