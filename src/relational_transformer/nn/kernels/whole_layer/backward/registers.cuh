// Small steps on registers, and places in the grid that do not occupy any.
#pragma once
#include "sizes.cuh"

namespace backward {

__device__ __forceinline__ float low_half(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_half(unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); }
__device__ __forceinline__ float as_float(bf16 value) { return __uint_as_float((unsigned)value.bits << 16); }
__device__ __forceinline__ bf16 as_bf16(float value) { return bf16{(unsigned short)(pack_bf16(value, 0.0f) & 0xFFFFu)}; }
__device__ __forceinline__ unsigned& pair_at(bf16* address) { return *(unsigned*)address; }
__device__ __forceinline__ unsigned pair_at(const bf16* address) { return *(const unsigned*)address; }
__device__ __forceinline__ float2 floats_at(const float* address) { return *(const float2*)address; }

// Makes the compiler forget where these registers come from: else it keeps both halves of each unpacked, beyond its 255 registers.
__device__ __forceinline__ void keep_packed(uint4 (&words)[kBlocks][2]) {
#ifdef __CUDACC__
#pragma unroll
    for (int k = 0; k < 2 * kBlocks; ++k) asm volatile("" : "+r"(words[k / 2][k % 2].x), "+r"(words[k / 2][k % 2].y), "+r"(words[k / 2][k % 2].z), "+r"(words[k / 2][k % 2].w));
#endif
}

__device__ __forceinline__ float quad_sum(float value) {  // over the 4 lanes that hold a row
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
    return value + __shfl_xor_sync(0xFFFFFFFFu, value, 2);
}
__device__ __forceinline__ float column_sum(float value) {  // over the 8 lanes that hold a column
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 4);
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 8);
    return value + __shfl_xor_sync(0xFFFFFFFFu, value, 16);
}
__device__ __forceinline__ float warp_sum(float value) { return column_sum(quad_sum(value)); }

// The thread's place in its block and the block's in the grid, read anew at every call: so nothing computed from them occupies registers
// from one phase to the next.
__device__ __forceinline__ int thread_index() {
#ifdef __CUDACC__
    int index;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(index));
    return index & (kThreads - 1);  // known not to be negative
#else
    return threadIdx.x;
#endif
}
struct Place {
    int graph, seed, kept_graphs;
    __device__ __forceinline__ explicit Place(int kept_graphs) : kept_graphs(kept_graphs) {
#ifdef __CUDACC__
        asm volatile("mov.u32 %0, %%ctaid.x;\n\tmov.u32 %1, %%ctaid.y;" : "=r"(graph), "=r"(seed));
#else
        graph = blockIdx.x, seed = blockIdx.y;
#endif
    }
    // Which graph of all seeds' this is, in gradients of nodes and edges and in sums, and in everything else.
    __device__ __forceinline__ long long given() const { return graph + seed * (int)gridDim.x; }
    __device__ __forceinline__ long long kept() const { return graph + seed * kept_graphs; }
};

// dmessage of a graph: of one head all graphs of the seed together, [H, graphs, N, D / H].
struct MessageGradient {
    bf16* graph;  // the first head's of this graph
    int pitch;    // from one head to the next
    __device__ __forceinline__ bf16* at(int head, int node) const { return graph + (long long)head * pitch + node * kHeadSize; }
};

// The pointer, without its history: else every access through it computes its whole address anew.
template <class Element>
__device__ __forceinline__ Element* plain_pointer(Element* pointer) {
#ifdef __CUDACC__
    size_t address = __cvta_generic_to_global(pointer);
    asm volatile("" : "+l"(address));
    return (Element*)__cvta_global_to_generic(address);  // known to be global memory
#else
    return pointer;
#endif
}

// Loads that stay where they stand, before the work that hides their latency (the compiler likes to move loads to their use).
__device__ __forceinline__ uint4 load_now_16(const void* address) { return load_constant_16(address); }
__device__ __forceinline__ uint2 load_now_8(const void* address) { return load_constant_8(address); }
__device__ __forceinline__ unsigned load_now_4(const void* address) {
#ifdef __CUDACC__
    unsigned value;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(value) : "l"(address));
    return value;
#else
    return *(const unsigned*)address;
#endif
}

}  // namespace backward
