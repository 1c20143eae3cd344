// layer_backward: the gradients of one relational transformer layer, one thread block a graph. Fragment layouts: lane = 4 r + q; see mma_16x8x16 in
// the emulator of the tests. Weights come packed (`pack_backward` in parameters.py): every matrix W [out, in] that is a B operand, and its transpose where
// needed, in fragment order, so that a fragment is one 8-byte load of a lane (16 bytes where the weights are the left operand). What the kernel leaves to products of matrices outside: weight_gradients.py.
//
// Phases, a barrier between each two:
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
// Without an edge update (UPDATE_EDGES 0) phase 1 only begins to bring e into shared memory, phase 2 is the nodes' part, and phase 4 adds to the gradient that is given for the edges.
#pragma once
#include "tile.cuh"

namespace backward {

constexpr int kChannels = 192, kHeads = 12, kHeadSize = 16, kNodeHidden = 32, kHidden1 = 16, kHidden2 = 8;
constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kRow = kChannels + 8;         // a row of channels in shared memory, padded against bank conflicts
constexpr int kColumnTiles = kChannels / 8;  // accumulator tiles of a row of channels
constexpr int kSteps = kChannels / 16;       // mma steps over the channels
constexpr int kOwnTiles = kColumnTiles / kWarps, kOwnColumns = 8 * kOwnTiles;  // columns of one warp where columns are split
constexpr int kBlocks = kChannels / 32;                                        // a lane has 8 neighbouring channels of each (phase 1)
constexpr int kStageBytes = kWarps * 16 * kChannels * 2;                       // one 16-row tile a warp
constexpr int kMaxSharedBytes = 227 * 1024;
constexpr float kMean = 1.0f / kChannels;

// Packed weights of a seed, in bf16 elements: [out / 8][in / 16][lane][4], `pack_backward` in parameters.py. In brackets: [out, in].
constexpr int kFeedIn = 0;                                               // Dm [8, 192], as it is
constexpr int kFeedOutTransposed = kFeedIn + 8 * 192;                    // Em^T [8, 192], permuted
constexpr int kFeedInTransposed = kFeedOutTransposed + 8 * 192;          // [192, 8], rows reordered (load_half_step)
constexpr int kMessageOutTransposed = kFeedInTransposed + 192 * 8;       // C^T [16, 192], permuted
constexpr int kSendReceiveTransposed = kMessageOutTransposed + 16 * 192; // Ws^T beside Wr^T [192, 32]
constexpr int kNodeOutTransposed = kUpdatesEdges ? kSendReceiveTransposed + 192 * 32 : 0;  // F2^T [32, 192]; without an edge update there is nothing before it
constexpr int kNodeInTransposed = kNodeOutTransposed + 32 * 192;         // F1^T [192, 32]
constexpr int kOutputTransposed = kNodeInTransposed + 192 * 32;          // Wo^T [192, 192]
constexpr int kNodeQkvTransposed = kOutputTransposed + 192 * 192;        // Wn^T [192, 576], permuted
constexpr int kEdgeQueryKey = kNodeQkvTransposed + 192 * 576;            // We[:384] [384, 192], rows of 16 reordered (phase 5)
constexpr int kEdgeValueTransposed = kEdgeQueryKey + 384 * 192;          // We[384:]^T [192, 192], a left operand by heads, rows of 32 reordered (phase 4)
constexpr int kToEdges = kEdgeValueTransposed + 192 * 192;               // We[:384]^T, and A^T, B^T of an edge update: [192, 416 or 384], rows of 24 reordered (phase 6)
constexpr int kToEdgesSteps = (2 * kChannels + (kUpdatesEdges ? 2 * kHidden1 : 0)) / 16;  // mma steps over its columns
constexpr int kPacked = kToEdges + 192 * 16 * kToEdgesSteps;

// Biases and norms of a seed, in floats: of the edge update, of which phase 1 keeps the first two in shared memory, and of the nodes.
constexpr int kNorm1Weight = 0, kNorm2Weight = 192, kEdgeVectors = 384, kNorm1Bias = 384;
constexpr int kNodeNorm1Weight = kUpdatesEdges ? 576 : 0, kNodeNorm2Weight = kNodeNorm1Weight + 192, kVectors = kNodeNorm2Weight + 192;

// Sums over one graph, at all steps, in floats: SUMS of parameters.py, those of an edge update and those of the nodes.
constexpr int kSumOwn = 0, kSumReverse = 3072, kSumMessageOut = 6144, kSumFeedOut = 9216, kSumFeedIn = 10752, kSumRows = 12288, kSumEdgeNorm1Bias = 13248;
constexpr int kSumNodeNorm2 = kUpdatesEdges ? 13440 : 0 /* weight, bias, then the bias of F2 */, kSumNodeNorm1 = kSumNodeNorm2 + 576 /* likewise, of Wo */;
constexpr int kSumQkvBias = kSumNodeNorm1 + 576, kSumNodeInBias = kSumQkvBias + 576;
constexpr int kSumSenderBias = 15200, kSumFeedInBias = 15216, kPartial = kUpdatesEdges ? 15232 : kSumNodeInBias + 32;

template <int N>
struct Sizes {
    static constexpr int kEdges = N * N, kTiles = (kEdges + 15) / 16, kRows = 16 * kTiles, kNodeTiles = (N + 15) / 16;
    static constexpr int kChunks = (kTiles + kWarps - 1) / kWarps;
    // Byte offsets into shared memory.
    static constexpr int kHidden = kMaxSharedBytes - (kUpdatesEdges ? kRows * kHidden1 * 2 : 0);  // X, at the end: phase 6 still reads it
    static constexpr int kSmall = kRows * kRow * 2, kStage = kSmall + N * 32 * 4;
    static constexpr int kBesideBytes = kWarps * 16 * kHidden2 * 2;     // h2 or dh2 of a chunk
    static constexpr int kBuffers = kStage + 2 * kStageBytes + 2 * kBesideBytes + 4 * kEdgeVectors <= kHidden ? 2 : 1;
    static constexpr int kBeside = kStage + kBuffers * kStageBytes;     // phase 1: h2, then dh2
    static constexpr int kVectorsAt = kBeside + 2 * kBesideBytes;
    static constexpr int kPitch = kChannels + 4;                        // of the float32 node matrices, phase 2
    static constexpr int kNodeMatrix = N * kPitch * 4, kNodeHiddenAt = kStage + 3 * kNodeMatrix, kNodeRows = kNodeHiddenAt + N * 40 * 2;
    static constexpr int kLiftedPitch = kHeads * kRow + 16;                   // phases 3 and 4: u of so many nodes at a time, [kLiftedNodes][12][kRow]
    static constexpr int kRest = kHeads * kRows * 2 + N * kRow * 2;
    static constexpr int kLiftedNodes = kStage + 16 * kLiftedPitch * 2 + kRest <= kHidden ? 16 : 8;
    static constexpr int kScores = kStage + kLiftedNodes * kLiftedPitch * 2;  // a, then ds [12][kRows]
    static constexpr int kValues = kScores + kHeads * kRows * 2;              // v [N][kRow]
    static constexpr int kQueryKeyPitch = 2 * kChannels + 8;                  // phase 5: q, k [N][...] at kStage
    static constexpr int kHalves = kStage + N * kQueryKeyPitch * 2;           // sums of half a head, float32 [4][N][32]
    static constexpr int kSlots = 8, kSlotRow = 16 * kToEdgesSteps + 8, kSlot = 32 * kSlotRow;  // phase 6: rows of dqk and dh1 of 32 edges a slot, at 0
    static constexpr int kSlotsUsed = (kTiles + 1) / 2 < kSlots ? (kTiles + 1) / 2 : kSlots;
    static_assert(kVectorsAt + 4 * kEdgeVectors <= kHidden && kNodeRows + N * kRow * 2 <= kHidden && kValues + N * kRow * 2 <= kHidden
                  && kSlotsUsed * kSlot * 2 <= kHidden, "the graph does not fit into shared memory");
    static_assert(kHalves + 4 * N * 32 * 4 <= kScores, "phase 5 would overwrite ds");
    static constexpr int kShared = kMaxSharedBytes;
};

// Everything is bf16 unless it says otherwise, and contiguous: gradients of nodes and edges and the sums [seeds, graphs, ...], everything else likewise
// but with kept_graphs graphs from one seed to the next, those of one step or of all steps of a trajectory. The grid is (graphs, seeds).
struct Arguments {
    const bf16 *edges, *attention;                                 // the layer's input [N, N, D]; a [H, N, N]
    const bf16 *edge_normals, *edge_hidden;                        // [2, N, N, D], [N, N, kHiddenRow]: see forward.cuh; null without an edge update
    const bf16 *node_qkv, *node_normals, *node_hidden;             // [N, 3D], [N, kNormalRow], [N, 32]
    const bf16 *new_nodes_gradient, *new_edges_gradient;           // [N, D], [N, N, D]; the latter may be null without an edge update: zeros
    const bf16* weights;                                           // [seeds, kPacked]
    const float* vectors;                                          // [seeds, kVectors]
    bf16 *nodes_gradient, *edges_gradient;                         // [N, D], [N, N, D]
    bf16 *qkv_gradient, *query_key_gradient;                       // [N, 3D], [N, N, 2D]
    bf16* message_gradient;                                        // [H, kept_graphs, N, D / H] of a seed
    bf16 *output_gradient, *node_out_gradient;                     // [N, D] each
    bf16 *node_in_gradient, *send_receive_gradient;                // [N, 32] each; the latter null without an edge update
    float* partial;                                                // [kPartial], added up over launches, one a step
    int kept_graphs;
    int first, last;                                               // whether this is the first of those launches, and the last
};

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

// A lane's B fragments of packed weights with `steps` mma steps: those of two steps lie together.
__device__ __forceinline__ void weight_fragments(unsigned (&even)[2], unsigned (&odd)[2], const bf16* packed, int steps, int column_tile, int step, int lane) {
    const uint4 pairs = *(const uint4*)(packed + ((column_tile * steps + step) * 32 + 2 * lane) * 4);
    even[0] = pairs.x, even[1] = pairs.y, odd[0] = pairs.z, odd[1] = pairs.w;
}

// The same, all steps of `tiles` column tiles, loaded here and now.
template <int tiles>
__device__ __forceinline__ void load_fragments(uint4 (&pairs)[tiles][kSteps / 2], const bf16* packed, int lane) {
#pragma unroll
    for (int k = 0; k < tiles * kSteps / 2; ++k) pairs[k / (kSteps / 2)][k % (kSteps / 2)] = load_now_16(packed + (k * 32 + lane) * 8);
}
// Those of weights with half a step, [192, 8], the other half zeros: four column tiles together.
__device__ __forceinline__ void load_half_step(uint4 (&words)[kColumnTiles / 4], const bf16* packed, int lane) {
#pragma unroll
    for (int k = 0; k < kColumnTiles / 4; ++k) words[k] = load_now_16(packed + (k * 32 + lane) * 8);
}
__device__ __forceinline__ void multiply_pairs(float (&d)[4], const unsigned (&a)[4], const uint4& pairs, int which) {
    const unsigned b[2] = {which % 2 ? pairs.z : pairs.x, which % 2 ? pairs.w : pairs.y};
    mma_16x8x16(d, a, b);
}
__device__ __forceinline__ void multiply_half(float (&d)[4], const unsigned (&a)[4], const uint4& words, int which) {
    const unsigned b[2] = {word(words, which % 4), 0};
    mma_16x8x16(d, a, b);
}

// The A fragment of 16 rows x 16 columns at `tile` in shared memory.
__device__ __forceinline__ void row_fragment(unsigned (&a)[4], const bf16* tile, int pitch, int lane) {
    ldmatrix_x4(a, tile + lane % 16 * pitch + lane / 16 * 8);
}

// Where half `half` (8 channels) of row `row` of X lies: rows of 32 bytes, halves swapped in every other group of four rows,
// so that the 8 rows of an ldmatrix meet different banks.
__device__ __forceinline__ int hidden_at(int row, int half) { return row * kHidden1 + ((half ^ (row >> 2)) & 1) * 8; }

// The A fragment X^T: 16 hidden channels x the 16 edges from `row`.
__device__ __forceinline__ void hidden_transposed(unsigned (&a)[4], const bf16* hidden, int row, int lane) {
    ldmatrix_x4_transpose(a, hidden + hidden_at(row + lane / 16 * 8 + lane % 8, lane / 8 % 2));
}

// B fragments of 16 edges (the k) x the warp's 24 columns from a row-major matrix in shared memory.
__device__ __forceinline__ void own_columns(unsigned (&b)[kOwnTiles][2], const bf16* tile, int warp, int lane) {
    const bf16* address = tile + lane % 16 * kRow + warp * kOwnColumns;
    unsigned both[4];
    ldmatrix_x4_transpose(both, address + lane / 16 * 8);
    b[0][0] = both[0], b[0][1] = both[1], b[1][0] = both[2], b[1][1] = both[3];
    ldmatrix_x2_transpose(b[2], address + 16);
}

// Calls use(row, column) for the lane's 16-byte pieces of a tile of 16 rows: constant offsets from its first one, and 128 bytes of a row at a time.
template <class Use>
__device__ __forceinline__ void for_pieces(int lane, Use use) {
#pragma unroll
    for (int k = 0; k < 12; ++k) use(lane / 8 + k / 3 * 4, lane % 8 * 8 + k % 3 * 64);
}

template <int count>
__device__ __forceinline__ void clear(float (&tiles)[count][4]) {
#pragma unroll
    for (int t = 0; t < count; ++t) tiles[t][0] = tiles[t][1] = tiles[t][2] = tiles[t][3] = 0.0f;
}

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

// What node_product may start from.
__device__ __forceinline__ auto residual_of(const bf16* rows) {
    return [=](int row, int column) {
        const unsigned pair = pair_at(rows + row * kChannels + column);
        return make_float2(low_half(pair), high_half(pair));
    };
}
// What the forward kept of a norm of the nodes: normalized rows, the lane's pairs of channels of the warp's rows, and 1 / std.
template <int N>
struct NodeNormals {
    static constexpr int rows = (N + kWarps - 1) / kWarps, count = kChannels / 64;
    unsigned pairs[rows][count];
    float rstd[rows];
    __device__ __forceinline__ NodeNormals(const bf16* kept, int which, int warp, int lane) {
#pragma unroll
        for (int k = 0; k < rows; ++k) {
            const bf16* row = kept + min(warp + k * kWarps, N - 1) * kNormalRow;
#pragma unroll
            for (int c = 0; c < count; ++c) pairs[k][c] = load_now_4(row + which * kChannels + 2 * lane + 64 * c);
            rstd[k] = __uint_as_float(load_now_4(row + 2 * kChannels + 2 * which));
        }
    }
};

// LayerNorm backward of the nodes' rows: from matrix 0 (the gradient of its output) matrix 1 becomes the normalized rows and matrix 2 the gradient of
// its input; the latter also goes to `rows_out` and, for products, `shared_rows`.
template <int N>
__device__ __forceinline__ void node_norm_backward(float* matrix, const NodeNormals<N>& normals, const float* norm_weight, bf16* rows_out, bf16* shared_rows, int warp, int lane) {
    constexpr int pitch = Sizes<N>::kPitch, stride = N * pitch, count = NodeNormals<N>::count;
    float2 weight[count];
#pragma unroll
    for (int c = 0; c < count; ++c) weight[c] = floats_at(norm_weight + 2 * lane + 64 * c);
#pragma unroll
    for (int k = 0; k < NodeNormals<N>::rows; ++k) {
        const int row = warp + k * kWarps;
        if (row >= N) break;
        float* at = matrix + row * pitch + 2 * lane;
        float2 x[count], d[count];
        float mean_d = 0, mean_dx = 0;
#pragma unroll
        for (int c = 0; c < count; ++c) {
            x[c] = make_float2(low_half(normals.pairs[k][c]), high_half(normals.pairs[k][c]));
            *(float2*)(at + stride + 64 * c) = x[c];
            d[c] = floats_at(at + 64 * c);
            d[c].x *= weight[c].x, d[c].y *= weight[c].y;
            mean_d += d[c].x + d[c].y, mean_dx += d[c].x * x[c].x + d[c].y * x[c].y;
        }
        mean_d = warp_sum(mean_d) * kMean, mean_dx = warp_sum(mean_dx) * kMean;
#pragma unroll
        for (int c = 0; c < count; ++c) {
            const float first = normals.rstd[k] * (d[c].x - mean_d - x[c].x * mean_dx), second = normals.rstd[k] * (d[c].y - mean_d - x[c].y * mean_dx);
            *(float2*)(at + 2 * stride + 64 * c) = make_float2(first, second);
            pair_at(rows_out + row * kChannels + 2 * lane + 64 * c) = pair_at(shared_rows + row * kRow + 2 * lane + 64 * c) = pack_bf16(first, second);
        }
    }
}

// The sums over nodes after node_norm_backward: of the norm's weight, its bias, and the bias before the norm.
template <int N>
__device__ __forceinline__ void node_norm_sums(const float* matrix, float* sums) {
    constexpr int pitch = Sizes<N>::kPitch, stride = N * pitch;
    const int column = thread_index();
    if (column >= kChannels) return;
    float weight = 0, bias = 0, before = 0;
    for (int row = 0; row < N; ++row) {
        const float* at = matrix + row * pitch + column;
        weight += at[0] * at[stride], bias += at[0], before += at[2 * stride];
    }
    atomicAdd(sums + column, weight), atomicAdd(sums + kChannels + column, bias), atomicAdd(sums + 2 * kChannels + column, before);
}

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

// All sums begin at 0.
__device__ __forceinline__ void clear_sums(float* partial, int thread) {
    for (int k = thread; k < kPartial / 4; k += kThreads) *(float4*)(partial + 4 * k) = make_float4(0, 0, 0, 0);
}

// A tile of e into shared memory, asynchronously (commit and wait are the caller's); zeros where it reaches beyond the edges.
template <int N>
__device__ __forceinline__ void copy_edges_async(bf16* edges, const bf16* edges_in, int tile, int lane) {
    using S = Sizes<N>;
    for_pieces(lane, [&](int row, int column) {
        const int edge = tile * 16 + row;
        if (S::kRows == S::kEdges || edge < S::kEdges) cp_async_16(edges + edge * kRow + column, edges_in + edge * kChannels + column);
        else *(uint4*)(edges + edge * kRow + column) = make_uint4(0, 0, 0, 0);
    });
}

// ---- Phase 1: the edge update. Leaves e in shared memory (not yet waited for), dh1 in X, dx1 in edges_gradient, and the edge update's sums (but own, reverse) in partial; what is
// left to do for those of Dm and of the first norm's bias: finish_edge_sums. ----
template <int N>
__device__ __forceinline__ void edge_update_backward(unsigned char* shared, const bf16* edges_in, const bf16* edge_normals, const bf16* edge_hidden, const bf16* gradient_in,
                                                     const bf16* weights, const float* vectors, bf16* edges_gradient, float* partial, bool first) {
    using S = Sizes<N>;
    constexpr bool whole = S::kRows == S::kEdges;  // no tile reaches beyond the edges; where one does, its rows are zeros there
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
    bf16 *edges = (bf16*)shared, *hidden = (bf16*)(shared + S::kHidden), *stage = (bf16*)(shared + S::kStage);
    bf16 *hidden2 = (bf16*)(shared + S::kBeside), *hidden2_gradient = hidden2 + S::kBesideBytes / 2;
    float* vector = (float*)(shared + S::kVectorsAt);

    for (int k = thread; k < kEdgeVectors / 4; k += kThreads) cp_async_16(vector + 4 * k, vectors + 4 * k);
    for (int k = thread; k < 2 * S::kRows; k += kThreads) {  // X = h1
        bf16* target = hidden + hidden_at(k / 2, k % 2);
        if (whole || k < 2 * S::kEdges) cp_async_16(target, edge_hidden + k / 2 * kHiddenRow + k % 2 * 8);
        else *(uint4*)target = make_uint4(0, 0, 0, 0);
    }
    cp_async_commit();
    if (first) clear_sums(partial, thread);

    constexpr unsigned kOnes = 0x3F803F80u;
    const int columns = row_offset(lane % 16, warp * kOwnColumns + lane / 16 * 8), last_columns = row_offset(lane % 16, warp * kOwnColumns + 16);
#pragma unroll 1
    for (int chunk = 0; chunk < S::kChunks; ++chunk) {
        const int thread = thread_index(), warp = thread / 32, lane = thread % 32, r = lane / 4, q = lane % 4;
        const int own_tile = chunk * kWarps + warp, tile = S::kTiles % kWarps == 0 ? own_tile : min(own_tile, S::kTiles - 1), count = S::kTiles % kWarps == 0 ? kWarps : min(kWarps, S::kTiles - chunk * kWarps);
        const int row0 = tile * 16 + r, row_in_chunk = warp * 16 + r;
        const bool valid = S::kTiles % kWarps == 0 || own_tile < S::kTiles;  // else the last tile again, and its results are not kept
        int buffer = 0;
        auto staged = [&](int which) { return stage + (which % S::kBuffers) * (kStageBytes / 2); };
        auto own_stage = [&](int which) { return StagedRows(staged(which) + warp * 16 * kChannels, lane); };
        // After the writing of a staged matrix: its columns, added up over the chunk's edges, go to `partial` (every number of which belongs to one
        // lane of one warp). `row` of the plain sums (or -1), the sums of the products with h2 or dh2 (`beside`, to hidden2_at) and with h1 (hidden1_at).
        auto reduce = [&](int row, const bf16* beside, int hidden2_at, int hidden1_at, bool always_sync) {
            __syncthreads();
            const bf16* matrix = staged(buffer++);
            float plain[kOwnTiles][4], with_hidden1[kOwnTiles][4], alone[4] = {0, 0, 0, 0};
            clear(plain), clear(with_hidden1);
#pragma unroll 2
            for (int k = 0; k < count; ++k, matrix += 16 * kChannels) {
                unsigned a[4] = {kOnes, kOnes, kOnes, kOnes}, both[4], b[kOwnTiles][2];
                ldmatrix_x4_transpose(both, matrix + columns);
                ldmatrix_x2_transpose(b[2], matrix + last_columns);
                b[0][0] = both[0], b[0][1] = both[1], b[1][0] = both[2], b[1][1] = both[3];
                if (hidden2_at >= 0) {  // in rows 0 to 7; the others stay ones
                    unsigned rows[2];
                    ldmatrix_x2_transpose(rows, beside + (k * 16 + lane % 16) * kHidden2);
                    a[0] = rows[0], a[2] = rows[1];
                }
                if (row >= 0 || hidden2_at >= 0)
#pragma unroll
                    for (int t = 0; t < kOwnTiles; ++t) mma_16x8x16(plain[t], a, b[t]);
                if (hidden2_at == kSumFeedIn) {
                    const unsigned ones[2] = {kOnes, kOnes};
                    mma_16x8x16(alone, a, ones);
                }
                if (hidden1_at >= 0) {
                    hidden_transposed(a, hidden, (chunk * kWarps + k) * 16, lane);
#pragma unroll
                    for (int t = 0; t < kOwnTiles; ++t) mma_16x8x16(with_hidden1[t], a, b[t]);
                }
            }
            if (S::kBuffers == 1 || always_sync) __syncthreads();
            // No other thread adds here: the order is that of the chunks.
            const int own = thread_index(), own_r = own % 32 / 4, own_q = own % 4;
            float *sums = plain_pointer(partial + own / 32 * kOwnColumns + 2 * own_q), *by_hidden = plain_pointer(sums + own_r * kChannels);
#pragma unroll
            for (int t = 0; t < kOwnTiles; ++t)
#pragma unroll
                for (int k = 0; k < 4; ++k) {
                    const int column = 8 * t + k % 2;
                    if (row >= 0 && k >= 2 && own_r == 0) atomicAdd(sums + kSumRows + row * kChannels + column, plain[t][k]);
                    if (hidden2_at >= 0 && k < 2) atomicAdd(by_hidden + hidden2_at + column, plain[t][k]);
                    if (hidden1_at >= 0) atomicAdd(by_hidden + hidden1_at + k / 2 * 8 * kChannels + column, with_hidden1[t][k]);
                }
            if (hidden2_at == kSumFeedIn && own < 32 && own_q == 0) atomicAdd(partial + kSumFeedInBias + own_r, alone[0]);
        };
        auto load = [&](uint4 (&words)[kBlocks][2], const bf16* rows) {
#pragma unroll
            for (int below = 0; below < 2; ++below)
#pragma unroll
                for (int b = 0; b < kBlocks; ++b) {
                    const bf16* at = rows + (row0 + 8 * below) * kChannels + 32 * b + 8 * q;
                    if (whole) words[b][below] = load_now_16(at);
                    else words[b][below] = make_uint4(0, 0, 0, 0), load_constant_16_if(row0 + 8 * below < S::kEdges, words[b][below], at);
                }
        };
        float x[kColumnTiles][4], rstd1[2], rstd2[2], mean_d[2] = {0, 0}, mean_dx[2] = {0, 0};
        uint4 gradient[kBlocks][2], normal1[kBlocks][2], normal2[kBlocks][2];

        {
            load(gradient, gradient_in);
            load(normal2, edge_normals + S::kEdges * kChannels);
            if (lane < 16) {
                const int edge = tile * 16 + lane;
                uint4 row = make_uint4(0, 0, 0, 0);
                if (whole || edge < S::kEdges) row = load_now_16(edge_hidden + edge * kHiddenRow + kHidden1);
                *(uint4*)(hidden2 + (warp * 16 + lane) * kHidden2) = row;
            }
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                uint2 both = make_uint2(0, 0);
                if (whole || row0 + 8 * below < S::kEdges) both = load_now_8(edge_hidden + (row0 + 8 * below) * kHiddenRow + kHidden1 + kHidden2);
                rstd1[below] = __uint_as_float(both.x), rstd2[below] = __uint_as_float(both.y);
            }
            if (chunk == 0) {  // what was begun before: only now, so that the loads above do not wait for it
                cp_async_wait<0>();
                __syncthreads();
            }
            if (thread == 0) {  // into the L2 cache, in the order of their use; at the start all graphs of the device ask for more than its memory gives
                auto fetch = [&](const bf16* rows, int from) {
                    const int first = from * kWarps * 16;
                    if (first < S::kEdges) prefetch_to_cache(rows + first * kChannels, min(kWarps * 16, S::kEdges - first) * kChannels * 2);
                };
                fetch(edge_normals, chunk), fetch(gradient_in, chunk + 1), fetch(edge_normals + S::kEdges * kChannels, chunk + 1);
            }
            if (valid) copy_edges_async<N>(edges, edges_in, tile, lane);  // e, for later
            cp_async_commit();
            const StagedRows to = own_stage(0);
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                const EightFloats weight(vector + kNorm2Weight, b, q);
                to.at(b, 0) = gradient[b][0], to.at(b, 1) = gradient[b][1];
                for_pairs(b, [&](int, int below, int k) {
                    const unsigned pair = word(gradient[b][below], k), normal = word(normal2[b][below], k);
                    const float first = low_half(pair) * weight.at[2 * k], second = high_half(pair) * weight.at[2 * k + 1];
                    mean_d[below] += first + second;
                    mean_dx[below] += first * low_half(normal) + second * high_half(normal);
                });
            }
            keep_packed(gradient), keep_packed(normal2);
            for (int k = 0; k < 2; ++k) mean_d[k] = quad_sum(mean_d[k]) * -kMean * rstd2[k], mean_dx[k] = quad_sum(mean_dx[k]) * -kMean * rstd2[k];
        }
        reduce(0, nullptr, -1, -1, false);  // de'

        {  // x = dx2
            const StagedRows to = own_stage(buffer);
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                const EightFloats weight(vector + kNorm2Weight, b, q);
                unsigned products[2][4];
                for_pairs(b, [&](int t, int below, int k) {
                    const unsigned pair = word(gradient[b][below], k), normal = word(normal2[b][below], k);
                    const float first = low_half(pair), second = high_half(pair), normal_first = low_half(normal), normal_second = high_half(normal);
                    products[below][k] = pack_bf16(first * normal_first, second * normal_second);
                    x[t][2 * below] = rstd2[below] * weight.at[2 * k] * first + (normal_first * mean_dx[below] + mean_d[below]);
                    x[t][2 * below + 1] = rstd2[below] * weight.at[2 * k + 1] * second + (normal_second * mean_dx[below] + mean_d[below]);
                });
                for (int below = 0; below < 2; ++below)
                    to.at(b, below) = make_uint4(products[below][0], products[below][1], products[below][2], products[below][3]);
            }
        }
        load(normal1, edge_normals);
        uint4 feed_out_transposed[1][kSteps / 2];
        load_fragments(feed_out_transposed, weights + kFeedOutTransposed, lane);
        reduce(1, nullptr, -1, -1, false);  // de' * normal2

        // Stages x as bf16, and in a product with weights [8 tiles, 192] adds to `sums`.
        auto stage_and_multiply = [&](auto& sums, const auto& pairs) {
            const StagedRows to = own_stage(buffer);
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                uint4 rows[2];
                for (int below = 0; below < 2; ++below)
                    to.at(b, below) = rows[below] = make_uint4(pack_bf16(x[4 * b][2 * below], x[4 * b][2 * below + 1]), pack_bf16(x[4 * b + 1][2 * below], x[4 * b + 1][2 * below + 1]),
                                                               pack_bf16(x[4 * b + 2][2 * below], x[4 * b + 2][2 * below + 1]), pack_bf16(x[4 * b + 3][2 * below], x[4 * b + 3][2 * below + 1]));
                const unsigned first[4] = {rows[0].x, rows[1].x, rows[0].y, rows[1].y}, second[4] = {rows[0].z, rows[1].z, rows[0].w, rows[1].w};
#pragma unroll
                for (int tile = 0; tile < (int)(sizeof(sums) / sizeof(sums[0])); ++tile) {
                    multiply_pairs(sums[tile], first, pairs[tile][b], 0);
                    multiply_pairs(sums[tile], second, pairs[tile][b], 1);
                }
                if (sizeof(sums) / sizeof(sums[0]) == 2) {  // dx1
                    for (int below = 0; below < 2; ++below)
                        if (valid && (whole || row0 + 8 * below < S::kEdges)) *(uint4*)(edges_gradient + (row0 + 8 * below) * kChannels + 32 * b + 8 * q) = rows[below];
                }
            }
        };
        {
            float feed[1][4];
            clear(feed);
            stage_and_multiply(feed, feed_out_transposed);
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                const unsigned pair = pair_at(hidden2 + (row_in_chunk + 8 * below) * kHidden2 + 2 * q);
                pair_at(hidden2_gradient + (row_in_chunk + 8 * below) * kHidden2 + 2 * q) =
                    pack_bf16(low_half(pair) > 0 ? feed[0][2 * below] : 0, high_half(pair) > 0 ? feed[0][2 * below + 1] : 0);
            }
        }
        uint4 feed_in_transposed[kColumnTiles / 4];
        load_half_step(feed_in_transposed, weights + kFeedInTransposed, lane);
        reduce(2, hidden2, kSumFeedOut, -1, false);  // dx2, with h2

        {  // x: dx2 -> dy1
            const StagedRows to = own_stage(buffer);
            const unsigned a[4] = {pair_at(hidden2_gradient + row_in_chunk * kHidden2 + 2 * q), pair_at(hidden2_gradient + (row_in_chunk + 8) * kHidden2 + 2 * q), 0, 0};
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                to.at(b, 0) = normal1[b][0], to.at(b, 1) = normal1[b][1];
#pragma unroll
                for (int t = 4 * b; t < 4 * b + 4; ++t) multiply_half(x[t], a, feed_in_transposed[b], t);
            }
        }
        keep_packed(normal1);
        reduce(-1, hidden2_gradient, kSumFeedIn, -1, false);  // normal1, with dh2

        {  // x: dy1 -> dx1
            const StagedRows to = own_stage(buffer);
            float sum_d[2] = {0, 0}, sum_dx[2] = {0, 0};
#pragma unroll
            for (int b = 0; b < kBlocks; ++b) {
                const EightFloats weight(vector + kNorm1Weight, b, q);
                unsigned products[2][4];
                for_pairs(b, [&](int t, int below, int k) {
                    float &first = x[t][2 * below], &second = x[t][2 * below + 1];
                    const unsigned normal = word(normal1[b][below], k);
                    const float normal_first = low_half(normal), normal_second = high_half(normal);
                    products[below][k] = pack_bf16(first * normal_first, second * normal_second);
                    first *= weight.at[2 * k], second *= weight.at[2 * k + 1];
                    sum_d[below] += first + second, sum_dx[below] += first * normal_first + second * normal_second;
                });
                for (int below = 0; below < 2; ++below)
                    to.at(b, below) = make_uint4(products[below][0], products[below][1], products[below][2], products[below][3]);
            }
            keep_packed(normal1);
            // `/ kChannels`, not `* kMean`: the branches of a division end a basic block; in one larger block ptxas (13.0) works ahead until it has to spill.
            for (int k = 0; k < 2; ++k) sum_d[k] = quad_sum(sum_d[k]) / kChannels * -rstd1[k], sum_dx[k] = quad_sum(sum_dx[k]) / kChannels * -rstd1[k];
#pragma unroll
            for (int b = 0; b < kBlocks; ++b)
                for_pairs(b, [&](int t, int below, int k) {
                    const unsigned normal = word(normal1[b][below], k);
                    x[t][2 * below] = rstd1[below] * x[t][2 * below] + (low_half(normal) * sum_dx[below] + sum_d[below]);
                    x[t][2 * below + 1] = rstd1[below] * x[t][2 * below + 1] + (high_half(normal) * sum_dx[below] + sum_d[below]);
                });
        }
        uint4 message_out_transposed[2][kSteps / 2];
        load_fragments(message_out_transposed, weights + kMessageOutTransposed, lane);
        reduce(3, nullptr, -1, -1, false);  // dy1 * normal1

        float first_gradient[2][4];  // dh1
        clear(first_gradient);
        stage_and_multiply(first_gradient, message_out_transposed);
        reduce(4, nullptr, -1, kSumMessageOut, true);  // dx1, with h1

        if (valid)
#pragma unroll
            for (int k = 0; k < 4; ++k) {  // dh1 takes the place of h1
                const int half = k / 2, below = k % 2;
                unsigned& pair = pair_at(hidden + hidden_at(row0 + 8 * below, half) + 2 * q);
                const unsigned before = pair;
                pair = pack_bf16(
                    low_half(before) > 0 ? first_gradient[half][2 * below] : 0, high_half(before) > 0 ? first_gradient[half][2 * below + 1] : 0);
            }
    }
}

// Two sums of the edge update that follow from others, made when those are complete: dDm = dh2^T y1 from dh2^T normal1, and that of the first norm's bias, the
// sum of dy1 = dx2 + Dm^T dh2. A thread takes a column.
__device__ __forceinline__ void finish_edge_sums(const bf16* weights, const float* vectors, float* partial) {
    const int column = thread_index();
    if (column >= kChannels) return;
    float sums[kHidden2], bias[kHidden2], sum = partial[kSumRows + 2 * kChannels + column];
    const float norm_weight = vectors[kNorm1Weight + column], norm_bias = vectors[kNorm1Bias + column];
#pragma unroll
    for (int m = 0; m < kHidden2; ++m) sums[m] = partial[kSumFeedIn + m * kChannels + column], bias[m] = partial[kSumFeedInBias + m];
#pragma unroll
    for (int m = 0; m < kHidden2; ++m) {
        partial[kSumFeedIn + m * kChannels + column] = sums[m] * norm_weight + bias[m] * norm_bias;
        sum += bias[m] * as_float(weights[kFeedIn + m * kChannels + column]);
    }
    partial[kSumEdgeNorm1Bias + column] = sum;
}

// ---- Phase 2, edges: the weight gradients of A and B, and the gradients of send and receive (bf16, [N][40] in `small`). ----
template <int N>
__device__ __forceinline__ void reverse_edges_backward(unsigned char* shared, bf16* send_receive_gradient, float* partial) {
    using S = Sizes<N>;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32, r = lane / 4, q = lane % 4;
    const bf16 *edges = (const bf16*)shared, *hidden = (const bf16*)(shared + S::kHidden);
    bf16 *turned = (bf16*)(shared + S::kStage), *small = (bf16*)(shared + S::kSmall);
    for (int k = thread; k < 2 * S::kRows; k += kThreads) {  // dh1 of the reverse edge, in the same layout
        const int edge = k / 2, half = k % 2;
        *(uint4*)(turned + hidden_at(edge, half)) =
            edge < S::kEdges ? *(const uint4*)(hidden + hidden_at(edge % N * N + edge / N, half)) : make_uint4(0, 0, 0, 0);
    }
    for (int k = thread; k < N * 32; k += kThreads) {
        const int node = k / 32, channel = k % 16, first = k % 32 < 16 ? node : node * N, stride = k % 32 < 16 ? N : 1;
        float sum = 0;
        for (int other = 0; other < N; ++other) sum += as_float(hidden[hidden_at(first + other * stride, channel / 8) + channel % 8]);
        send_receive_gradient[k] = small[node * 40 + k % 32] = as_bf16(sum);
    }
    __syncthreads();
    if (thread < kHidden1) {
        float sum = 0;
        for (int node = 0; node < N; ++node) sum += as_float(small[node * 40 + thread]);
        atomicAdd(partial + kSumSenderBias + thread, sum);
    }
    float own[kOwnTiles][4], reverse[kOwnTiles][4];
    clear(own), clear(reverse);
#pragma unroll 4
    for (int tile = 0; tile < S::kTiles; ++tile) {
        unsigned a[4], b[kOwnTiles][2];
        own_columns(b, edges + tile * 16 * kRow, warp, lane);
        hidden_transposed(a, hidden, tile * 16, lane);
#pragma unroll
        for (int t = 0; t < kOwnTiles; ++t) mma_16x8x16(own[t], a, b[t]);
        hidden_transposed(a, turned, tile * 16, lane);
#pragma unroll
        for (int t = 0; t < kOwnTiles; ++t) mma_16x8x16(reverse[t], a, b[t]);
    }
#pragma unroll
    for (int t = 0; t < kOwnTiles; ++t)
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const int at = (r + k / 2 * 8) * kChannels + warp * kOwnColumns + 8 * t + 2 * q + k % 2;
            atomicAdd(partial + kSumOwn + at, own[t][k]);
            atomicAdd(partial + kSumReverse + at, reverse[t][k]);
        }
}

// ---- Phase 2, nodes: from the gradient of n2 to that of the message. `small` holds the gradients of send and receive. Without an edge update there are none, and e comes
// into shared memory meanwhile (not yet waited for). ----
template <int N>
__device__ __forceinline__ void nodes_backward(unsigned char* shared, const bf16* edges_in, const bf16* node_normals, const bf16* node_hidden, const bf16* gradient_in, const bf16* weights,
                                               const float* vectors, bf16* node_out_gradient, bf16* node_in_gradient, bf16* output_gradient,
                                               const MessageGradient& message_gradient, float* partial) {
    using S = Sizes<N>;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
    const bf16* small = (const bf16*)(shared + S::kSmall);
    float *gradient = (float*)(shared + S::kStage), *result = gradient + 2 * N * S::kPitch;
    bf16 *hidden = (bf16*)(shared + S::kNodeHiddenAt), *hidden_gradient = (bf16*)(shared + S::kSmall), *rows = (bf16*)(shared + S::kNodeRows);
    auto store = [&](float* matrix) {
        return [=](int row, int column, float first, float second) { *(float2*)(matrix + row * S::kPitch + column) = make_float2(first, second); };
    };
    auto zero = [](int, int) { return make_float2(0.0f, 0.0f); };
    const NodeNormals<N> second_normals(node_normals, 1, warp, lane), first_normals(node_normals, 0, warp, lane);  // all of this early: its latency is hidden here
    if (thread < 4 * N) cp_async_16(hidden + thread / 4 * 40 + thread % 4 * 8, node_hidden + 8 * thread);
    cp_async_commit();
    NodeProduct<N, 1, kSteps, false> node_out_transposed(weights + kNodeOutTransposed, warp % 4, lane);
    NodeProduct<N, kOwnTiles, 2, false> node_in_transposed(weights + kNodeInTransposed, warp * kOwnTiles, lane);
    if constexpr (kUpdatesEdges) {
        node_product<N, kOwnTiles, 2, false>(small, 40, weights + kSendReceiveTransposed, kColumnTiles, warp, lane, residual_of(gradient_in), store(gradient));
        cp_async_wait<0>();
    } else {
        for (int k = thread; k < N * kChannels / 2; k += kThreads) {
            const int row = k / (kChannels / 2), column = k % (kChannels / 2) * 2;
            *(float2*)(gradient + row * S::kPitch + column) = residual_of(gradient_in)(row, column);
        }
        for (int tile = warp; tile < S::kTiles; tile += kWarps) copy_edges_async<N>((bf16*)shared, edges_in, tile, lane);
        cp_async_commit();
        cp_async_wait<1>();  // the hidden layer, not e
    }
    __syncthreads();
    node_norm_backward<N>(gradient, second_normals, vectors + kNodeNorm2Weight, node_out_gradient, rows, warp, lane);
    __syncthreads();
    node_norm_sums<N>(gradient, partial + kSumNodeNorm2);
    if (warp < 4) {
        node_out_transposed.begin(zero);
        node_out_transposed.multiply(rows, kRow);
        node_out_transposed.finish([&](int row, int column, float first, float second) {
            const unsigned pair = pair_at(hidden + row * 40 + column);
            pair_at(node_in_gradient + row * 32 + column) = pair_at(hidden_gradient + row * 40 + column) =
                pack_bf16(low_half(pair) > 0 ? first : 0, high_half(pair) > 0 ? second : 0);
        });
    }
    __syncthreads();
    if (thread < kNodeHidden) {
        float sum = 0;
        for (int row = 0; row < N; ++row) sum += as_float(hidden_gradient[row * 40 + thread]);
        atomicAdd(partial + kSumNodeInBias + thread, sum);
    }
    node_in_transposed.begin([&](int row, int column) { return floats_at(result + row * S::kPitch + column); });
    node_in_transposed.multiply(hidden_gradient, 40);
    node_in_transposed.finish(store(gradient));
    __syncthreads();
    NodeProduct<N, kOwnTiles, kSteps, false> output_transposed(weights + kOutputTransposed, warp * kOwnTiles, lane);
    node_norm_backward<N>(gradient, first_normals, vectors + kNodeNorm1Weight, output_gradient, rows, warp, lane);
    __syncthreads();
    node_norm_sums<N>(gradient, partial + kSumNodeNorm1);
    output_transposed.begin(zero);
    output_transposed.multiply(rows, kRow);
    output_transposed.finish([&](int row, int column, float first, float second) {
        pair_at(message_gradient.at(column / kHeadSize, row) + column % kHeadSize) = pack_bf16(first, second);
    });
}

// ---- Phase 3: a and v into shared memory; dv_j = sum_i a_ij dmessage_i into qkv_gradient. ----
template <int N>
__device__ __forceinline__ void values_backward(unsigned char* shared, const bf16* node_qkv, const bf16* attention,
                                                const MessageGradient& message_gradient, bf16* qkv_gradient) {
    using S = Sizes<N>;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32, r = lane / 4, q = lane % 4;
    bf16 *values = (bf16*)(shared + S::kValues), *scores = (bf16*)(shared + S::kScores), *messages = (bf16*)(shared + S::kStage);
    for (int k = thread; k < N * kColumnTiles; k += kThreads) {
        const int row = k / kColumnTiles, column = k % kColumnTiles * 8;
        cp_async_16(messages + row * kRow + column, message_gradient.at(column / kHeadSize, row) + column % kHeadSize);
        cp_async_16(values + row * kRow + column, node_qkv + row * 3 * kChannels + 2 * kChannels + column);
    }
    if (S::kRows == S::kEdges)
        for (int k = thread; k < kHeads * S::kRows / 8; k += kThreads) cp_async_16(scores + 8 * k, attention + 8 * k);
    else
        for (int k = thread; k < kHeads * S::kRows; k += kThreads)  // where there is no edge, no weight
            scores[k] = k % S::kRows < S::kEdges ? attention[k / S::kRows * S::kEdges + k % S::kRows] : as_bf16(0.0f);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    auto weight_pair = [&](int head, int i, int j) {
        auto one = [&](int row) { return row < N ? (unsigned)scores[head * S::kRows + row * N + min(j, N - 1)].bits : 0u; };
        return one(i) | one(i + 1) << 16;
    };
    for (int head = warp; head < kHeads; head += kWarps) {  // a's transpose times dmessage
        float sums[S::kNodeTiles][2][4];
#pragma unroll
        for (int m = 0; m < S::kNodeTiles; ++m) clear(sums[m]);
#pragma unroll
        for (int k = 0; k < S::kNodeTiles; ++k) {
            unsigned both[4];
            ldmatrix_x4_transpose(both, messages + min(16 * k + lane % 16, N - 1) * kRow + head * kHeadSize + lane / 16 * 8);
            const unsigned b[2][2] = {{both[0], both[1]}, {both[2], both[3]}};
#pragma unroll
            for (int m = 0; m < S::kNodeTiles; ++m) {
                const int j = 16 * m + r, i = 16 * k + 2 * q;
                const unsigned rows[4] = {weight_pair(head, i, j), weight_pair(head, i, j + 8), weight_pair(head, i + 8, j), weight_pair(head, i + 8, j + 8)};
                mma_16x8x16(sums[m][0], rows, b[0]);
                mma_16x8x16(sums[m][1], rows, b[1]);
            }
        }
#pragma unroll
        for (int m = 0; m < S::kNodeTiles; ++m)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                bf16* at = qkv_gradient + (16 * m + r) * 3 * kChannels + 2 * kChannels + head * kHeadSize + 8 * half + 2 * q;
                if (16 * m + r < N) pair_at(at) = pack_bf16(sums[m][half][0], sums[m][half][1]);
                if (16 * m + r + 8 < N) pair_at(at + 8 * 3 * kChannels) = pack_bf16(sums[m][half][2], sums[m][half][3]);
            }
    }
    __syncthreads();
}

// u_ih = We_v,h^T dmessage_ih of the nodes from `first_node`, into shared memory. Weights are the left operand: 144 tiles of 16 channels (12 of every head), 18 a warp.
template <int N>
__device__ __forceinline__ void lift_messages(unsigned char* shared, int first_node, const MessageGradient& message_gradient, const bf16* weights) {
    using S = Sizes<N>;
    constexpr int count = kHeads * kSteps / kWarps, tiles = S::kLiftedNodes / 8;
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32, r = lane / 4, q = lane % 4;
    const bf16* left = weights + kEdgeValueTransposed + (warp * count * 32 + lane) * 8;
    const int head = warp * count / kSteps, first_tile = warp * count % kSteps;  // the warp's tiles belong to two heads
    uint4 words[count];
    uint2 messages[tiles][2];
#pragma unroll
    for (int k = 0; k < count; ++k) words[k] = load_now_16(left + k * 32 * 8);
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
        for (int k = 0; k < 2; ++k)
            messages[n][k] = load_now_8(message_gradient.at(head + k, min(first_node + 8 * n + r, N - 1)) + 4 * q);
    bf16* lifted = (bf16*)(shared + S::kStage) + r * S::kLiftedPitch + head * kRow + 4 * q;
#pragma unroll
    for (int k = 0; k < count; ++k) {
        const bool second = first_tile + k >= kSteps;
        const unsigned a[4] = {words[k].x, words[k].y, words[k].z, words[k].w};
        bf16* at = lifted + (second ? kRow - kSteps * 16 : 0) + (first_tile + k) * 16;
#pragma unroll
        for (int n = 0; n < tiles; ++n) {
            const unsigned b[2] = {second ? messages[n][1].x : messages[n][0].x, second ? messages[n][1].y : messages[n][0].y};
            float sums[4] = {0, 0, 0, 0};
            mma_16x8x16(sums, a, b);
            *(uint2*)(at + 8 * n * S::kLiftedPitch) =
                make_uint2(movmatrix_transpose(pack_bf16(sums[0], sums[1])), movmatrix_transpose(pack_bf16(sums[2], sums[3])));
        }
    }
}

// ---- Phase 4, row i of the edges by one warp: g = e u + v dmessage, ds / sqrt(16) in place of a, edges_gradient = what was before (null: zeros, without an edge update) + a u. The channels of u are reordered, so that the
// accumulators of four column tiles are eight neighbouring channels of edges_gradient, 16 bytes; e as the left operand of the first product then comes 16 bytes at a time, too. ----
template <int N>
__device__ __forceinline__ void row_backward(unsigned char* shared, int i, const bf16* own_lifted, const MessageGradient& message_gradient, const bf16* gradient_before, bf16* edges_gradient) {
    using S = Sizes<N>;
    const int lane = thread_index() % 32, r = lane / 4, q = lane % 4;
    const bf16 *edges = (const bf16*)shared, *values = (const bf16*)(shared + S::kValues);
    bf16* scores = (bf16*)(shared + S::kScores);
    unsigned message[2][2];
    uint4 before[S::kNodeTiles][kBlocks][2];  // under way while g is made
#pragma unroll
    for (int k = 0; k < 4; ++k)  // of heads r and 8 + r
        message[k / 2][k % 2] = load_now_4(message_gradient.at(min(k / 2 * 8 + r, kHeads - 1), i) + k % 2 * 8 + 2 * q);
    auto edge_of = [&](int m, int below) { return i * N + min(16 * m + r + 8 * below, N - 1); };
    auto row_at = [&](auto* rows, int m, int below) { return rows + edge_of(m, below) * kChannels + 8 * q; };
#pragma unroll
    for (int m = 0; m < S::kNodeTiles; ++m) {
        const bf16 *above = row_at(gradient_before, m, 0), *below = row_at(gradient_before, m, 1);
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            if constexpr (kUpdatesEdges) {
                before[m][b][0] = load_now_16(above + 32 * b), before[m][b][1] = load_now_16(below + 32 * b);
            } else {
                before[m][b][0] = before[m][b][1] = make_uint4(0, 0, 0, 0);
                load_constant_16_if(gradient_before, before[m][b][0], above + 32 * b), load_constant_16_if(gradient_before, before[m][b][1], below + 32 * b);
            }
        }
    }
    // g [j, head]: row tiles of nodes j, two column tiles of heads (12 to 15 do not exist: their columns are ignored).
    float g[S::kNodeTiles][2][4], a[S::kNodeTiles][2][4], total[2][2] = {{0, 0}, {0, 0}};
#pragma unroll
    for (int k = 0; k < 8 * S::kNodeTiles; ++k) {
        const int m = k / 8, half = k / 4 % 2, node = 16 * m + r + k / 2 % 2 * 8, head = 8 * half + 2 * q + k % 2;
        a[m][half][k % 4] = node < N && head < kHeads ? as_float(scores[head * S::kRows + i * N + node]) : 0.0f;
    }
#pragma unroll
    for (int m = 0; m < S::kNodeTiles; ++m) {
        float through_values[2][4];  // a chain of its own
        clear(g[m]), clear(through_values);
        const int j = min(16 * m + lane % 16, N - 1);
        uint4 above, below;  // of two rows, eight channels of a block
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
            unsigned columns[4], rows[4];
            if (step % 2 == 0) above = *(const uint4*)(edges + edge_of(m, 0) * kRow + step * 16 + 8 * q), below = *(const uint4*)(edges + edge_of(m, 1) * kRow + step * 16 + 8 * q);
            const unsigned edge_rows[4] = {step % 2 ? above.z : above.x, step % 2 ? below.z : below.x, step % 2 ? above.w : above.y, step % 2 ? below.w : below.y};
            ldmatrix_x4(columns, own_lifted + min(lane / 16 * 8 + lane % 8, kHeads - 1) * kRow + step * 16 + lane / 8 % 2 * 8);
            const unsigned low[2] = {columns[0], columns[1]}, high[2] = {columns[2], columns[3]};
            mma_16x8x16(g[m][0], edge_rows, low);
            mma_16x8x16(g[m][1], edge_rows, high);
            // v_j . dmessage_i: this step's 16 channels are head `step`, so only its column is not zero.
            ldmatrix_x4(rows, values + j * kRow + step * 16 + lane / 16 * 8);
            const bool mine = r == step % 8;
            const unsigned one[2] = {mine ? message[step / 8][0] : 0u, mine ? message[step / 8][1] : 0u};
            mma_16x8x16(through_values[step / 8], rows, one);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                g[m][half][k] += through_values[half][k];
                total[half][k % 2] += a[m][half][k] * g[m][half][k];
            }
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) total[k / 2][k % 2] = column_sum(total[k / 2][k % 2]);
#pragma unroll
    for (int m = 0; m < S::kNodeTiles; ++m) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int node = 16 * m + r + k / 2 * 8, head = 8 * half + 2 * q + k % 2;
                if (node < N && head < kHeads)
                    scores[head * S::kRows + i * N + node] = as_bf16(0.25f * a[m][half][k] * (g[m][half][k] - total[half][k % 2]));
            }
        const unsigned by_head[4] = {pack_bf16(a[m][0][0], a[m][0][1]), pack_bf16(a[m][0][2], a[m][0][3]),
                                     pack_bf16(a[m][1][0], a[m][1][1]), pack_bf16(a[m][1][2], a[m][1][3])};
        bf16* rows[2] = {row_at(edges_gradient, m, 0), row_at(edges_gradient, m, 1)};
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            unsigned after[2][4];
#pragma unroll
            for (int k = 0; k < 4; k += 2) {
                unsigned both[4];
                ldmatrix_x4_transpose(both, own_lifted + min(lane % 16, kHeads - 1) * kRow + 32 * b + 8 * k + lane / 16 * 8);
#pragma unroll
                for (int t = k; t < k + 2; ++t) {
                    const unsigned columns[2] = {both[t % 2 * 2], both[t % 2 * 2 + 1]}, above = word(before[m][b][0], t), below = word(before[m][b][1], t);
                    float sums[4] = {low_half(above), high_half(above), low_half(below), high_half(below)};
                    mma_16x8x16(sums, by_head, columns);
                    after[0][t] = pack_bf16(sums[0], sums[1]), after[1][t] = pack_bf16(sums[2], sums[3]);
                }
            }
            for (int below = 0; below < 2; ++below)
                if (16 * m + r + 8 * below < N) *(uint4*)(rows[below] + 32 * b) = make_uint4(after[below][0], after[below][1], after[below][2], after[below][3]);
        }
    }
}

template <int N>
__device__ __forceinline__ void scores_backward(unsigned char* shared, const MessageGradient& message_gradient, const bf16* weights, const bf16* gradient_before, bf16* edges_gradient) {
    using S = Sizes<N>;
    const int warp = thread_index() / 32;
#pragma unroll 1
    for (int first = 0; first < N; first += S::kLiftedNodes) {
        if (first) __syncthreads();
        lift_messages<N>(shared, first, message_gradient, weights);
        __syncthreads();
#pragma unroll 1
        for (int k = warp; k < min(S::kLiftedNodes, N - first); k += kWarps)
            row_backward<N>(shared, first + k, (const bf16*)(shared + S::kStage) + k * S::kLiftedPitch, message_gradient, gradient_before, edges_gradient);
    }
}

// ---- Phase 5: gradients of one head's queries and keys of the edges, in the tiles first_tile, first_tile + tile_step, ...; and the sums over them of
// every node: dq, dk. Packed rows of a head's weights are in the order that gives a lane channels 4 q ... 4 q + 3: 2 q, 2 q + 1 of its first
// column tile hold channels 4 q, 4 q + 1, those of the second 4 q + 2, 4 q + 3. ----
template <int N>
struct NodeSums {
    float query[Sizes<N>::kNodeTiles][2][4], key[Sizes<N>::kNodeTiles][2][4];
};

// `together` edge tiles at once, so that the products of one hide the latency of another's.
template <int N, int together>
__device__ __forceinline__ void query_key_tiles(unsigned char* shared, int head, int tile, int tile_step, const unsigned (&fragments)[4][kSteps][2],
                                                bf16* query_key_gradient, NodeSums<N>& nodes) {
    using S = Sizes<N>;
    constexpr bool whole = S::kRows == S::kEdges;  // no tile reaches beyond the edges
    const int lane = thread_index() % 32, r = lane / 4, q = lane % 4;
    const bf16* edges = (const bf16*)shared;
    const bf16* query_key = (const bf16*)(shared + S::kStage) + head * kHeadSize + 4 * q;
    const bf16* scores = (const bf16*)(shared + S::kScores) + head * S::kRows + r;
    float sums[together][4][4], ds[together][2];  // q_i + qe_ij, then k_j + ke_ij
#pragma unroll
    for (int n = 0; n < together; ++n)
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            const int row = (tile + n * tile_step) * 16 + r + 8 * below, edge = whole ? row : min(row, S::kEdges - 1);
            ds[n][below] = as_float(scores[(tile + n * tile_step) * 16 + 8 * below]);
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                const uint2 pairs = *(const uint2*)(query_key + (part ? edge % N : edge / N) * S::kQueryKeyPitch + part * kChannels);
                sums[n][2 * part][2 * below] = low_half(pairs.x), sums[n][2 * part][2 * below + 1] = high_half(pairs.x);
                sums[n][2 * part + 1][2 * below] = low_half(pairs.y), sums[n][2 * part + 1][2 * below + 1] = high_half(pairs.y);
            }
        }
    const bf16* rows = edges + (tile * 16 + lane % 16) * kRow + lane / 16 * 8;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        unsigned a[together][4];
#pragma unroll
        for (int n = 0; n < together; ++n) ldmatrix_x4(a[n], rows + n * tile_step * 16 * kRow + step * 16);
#pragma unroll
        for (int t = 0; t < 4; ++t)
#pragma unroll
            for (int n = 0; n < together; ++n) mma_16x8x16(sums[n][t], a[n], fragments[t][step]);
    }
#pragma unroll
    for (int n = 0; n < together; ++n) {
        const int first = (tile + n * tile_step) * 16;
        unsigned query[2][2], key[2][2];  // their gradients by column tile and row; then turned: B fragments whose k are the edges
#pragma unroll
        for (int below = 0; below < 2; ++below) {
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                const float *by_query = sums[n][2 + t] + 2 * below, *by_key = sums[n][t] + 2 * below;
                query[t][below] = pack_bf16(ds[n][below] * by_query[0], ds[n][below] * by_query[1]);
                key[t][below] = pack_bf16(ds[n][below] * by_key[0], ds[n][below] * by_key[1]);
                if (N == 16) {  // the tile is a row of the graph: its edges end at nodes 0, 1, ...
                    float* sum = nodes.key[0][t] + 2 * below;
                    sum[0] += ds[n][below] * by_key[0], sum[1] += ds[n][below] * by_key[1];
                }
            }
            const int edge = first + r + 8 * below;
            if (whole || edge < S::kEdges) {
                bf16* at = query_key_gradient + edge * 2 * kChannels + head * kHeadSize + 4 * q;
                *(uint2*)at = make_uint2(query[0][below], query[1][below]);
                *(uint2*)(at + kChannels) = make_uint2(key[0][below], key[1][below]);
            }
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            query[k / 2][k % 2] = movmatrix_transpose(query[k / 2][k % 2]);
            if (N != 16) key[k / 2][k % 2] = movmatrix_transpose(key[k / 2][k % 2]);
        }
        // One-hot rows: node m takes the edges it starts (queries) or ends (keys).
        const int first_edge = first + 2 * q;
#pragma unroll
        for (int m = 0; m < S::kNodeTiles; ++m) {
            unsigned starts[4], ends[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const int node = 16 * m + r + k % 2 * 8, e0 = first_edge + k / 2 * 8, e1 = e0 + 1;
                starts[k] = N == 16 ? (first / 16 == node ? 0x3F803F80u : 0u) : (e0 / N == node ? 0x3F80u : 0u) | (e1 / N == node ? 0x3F800000u : 0u);
                ends[k] = (e0 % N == node ? 0x3F80u : 0u) | (e1 % N == node ? 0x3F800000u : 0u);
            }
            const bool touched = N == 16 || (first / N < 16 * m + 16 && (first + 15) / N >= 16 * m);
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                if (touched) mma_16x8x16(nodes.query[m][t], starts, query[t]);
                if (N != 16) mma_16x8x16(nodes.key[m][t], ends, key[t]);
            }
        }
    }
}

template <int N>
__device__ __forceinline__ void queries_keys_backward(unsigned char* shared, int head, int first_tile, int tile_step, const bf16* weights,
                                                      bf16* query_key_gradient, NodeSums<N>& nodes) {
    using S = Sizes<N>;
    const int lane = thread_index() % 32;
    unsigned fragments[4][kSteps][2];  // two column tiles of the queries, two of the keys
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
        for (int step = 0; step < kSteps; step += 2)
            weight_fragments(fragments[t][step], fragments[t][step + 1], weights + kEdgeQueryKey, kSteps, t / 2 * kColumnTiles + 2 * head + t % 2, step, lane);
#pragma unroll
    for (int m = 0; m < S::kNodeTiles; ++m) clear(nodes.query[m]), clear(nodes.key[m]);
    int tile = first_tile;
#pragma unroll 1
    for (; tile + tile_step < S::kTiles; tile += 2 * tile_step) query_key_tiles<N, 2>(shared, head, tile, tile_step, fragments, query_key_gradient, nodes);
    if (S::kTiles % 4 != 0 && tile < S::kTiles) query_key_tiles<N, 1>(shared, head, tile, tile_step, fragments, query_key_gradient, nodes);
}

// Calls use(node, channel of the head, the lane's value) for every sum of the lane.
template <int N, class Use>
__device__ __forceinline__ void for_node_sums(NodeSums<N>& nodes, int lane, Use use) {
#pragma unroll
    for (int m = 0; m < Sizes<N>::kNodeTiles; ++m)
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                const int node = 16 * m + lane / 4 + 8 * below, channel = 4 * (lane % 4) + 2 * t;
                if (node < N) {
                    use(node, channel, nodes.query[m][t][2 * below], nodes.query[m][t][2 * below + 1]);
                    use(node, kChannels + channel, nodes.key[m][t][2 * below], nodes.key[m][t][2 * below + 1]);
                }
            }
}

// All heads: warp w takes head w, then every other tile of head 8 + w / 2.
template <int N>
__device__ __forceinline__ void all_queries_keys_backward(unsigned char* shared, const bf16* weights, bf16* query_key_gradient, bf16* qkv_gradient) {
    using S = Sizes<N>;
    static_assert(kHeads == kWarps + kWarps / 2, "heads by warps");
    const int thread = thread_index(), warp = thread / 32, lane = thread % 32;
    NodeSums<N> nodes;
    auto store = [&](int head) {
        for_node_sums(nodes, lane, [&](int node, int channel, float first, float second) {
            pair_at(qkv_gradient + node * 3 * kChannels + head * kHeadSize + channel) = pack_bf16(first, second);
        });
    };
    queries_keys_backward<N>(shared, warp, 0, 1, weights, query_key_gradient, nodes);
    store(warp);
    const int head = kWarps + warp / 2;
    queries_keys_backward<N>(shared, head, warp % 2, 2, weights, query_key_gradient, nodes);
    float* halves = (float*)(shared + S::kHalves) + warp / 2 * N * 32;  // [N][queries 16, keys 16] of the odd warp
    auto half_at = [&](int node, int channel) { return (float2*)(halves + node * 32 + (channel >= kChannels ? 16 + channel - kChannels : channel)); };
    if (warp % 2)
        for_node_sums(nodes, lane, [&](int node, int channel, float first, float second) { *half_at(node, channel) = make_float2(first, second); });
    __syncthreads();
    if (warp % 2 == 0) {
        for_node_sums(nodes, lane, [&](int node, int channel, float& first, float& second) {
            const float2 other = *half_at(node, channel);
            first += other.x, second += other.y;
        });
        store(head);
    }
}

// ---- Phase 6: edges_gradient += We_qk^T dqk_ij, and + A^T dh1_ij + B^T dh1_ji of an edge update. A warp takes 24 channels of all edges, 32 edges at a time; its weights stay in registers. The rows
// lie in slots of shared memory: dqk comes from global memory, dh1 of both directions from X. Packed rows of the weights are in the order that gives a lane four neighbouring
// channels of its first two column tiles, and two of the third. ----
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
    if (thread < 3 * D / 4) {  // four columns a thread
        float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int row = 0; row < N; ++row) {
            const uint2 pairs = *(const uint2*)(qkv_gradient + row * 3 * D + 4 * thread);
            sum.x += low_half(pairs.x), sum.y += high_half(pairs.x), sum.z += low_half(pairs.y), sum.w += high_half(pairs.y);
        }
        float* sums = all.partial + place.given() * kPartial + kSumQkvBias + 4 * thread;
        atomicAdd(sums, sum.x), atomicAdd(sums + 1, sum.y), atomicAdd(sums + 2, sum.z), atomicAdd(sums + 3, sum.w);
    }
    to_edges.multiply(shared, query_key_gradient, plain_pointer(all.edges_gradient + place.given() * edge_size));
}

}  // namespace backward

#ifdef NODES
extern "C" __global__ void __launch_bounds__(backward::kThreads, 1) layer_backward(const backward::Arguments arguments) { backward::run<NODES>(arguments); }
#endif
