// Building blocks of the kernels in CUDA C++: sizes, primitives, rows of channels in shared memory, fragments of weights.
//
// On the GPU the primitives are inline PTX; elsewhere the emulator of the tests provides them under the same names.
#pragma once
#ifndef __CUDACC__
#include "cuda_on_cpu.h"
#endif

// ---- Sizes ----
#ifndef NODES
#define NODES 16  // nodes of a graph; 5, 16 and 20 are tested, any up to 20 should fit
#endif
#ifndef UPDATE_EDGES
#define UPDATE_EDGES 1  // whether the layer updates its edges; without it they are read, and their gradient goes past the layer
#endif
#ifndef CHANNELS
#define CHANNELS 192  // of nodes and of edges: a multiple of 64
#endif
constexpr int kNodes = NODES;
constexpr bool kUpdatesEdges = UPDATE_EDGES;
constexpr int kChannels = CHANNELS;
constexpr int kHeadSize = 16, kHeads = kChannels / kHeadSize;  // heads are contiguous blocks of channels
constexpr int kNodeHidden = 32;                  // hidden size of the nodes' feed-forward
constexpr int kMessageHidden = 16, kEdgeHidden = 8;  // hidden sizes of the edge update
constexpr int kHiddenRow = 32;  // kept of an edge: the first hidden layer, the second, and 1 / std of both norms, float32 (two bf16 each); 4 unused
constexpr int kNormalRow = 2 * kChannels + 8;  // kept of a node: normalized by the first norm and by the second, and 1 / std of both, as above; 4 unused
constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kEdges = kNodes * kNodes;
constexpr int kEdgeTiles = (kEdges + 15) / 16;   // row tiles of 16 edges; edge (i, j) is row i * kNodes + j
constexpr int kNodeTiles = (kNodes + 15) / 16;   // row tiles of 16 nodes
constexpr int kColumnBlocks = kChannels / 32;    // blocks of 32 channels: the unit of 16-byte fragment loads
constexpr int kColumnTiles = kChannels / 8;      // tiles of 8 output channels
constexpr float kEpsilon = 1e-5f;
static_assert(kChannels % 64 == 0 && kHeadSize == 16 && kMessageHidden == 16 && kEdgeHidden == 8, "sizes");

struct bf16 { unsigned short bits; };

// ---- Primitives: PTX here, the emulator's functions of the same names elsewhere (their layouts are described there) ----
#ifdef __CUDACC__
__device__ __forceinline__ unsigned char* dynamic_shared_memory() {
    extern __shared__ __align__(128) unsigned char shared_memory[];
    return shared_memory;
}
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}
__device__ __forceinline__ void barrier_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ __forceinline__ void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void ldmatrix_x4(unsigned (&result)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2(unsigned (&result)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(result[0]), "=r"(result[1]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_transpose(unsigned (&result)[4], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(result[0]), "=r"(result[1]), "=r"(result[2]), "=r"(result[3]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ void ldmatrix_x2_transpose(unsigned (&result)[2], const void* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(result[0]), "=r"(result[1]) : "r"(shared_address(row)) : "memory");
}
__device__ __forceinline__ unsigned movmatrix_transpose(unsigned value) {
    unsigned result;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(value));
    return result;
}
__device__ __forceinline__ void cp_async_16(void* shared, const void* global) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int pending> __device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
__device__ __forceinline__ void prefetch_to_cache(const void* address, unsigned bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(address), "r"(bytes) : "memory");
}
// Loads of memory that nobody writes while the kernel runs (weights, inputs); volatile and not .nc: else they are moved down,
// past barriers, to where they are used, and their latency shows.
__device__ __forceinline__ uint4 load_constant_16(const void* address) {
    uint4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
    return v;
}
// The same under a condition, without a branch: else the value stays.
__device__ __forceinline__ void load_constant_16_if(bool condition, uint4& value, const void* address) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %5, 0; @p ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
                 : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w) : "l"(address), "r"((unsigned)condition));
}
__device__ __forceinline__ uint2 load_constant_8(const void* address) {
    uint2 v;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(address));
    return v;
}
__device__ __forceinline__ uint2 load_read_only_8(const void* address) {  // at leisure
    uint2 v;
    asm("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(address));
    return v;
}
__device__ __forceinline__ unsigned load_constant_4(const void* address) {
    unsigned v;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(address));
    return v;
}
// The same words, of which the compiler knows no more what was made of them: it would keep that in registers.
__device__ __forceinline__ void forget(uint4& v) { asm volatile("" : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)); }
#else
inline void forget(uint4&) {}
inline void prefetch_to_cache(const void*, unsigned) {}
inline void load_constant_16_if(bool condition, uint4& value, const void* address) { if (condition) value = *(const uint4*)address; }
inline uint4 load_constant_16(const void* address) { return *(const uint4*)address; }
inline uint2 load_constant_8(const void* address) { return *(const uint2*)address; }
inline uint2 load_read_only_8(const void* address) { return *(const uint2*)address; }
inline unsigned load_constant_4(const void* address) { return *(const unsigned*)address; }
#endif
// Brings a seed's weights from device memory into the L2 cache; its graphs share out the work. Many fleets at once have more
// weights than that cache holds.
__device__ __forceinline__ void prefetch_weights(const void* weights, unsigned bytes) {
    const unsigned share = (bytes / gridDim.x + 15) / 16 * 16, first = blockIdx.x * share;
    if (threadIdx.x == 0 && first < bytes) prefetch_to_cache((const char*)weights + first, min(share, bytes - first));
}

// ---- Small helpers ----
__device__ __forceinline__ int lane_index() { return threadIdx.x & 31; }
__device__ __forceinline__ int warp_index() { return threadIdx.x >> 5; }
// Position in a fragment: row (0 to 7) and position in the quad of lanes that share a row (0 to 3).
__device__ __forceinline__ int fragment_row() { return (threadIdx.x & 31) >> 2; }
__device__ __forceinline__ int quad_position() { return threadIdx.x & 3; }

__device__ __forceinline__ float low_float(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_float(unsigned pair) { return __uint_as_float(pair & 0xFFFF0000u); }
__device__ __forceinline__ bf16 to_bf16(float value) { return bf16{(unsigned short)(pack_bf16(value, 0.0f) & 0xFFFFu)}; }
__device__ __forceinline__ float to_float(bf16 value) { return __uint_as_float((unsigned)value.bits << 16); }
__device__ __forceinline__ float2 load_constant_float2(const float* address) {
    const uint2 pair = load_constant_8(address);
    return make_float2(__uint_as_float(pair.x), __uint_as_float(pair.y));
}
__device__ __forceinline__ unsigned word(const uint4& v, int k) { return k == 0 ? v.x : k == 1 ? v.y : k == 2 ? v.z : v.w; }

// Sums over the four lanes that share a fragment's row.
__device__ __forceinline__ float quad_sum(float value) {
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 1);
    value += __shfl_xor_sync(0xFFFFFFFFu, value, 2);
    return value;
}

// ---- Rows of channels in shared memory ----
// Unpadded rows of chunks of 16 bytes (192 channels: 24), the chunk's index XORed with the row's low three bits, reversed.
// Free of bank conflicts for (a) 16-byte fragment loads (lane: row lane / 4, chunk 4 b + lane % 4), where neighbouring
// rows must differ in bit 2 of the chunk, (b) ldmatrix of 8 consecutive rows at one chunk, and (c) 4-byte accesses by
// accumulator layout (row lane / 4, columns 2 (lane % 4)).
__device__ __forceinline__ int swizzle(int row) { return (row & 1) << 2 | (row & 2) | (row & 4) >> 2; }
// The index in bf16 of column `column` of row `row`; 8 consecutive columns from a multiple of 8 are contiguous.
__device__ __forceinline__ int row_offset(int row, int column) {
    return row * kChannels + (((column >> 3) ^ swizzle(row)) << 3) + (column & 7);
}

// The lane's 16 bytes of one row of a swizzled array for each block of 32 columns: two addresses and constant offsets.
struct RowBlocks {
    const bf16 *even, *odd;
    __device__ __forceinline__ RowBlocks(const bf16* array, int row) {
        const int s = swizzle(row);  // chunk (4 b + q) ^ s = 4 (b ^ s / 4) + (q ^ s % 4), and b ^ 1 is b + 1 or b - 1
        const bf16* base = array + row * kChannels + (quad_position() ^ (s & 3)) * 8;
        even = base + (s >> 2) * 32, odd = base - (s >> 2) * 32;
    }
    // Block b of the row `rows_on` rows further (a multiple of 8: swizzled alike).
    __device__ __forceinline__ uint4 load(int b, int rows_on = 0) const {
        return *(const uint4*)((b & 1 ? odd : even) + 32 * b + rows_on * kChannels);
    }
};

// Every other chunk of 8 columns of a row of a swizzled array: four addresses and constant offsets.
struct SwizzledChunks {
    const bf16* start[4];
    __device__ __forceinline__ SwizzledChunks(const bf16* array, int row, int first) {
        const int turn = swizzle(row);
#pragma unroll
        for (int k = 0; k < 4; ++k) start[k] = array + row * kChannels + ((2 * k + first) ^ turn) * 8;
    }
    __device__ __forceinline__ const bf16* at(int k) const { return start[k % 4] + k / 4 * 64; }
};

// Copies `rows` x 192 bf16 from device memory into a swizzled array, asynchronously (commit and wait are the caller's).
template <int rows> __device__ __forceinline__ void copy_rows_async(bf16* shared, const bf16* global) {
    constexpr int chunks = kChannels / 8;
    if (threadIdx.x >= 8 * chunks) return;  // 8 rows at a time: a thread's rows are all swizzled alike
    const int first = threadIdx.x / chunks, column = threadIdx.x % chunks * 8;
    shared += row_offset(first, column), global += first * kChannels + column;
#pragma unroll 4
    for (int k = 0; k < rows / 8; ++k, shared += 8 * kChannels, global += 8 * kChannels) cp_async_16(shared, global);
    if (first < rows % 8) cp_async_16(shared, global);
}

// The rows of a swizzled array back into device memory, shared out in the same way.
template <int rows> __device__ __forceinline__ void store_rows(bf16* global, const bf16* shared) {
    constexpr int chunks = kChannels / 8;
    if (threadIdx.x >= 8 * chunks) return;
    const int first = threadIdx.x / chunks, column = threadIdx.x % chunks * 8;
    shared += row_offset(first, column), global += first * kChannels + column;
#pragma unroll 4
    for (int k = 0; k < rows / 8; ++k, shared += 8 * kChannels, global += 8 * kChannels) *(uint4*)global = *(const uint4*)shared;
    if (first < rows % 8) *(uint4*)global = *(const uint4*)shared;
}

// ---- Weights ----
// Of a tile of 8 outputs: words x, y of a block are the first 16 inputs', z and w the next.
struct TileFragments { uint4 block[kColumnBlocks]; };
__device__ __forceinline__ void load_tile(TileFragments& fragments, const bf16* packed) {
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) fragments.block[b] = load_constant_16(packed + (32 * b + lane_index()) * 8);
}
