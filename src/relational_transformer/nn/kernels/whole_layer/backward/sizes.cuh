// Sizes of the backward kernel, how its weights and sums are packed, what lies where in shared memory, and its arguments.
#pragma once
#include "../tile.cuh"

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

// Packed weights of a seed, in bf16 elements: [out / 8][in / 16][lane][4], `pack_backward` in packing.py. In brackets: [out, in].
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

}  // namespace backward
