// Building blocks of the one-block-a-graph layer: sizes, the layer's weights, fragments, shared-memory layout, LayerNorm.
//
// On the GPU the primitives are inline PTX; elsewhere the emulator of the tests provides them under the same names.
#pragma once
#ifndef __CUDACC__
#include "cuda_on_cpu.h"
#endif

// ---- Sizes ----
#ifndef NODES
#define NODES 16  // nodes of a graph; 16 and 20 are tested, any up to 20 should fit
#endif
constexpr int kNodes = NODES;
constexpr int kChannels = 192;                   // of nodes and of edges
constexpr int kHeads = 12, kHeadSize = 16;       // heads are contiguous blocks of channels
constexpr int kNodeHidden = 32;                  // hidden size of the nodes' feed-forward
constexpr int kMessageHidden = 16, kEdgeHidden = 8;  // hidden sizes of the edge update
constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kEdges = kNodes * kNodes;
constexpr int kEdgeTiles = (kEdges + 15) / 16;   // row tiles of 16 edges; edge (i, j) is row i * kNodes + j
constexpr int kNodeTiles = (kNodes + 15) / 16;   // row tiles of 16 nodes
constexpr int kColumnBlocks = kChannels / 32;    // blocks of 32 channels: the unit of 16-byte fragment loads
constexpr int kColumnTiles = kChannels / 8;      // tiles of 8 output channels
constexpr float kEpsilon = 1e-5f;
static_assert(kHeads * kHeadSize == kChannels && kHeadSize == 16 && kMessageHidden == 16 && kEdgeHidden == 8, "sizes");

struct bf16 { unsigned short bits; };

// The weights of one layer, each stacked over the seeds and contiguous: [S, ...]; Linears as torch keeps them,
// [out, in], in bf16; biases and LayerNorms in float32. Column blocks of edge_message_in: e_ij, e_ji, n_j (sender),
// n_i (receiver).
struct LayerWeights {
    const bf16* node_qkv;                // [3 D, D] rows q, k, v
    const float* node_qkv_bias;          // [3 D] the nodes' bias plus the edges'
    const bf16* edge_qkv;                // [3 D, D]
    const bf16* node_output;             // [D, D]
    const float* node_output_bias;       // [D]
    const float* node_norm_weight;       // [D]
    const float* node_norm_bias;         // [D]
    const bf16* node_feed_forward_in;    // [FH, D]
    const float* node_feed_forward_in_bias;   // [FH]
    const bf16* node_feed_forward_out;   // [D, FH]
    const float* node_feed_forward_out_bias;  // [D]
    const float* node_feed_forward_norm_weight;  // [D]
    const float* node_feed_forward_norm_bias;    // [D]
    const bf16* edge_message_in;         // [M1, 4 D]
    const float* edge_message_in_bias;   // [M1]
    const bf16* edge_message_out;        // [D, M1]
    const float* edge_message_out_bias;  // [D]
    const float* edge_norm_weight;       // [D]
    const float* edge_norm_bias;         // [D]
    const bf16* edge_feed_forward_in;    // [M2, D]
    const float* edge_feed_forward_in_bias;   // [M2]
    const bf16* edge_feed_forward_out;   // [D, M2]
    const float* edge_feed_forward_out_bias;  // [D]
    const float* edge_feed_forward_norm_weight;  // [D]
    const float* edge_feed_forward_norm_bias;    // [D]

    // The weights of one seed.
    __device__ __forceinline__ LayerWeights of_seed(int seed) const {
        LayerWeights w = *this;
        const long long s = seed;
        w.node_qkv += s * 3 * kChannels * kChannels;
        w.node_qkv_bias += s * 3 * kChannels;
        w.edge_qkv += s * 3 * kChannels * kChannels;
        w.node_output += s * kChannels * kChannels;
        w.node_output_bias += s * kChannels;
        w.node_norm_weight += s * kChannels;
        w.node_norm_bias += s * kChannels;
        w.node_feed_forward_in += s * kNodeHidden * kChannels;
        w.node_feed_forward_in_bias += s * kNodeHidden;
        w.node_feed_forward_out += s * kChannels * kNodeHidden;
        w.node_feed_forward_out_bias += s * kChannels;
        w.node_feed_forward_norm_weight += s * kChannels;
        w.node_feed_forward_norm_bias += s * kChannels;
        w.edge_message_in += s * kMessageHidden * 4 * kChannels;
        w.edge_message_in_bias += s * kMessageHidden;
        w.edge_message_out += s * kChannels * kMessageHidden;
        w.edge_message_out_bias += s * kChannels;
        w.edge_norm_weight += s * kChannels;
        w.edge_norm_bias += s * kChannels;
        w.edge_feed_forward_in += s * kEdgeHidden * kChannels;
        w.edge_feed_forward_in_bias += s * kEdgeHidden;
        w.edge_feed_forward_out += s * kChannels * kEdgeHidden;
        w.edge_feed_forward_out_bias += s * kChannels;
        w.edge_feed_forward_norm_weight += s * kChannels;
        w.edge_feed_forward_norm_bias += s * kChannels;
        return w;
    }
};

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
// Loads of memory that nobody writes while the kernel runs (weights, inputs); volatile and not .nc: else they are moved down,
// past barriers, to where they are used, and their latency shows.
__device__ __forceinline__ uint4 load_constant_16(const void* address) {
    uint4 v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(address));
    return v;
}
__device__ __forceinline__ uint2 load_constant_8(const void* address) {
    uint2 v;
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(address));
    return v;
}
__device__ __forceinline__ unsigned load_constant_4(const void* address) {
    unsigned v;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(address));
    return v;
}
#else
inline uint4 load_constant_16(const void* address) { return *(const uint4*)address; }
inline uint2 load_constant_8(const void* address) { return *(const uint2*)address; }
inline unsigned load_constant_4(const void* address) { return *(const unsigned*)address; }
#endif

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

// ---- Rows of 192 bf16 in shared memory ----
// Unpadded rows of 384 bytes = 24 chunks of 16 bytes, the chunk's index XORed with the row's low three bits, reversed.
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

// ---- Products with permuted k ----
// The order of k is free as long as both operands agree. A lane takes 8 consecutive k, at 32 b + 8 q for block b, of its
// rows: 16 bytes, of which words 0 and 1 feed one mma and words 2 and 3 the next. RowFragments: 16 rows of the left
// operand (rows r and r + 8 of the lane), 192 columns. Weight fragments: output channel = row lane / 4 of W [out, in].
struct RowFragments { uint4 upper[kColumnBlocks], lower[kColumnBlocks]; };
struct WeightFragments { uint4 block[kColumnBlocks]; };

// One block of 32 columns: 16 rows of the left operand (upper, lower) times 8 outputs.
__device__ __forceinline__ void multiply_block(float (&d)[4], const uint4& upper, const uint4& lower, const uint4& weight) {
    const unsigned a0[4] = {upper.x, lower.x, upper.y, lower.y}, b0[2] = {weight.x, weight.y};
    mma_16x8x16(d, a0, b0);
    const unsigned a1[4] = {upper.z, lower.z, upper.w, lower.w}, b1[2] = {weight.z, weight.w};
    mma_16x8x16(d, a1, b1);
}
__device__ __forceinline__ void multiply(float (&d)[4], const RowFragments& rows, const WeightFragments& weight) {
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) multiply_block(d, rows.upper[b], rows.lower[b], weight.block[b]);
}
// Eight rows of W [out, in] from `weight` (row 0 of the tile), `stride` bf16 apart, from device memory.
__device__ __forceinline__ void load_weight(WeightFragments& fragments, const bf16* weight, int stride) {
    const bf16* row = weight + fragment_row() * stride + 8 * quad_position();
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) fragments.block[b] = load_constant_16(row + 32 * b);
}
// The 16 rows from first_row of a swizzled array in shared memory; rows from num_rows on read as zero.
__device__ __forceinline__ void load_shared_rows(RowFragments& fragments, const bf16* array, int first_row, int num_rows) {
    const int upper = first_row + fragment_row(), lower = upper + 8;
    const uint4 zero = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) {
        const int column = 32 * b + 8 * quad_position();
        fragments.upper[b] = upper < num_rows ? *(const uint4*)(array + row_offset(upper, column)) : zero;
        fragments.lower[b] = lower < num_rows ? *(const uint4*)(array + row_offset(lower, column)) : zero;
    }
}
// The same of rows `stride` bf16 apart in device memory (never written by this kernel).
__device__ __forceinline__ void load_constant_rows(RowFragments& fragments, const bf16* array, int stride, int first_row, int num_rows) {
    const int upper = first_row + fragment_row(), lower = upper + 8;
    const uint4 zero = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) {
        const int column = 32 * b + 8 * quad_position();
        fragments.upper[b] = upper < num_rows ? load_constant_16(array + upper * stride + column) : zero;
        fragments.lower[b] = lower < num_rows ? load_constant_16(array + lower * stride + column) : zero;
    }
}

// In edge-sized products the weights are the left operand (M: 16 output channels), loaded once and kept in registers, and
// the edges the right one (N: 8 edges), 16 bytes at a time as they lie: the words x, y and z, w of a load are operands
// without a move. Accumulators: channels r and r + 8 of edges 2 q ([0] and [2]) and 2 q + 1 ([1] and [3]).
// (A left operand takes four consecutive registers: as the streamed side, loaded 16 bytes at a time, it would cost moves.)
struct LeftWeights { unsigned block[kColumnBlocks][2][4]; };
__device__ __forceinline__ void load_left(LeftWeights& fragments, const bf16* weight, int stride) {
    const bf16* upper = weight + fragment_row() * stride + 8 * quad_position();
    const unsigned zero = blockIdx.z;  // the grid has no z: makes values of its own of the words, in their final registers
#pragma unroll
    for (int b = 0; b < kColumnBlocks; ++b) {
        const uint4 above = load_constant_16(upper + 32 * b), below = load_constant_16(upper + 8 * stride + 32 * b);
        fragments.block[b][0][0] = above.x ^ zero, fragments.block[b][0][1] = below.x ^ zero;
        fragments.block[b][0][2] = above.y ^ zero, fragments.block[b][0][3] = below.y ^ zero;
        fragments.block[b][1][0] = above.z ^ zero, fragments.block[b][1][1] = below.z ^ zero;
        fragments.block[b][1][2] = above.w ^ zero, fragments.block[b][1][3] = below.w ^ zero;
    }
}
__device__ __forceinline__ void multiply_left(float (&d)[4], const unsigned (&weight)[2][4], const uint4& edges) {
    const unsigned first[2] = {edges.x, edges.y}, second[2] = {edges.z, edges.w};
    mma_16x8x16(d, weight[0], first);
    mma_16x8x16(d, weight[1], second);
}

// Copies `rows` x 192 bf16 from device memory into a swizzled array, asynchronously (commit and wait are the caller's).
__device__ __forceinline__ void copy_rows_async(bf16* shared, const bf16* global, int rows) {
    constexpr int chunks = kChannels / 8;
    if (threadIdx.x >= 8 * chunks) return;  // 8 rows at a time: a thread's rows are all swizzled alike
    const int first = threadIdx.x / chunks, column = threadIdx.x % chunks * 8;
    shared += row_offset(first, column), global += first * kChannels + column;
#pragma unroll 8
    for (int row = first; row < rows; row += 8, shared += 8 * kChannels, global += 8 * kChannels) cp_async_16(shared, global);
}
