// Rows of 16 edges in registers and, as bf16, staged in shared memory (phase 1).
#pragma once
#include "fragments.cuh"

namespace backward {

// The lane's places in 16 staged rows of channels (swizzled): of row r or r + 8, its eight channels of block b.
struct StagedRows {
    bf16 *even, *odd;
    __device__ __forceinline__ StagedRows(bf16* tile, int lane) {
        const int turn = swizzle(lane / 4);
        bf16* base = tile + lane / 4 * kChannels + (lane % 4 ^ (turn & 3)) * 8;
        even = base + (turn >> 2) * 32, odd = base - (turn >> 2) * 32;
    }
    __device__ __forceinline__ uint4& at(int b, int below) const { return *(uint4*)((b & 1 ? odd : even) + 32 * b + below * 8 * kChannels); }
};

// Calls use(tile, below, k) for the lane's pairs of neighbouring channels of block b, in both rows: the k-th of the four, and the accumulator tile it lies in.
template <class Use>
__device__ __forceinline__ void for_pairs(int b, Use use) {
#pragma unroll
    for (int below = 0; below < 2; ++below)
#pragma unroll
        for (int k = 0; k < 4; ++k) use(4 * b + k, below, k);
}

// The lane's eight numbers of block b of a vector.
struct EightFloats {
    float at[8];
    __device__ __forceinline__ EightFloats(const float* vector, int b, int q) {
        const float4 low = *(const float4*)(vector + 32 * b + 8 * q), high = *(const float4*)(vector + 32 * b + 8 * q + 4);
        at[0] = low.x, at[1] = low.y, at[2] = low.z, at[3] = low.w, at[4] = high.x, at[5] = high.y, at[6] = high.z, at[7] = high.w;
    }
};

}  // namespace backward
