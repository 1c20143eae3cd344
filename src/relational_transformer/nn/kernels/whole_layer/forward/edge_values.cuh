// All channels of 16 edges in the registers of a warp: what the edge update does with them.
#pragma once
#include "../tile.cuh"

// The edge update computes its outputs in a permuted order: of tile 4 b + t (b: block of 32 channels), output n stands
// for channel 32 b + 8 (n / 2) + 2 t + n % 2. So a lane's four tiles of a block are the 8 consecutive channels from
// 32 b + 8 q: residuals, vectors and results move 16 bytes at a time, and the accumulators of a block are the left operand
// of the next product. 16 edges: [b][t][0, 1] are channels 32 b + 8 q + 2 t and the next of the upper row.
using EdgeValues = float[kColumnBlocks][4][4];

// LayerNorm in two parts; `scale` is 1 / std of both rows.
__device__ __forceinline__ void normalize_edges(EdgeValues& x, float (&scale)[2], float (&mean)[2]) {
    float shift[2];  // (x - mean) / std = x * scale + shift
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sums[4] = {}, squares[4] = {};  // four chains; one pass: residuals of normalized edges have small means
#pragma unroll
        for (int k = 0; k < kColumnBlocks * 4; ++k) {
            const float first = x[k / 4][k % 4][2 * half], second = x[k / 4][k % 4][2 * half + 1];
            sums[k % 4] += first, squares[k % 4] += first * first;
            sums[k % 4] += second, squares[k % 4] += second * second;
        }
        mean[half] = quad_sum((sums[0] + sums[1]) + (sums[2] + sums[3])) * (1.0f / kChannels);
        const float square = quad_sum((squares[0] + squares[1]) + (squares[2] + squares[3])) * (1.0f / kChannels);
        const float variance = fmaxf(square - mean[half] * mean[half], 0.0f);
        scale[half] = rsqrtf(variance + kEpsilon);
        shift[half] = -mean[half] * scale[half];
    }
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 16; ++k) {
        float& value = x[k / 16][k / 4 % 4][k % 4];
        value = value * scale[k % 4 / 2] + shift[k % 4 / 2];
    }
}
__device__ __forceinline__ void scale_edges(EdgeValues& x, const float* weight, const float* bias) {
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 2; ++k) {
        const int column = k / 2 * 32 + quad_position() * 8 + k % 2 * 4;
        const float4 w = *(const float4*)(weight + column), b = *(const float4*)(bias + column);
        float(&one)[4] = x[k / 2][k % 2 * 2], (&two)[4] = x[k / 2][k % 2 * 2 + 1];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            one[2 * half] = one[2 * half] * w.x + b.x;
            one[2 * half + 1] = one[2 * half + 1] * w.y + b.y;
            two[2 * half] = two[2 * half] * w.z + b.z;
            two[2 * half + 1] = two[2 * half + 1] * w.w + b.w;
        }
    }
}

// Adds a vector over the channels to both rows.
__device__ __forceinline__ void add_vector(EdgeValues& x, const float* vector) {
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 2; ++k) {
        const float4 v = *(const float4*)(vector + k / 2 * 32 + quad_position() * 8 + k % 2 * 4);
        float(&one)[4] = x[k / 2][k % 2 * 2], (&two)[4] = x[k / 2][k % 2 * 2 + 1];
        one[0] += v.x, one[1] += v.y, one[2] += v.x, one[3] += v.y;
        two[0] += v.z, two[1] += v.w, two[2] += v.z, two[3] += v.w;
    }
}

// Adds the product of 16 activations (left operand) and an output matrix, whose fragments lie in shared memory.
__device__ __forceinline__ void add_product(EdgeValues& x, const unsigned (&activation)[4], const uint4* fragments) {
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 2; ++k) {
        const uint4 two = fragments[32 * k];
        const unsigned first[2] = {two.x, two.y}, second[2] = {two.z, two.w};
        mma_16x8x16(x[k / 2][k % 2 * 2], activation, first);
        mma_16x8x16(x[k / 2][k % 2 * 2 + 1], activation, second);
    }
}

// Eight consecutive channels of one row of a block, as bf16.
__device__ __forceinline__ uint4 pack_row(const float (&block)[4][4], int half) {
    return make_uint4(pack_bf16(block[0][2 * half], block[0][2 * half + 1]), pack_bf16(block[1][2 * half], block[1][2 * half + 1]),
                      pack_bf16(block[2][2 * half], block[2][2 * half + 1]), pack_bf16(block[3][2 * half], block[3][2 * half + 1]));
}
