// What the edge update's passes share: 16 edges in the registers of a warp, parameters in shared memory.
#pragma once
#include "../whole_layer/forward/edge_values.cuh"

namespace rows {

constexpr int kUpdateThreads = 128, kUpdateBlocks = 3;  // of a multiprocessor
constexpr int kKept = 32;  // numbers kept of an edge: both hidden layers, a one, zeros

// 16 edges as they lie: the lane's 16 bytes of the upper and of the lower row for each block of 32 channels.
struct EdgeRows { uint4 upper[kColumnBlocks], lower[kColumnBlocks]; };
__device__ __forceinline__ void load_edges(EdgeRows& rows, const bf16* upper, const bf16* lower) {
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) {
        rows.upper[b] = load_constant_16(upper + 32 * b + 8 * quad_position());
        rows.lower[b] = load_constant_16(lower + 32 * b + 8 * quad_position());
    }
}
// Adds the product of a block of the rows and a tile of 8 outputs.
__device__ __forceinline__ void multiply_rows(float (&d)[4], const uint4& upper, const uint4& lower, const uint4& weight) {
    const unsigned first[4] = {upper.x, lower.x, upper.y, lower.y}, second[4] = {upper.z, lower.z, upper.w, lower.w};
    const unsigned first_weight[2] = {weight.x, weight.y}, second_weight[2] = {weight.z, weight.w};
    mma_16x8x16(d, first, first_weight);
    mma_16x8x16(d, second, second_weight);
}

// Where an edge's ends and its reverse are, among those of all graphs of all seeds.
struct Ends {
    unsigned receiver, sender, reverse;
    __device__ __forceinline__ Ends(unsigned edge, unsigned nodes) {
        receiver = edge / nodes;
        const unsigned first = receiver / nodes * nodes;  // node of the graph
        sender = first + edge - receiver * nodes;
        reverse = sender * nodes + receiver - first;
    }
};
__device__ __forceinline__ void unpack_edges(EdgeValues& x, const EdgeRows& rows) {
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b)
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            x[b][t][0] = low_float(word(rows.upper[b], t)), x[b][t][1] = high_float(word(rows.upper[b], t));
            x[b][t][2] = low_float(word(rows.lower[b], t)), x[b][t][3] = high_float(word(rows.lower[b], t));
        }
}
// A LayerNorm whose mean and 1 / std are known.
__device__ __forceinline__ void standardize_edges(EdgeValues& x, const float (&mean)[2], const float (&scale)[2]) {
    const float shift[2] = {-mean[0] * scale[0], -mean[1] * scale[1]};
#pragma unroll
    for (int k = 0; k < kColumnBlocks * 16; ++k) {
        float& value = x[k / 16][k / 4 % 4][k % 4];
        value = value * scale[k % 4 / 2] + shift[k % 4 / 2];
    }
}

// Begins to bring the seed's matrices and vectors into shared memory.
template <int matrices_size, int vectors_size>
__device__ __forceinline__ void load_parameters(uint4* shared, float* shared_vectors, const bf16* matrices, const float* vectors) {
#pragma unroll 1
    for (int k = threadIdx.x; k < matrices_size / 8; k += kUpdateThreads)
        shared[k] = load_constant_16(matrices + (long long)blockIdx.y * matrices_size + 8 * k);
#pragma unroll 1
    for (int k = threadIdx.x; k < vectors_size; k += kUpdateThreads) shared_vectors[k] = vectors[(long long)blockIdx.y * vectors_size + k];
}

}  // namespace rows
