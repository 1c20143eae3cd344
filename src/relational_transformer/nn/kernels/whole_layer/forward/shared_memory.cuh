// What lies where in the shared memory of the forward kernel.
#pragma once
#include "packed_weights.cuh"

// Queries, keys and values are kept by channel, the nodes side by side: [D, kNodeStride] (24: no bank conflicts for 8
// channels x 4 pairs of nodes). Senders and receivers likewise: [M1, stride].
constexpr int kNodeStride = 24, kReceiverStride = 20;
static_assert(kNodes <= 20, "rows of nodes");
// Scores are float [H, N, kScoreStride] and a little between heads, where the weights take their place as bf16 with
// zeros up to 16 kNodeTiles: no bank conflicts for 8 rows (of one head, or of one node) x 4 pairs of neighbours.
constexpr int kScoreStride = 20, kHeadScores = (kNodes * kScoreStride + 31) / 32 * 32 + 4;
struct ForwardShared {
    // Each offset is in bytes, a multiple of 16.
    static constexpr int edges = 0;                                                  // bf16 [tiles * 16, D] swizzled
    static constexpr int query = edges + kEdgeTiles * 16 * kChannels * 2;              // bf16 [D, node stride]
    static constexpr int key = query + kChannels * kNodeStride * 2;                  // likewise; later: nodes after the first norm
    static constexpr int value = key + kChannels * kNodeStride * 2;                  // likewise
    static constexpr int scores = value + kChannels * kNodeStride * 2;               // see above; later: hidden
    static constexpr int message_out = scores + kHeads * kHeadScores * 4;            // uint4 [12, 32 lanes]: fragments of two tiles
    static constexpr int feed_forward_out = message_out + 12 * 32 * 16;              // likewise
    static constexpr int nodes = message_out;                                        // before these two: bf16 [N, D] swizzled
    static constexpr int messages = query;                                           // bf16 [N, D] swizzled, in the place of what nobody reads any more
    static constexpr int new_nodes = value;                                          // likewise
    static constexpr int vectors = feed_forward_out + 12 * 32 * 16;                  // float [PackedVectors]
    static constexpr int partials = vectors + PackedVectors::size * 4;               // float2 [node tiles * 16, warps]
    static constexpr int hidden = partials + kNodeTiles * 16 * kWarps * 8;           // bf16 [N, FH + 8]
    static constexpr int senders = hidden + (kNodes * (kNodeHidden + 8) * 2 + 15) / 16 * 16;  // float [M1, node stride]
    static constexpr int receivers = senders + kMessageHidden * kNodeStride * 4;     // float [M1, receiver stride]
    static constexpr int bytes = receivers + kMessageHidden * kReceiverStride * 4;
};
static_assert(ForwardShared::bytes <= 227 * 1024, "the graph does not fit into shared memory");
static_assert(ForwardShared::scores % 16 == 0 && ForwardShared::message_out % 16 == 0 && ForwardShared::partials % 16 == 0 &&
              ForwardShared::senders % 16 == 0 && PackedMatrices::size % 8 == 0 && PackedVectors::size % 4 == 0, "alignment");
static_assert(kNodes * kChannels * 2 <= 2 * 12 * 32 * 16, "the nodes lie where the fragments come");
static_assert(kEdgeTiles * 32 * 16 <= kHeads * kHeadScores * 4 && kNodes * kChannels * 2 <= kHeads * kHeadScores * 4, "what takes the scores' place");

template <class Value> __device__ __forceinline__ Value* shared_at(int offset) { return (Value*)(dynamic_shared_memory() + offset); }
__device__ __forceinline__ const float* shared_vector(int offset) { return shared_at<float>(ForwardShared::vectors) + offset; }
