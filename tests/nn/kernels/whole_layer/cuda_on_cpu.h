// A small emulator of one CUDA thread block on the CPU: the same kernel source compiles with g++ and runs without a GPU.
//
// Every CUDA thread is a fiber (its own stack, switched by hand) of one OS thread. A fiber runs until it meets a
// rendezvous, where it deposits its operands and waits:
//   of the block: __syncthreads(), barrier_sync(id, threads)
//   of the warp:  __syncwarp(), __shfl_*_sync, mma_16x8x16, ldmatrix_x4 and its kin, movmatrix_transpose
// The lane that comes last computes the results of all 32. So programs are deterministic, and the order in which warps
// and lanes run is a choice (`order` of emulator::launch): results that depend on it betray a missing barrier.
//
// What is caught: a deadlock (says who waits for what), lanes of a warp at different collectives, a thread that returns
// while others wait, accesses beyond shared memory (guard pages; before it within a page: a canary), reads of shared
// memory never written (filled with NaN patterns, 0xFF bytes), reads of cp.async targets before their wait (the bytes
// are NaN until then), misaligned ldmatrix and cp.async addresses.
// What is not: bank conflicts, races that no tried order shows, anything about time, and a missing __syncwarp() next to
// another collective: here every collective orders memory within its warp; on the GPU mma and shuffles do not.
//
// x86-64, g++ -O2 -std=c++17 -fno-strict-aliasing. Include it before the kernel; tile.cuh does when __CUDACC__ is absent.
#pragma once
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)

struct uint3_emulated { unsigned x, y, z; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

static uint3_emulated threadIdx, blockIdx, blockDim, gridDim;  // set on every switch of fibers
using std::max;
using std::min;

namespace emulator {

constexpr int kWarp = 32, kMaxThreads = 1024, kBarriers = 16;
constexpr size_t kStackBytes = 256 * 1024, kPage = 4096;

struct Rendezvous { int arrived = 0, expected = 0, generation = 0; };
struct Copy { void* target; const void* source; size_t bytes; };
struct Fiber {
    void* stack_pointer = nullptr;
    bool finished = false;
    const Rendezvous* waits_for = nullptr;  // blocked while its generation is `seen`
    int seen = 0;
    const char* where = "";
    std::vector<std::vector<Copy>> copy_groups;  // committed cp.async groups, oldest first
    std::vector<Copy> open_copies;
};
struct Warp {
    Rendezvous meeting;
    const char* kind = nullptr;  // which collective the lanes are at
    void* deposits[kWarp];
};
struct Block {
    int threads = 0;
    Fiber fibers[kMaxThreads];
    Warp warps[kMaxThreads / kWarp];
    Rendezvous barriers[kBarriers];
    unsigned char* shared = nullptr;
    size_t shared_bytes = 0;
    const std::function<void()>* body = nullptr;
    void* scheduler = nullptr;  // stack pointer of the loop that runs the fibers
    int current = 0;
    bool failed = false;
    long long mma_count = 0;
};
static Block block;
static char error[1024];

// Saves the callee-saved registers and the stack pointer, and continues where `next` was saved.
__attribute__((naked, noinline)) static void switch_stack(void** /*saved*/, void* /*next*/) {
    asm volatile(
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n movq %rsi, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n ret\n");
}

static void to_scheduler() {
    asm volatile("" ::: "memory");
    Fiber& fiber = block.fibers[block.current];
    switch_stack(&fiber.stack_pointer, block.scheduler);
    asm volatile("" ::: "memory");
}

[[noreturn]] static void fail(const char* format, ...) {
    int used = snprintf(error, sizeof error, "block (%u, %u), thread %d: ", blockIdx.x, blockIdx.y, block.current);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error + used, sizeof error - used, format, arguments);
    va_end(arguments);
    block.failed = true;
    to_scheduler();
    __builtin_unreachable();
}

static void fiber_main() {
    (*block.body)();
    block.fibers[block.current].finished = true;
    to_scheduler();
    __builtin_unreachable();
}

// Waits until `expected` threads have come; the last one runs `complete` first and goes straight on.
template <class Complete>
static void meet(Rendezvous& point, int expected, const char* where, Complete complete) {
    if (point.arrived && point.expected != expected) fail("%s: other threads expect %d", where, point.expected);
    point.expected = expected;
    if (++point.arrived == expected) {
        complete();
        point.arrived = 0;
        ++point.generation;
        return;
    }
    Fiber& fiber = block.fibers[block.current];
    fiber.waits_for = &point, fiber.seen = point.generation, fiber.where = where;
    to_scheduler();
}

// A collective of the warp: `complete(lanes)` sees every lane's operands and writes their results.
template <class Operands, class Complete>
static void collective(const char* kind, Operands& mine, Complete complete) {
    Warp& warp = block.warps[block.current / kWarp];
    if (warp.meeting.arrived == 0) warp.kind = kind;
    if (strcmp(warp.kind, kind)) fail("comes to %s while its warp is at %s", kind, warp.kind);
    warp.deposits[block.current % kWarp] = &mine;
    meet(warp.meeting, kWarp, kind, [&] { complete((Operands**)warp.deposits); });
}

// Runs every block of the grid, one after the other. order 0: warps in turn, each up to its next block barrier;
// 1: the same from the last thread to the first; 2 and more: a random (seeded) interleaving. 0 on success, else see error.
static int launch(unsigned grid_x, unsigned grid_y, int threads, size_t shared_bytes, int order,
                  const std::function<void()>& body) {
    error[0] = 0;
    if (threads % kWarp || threads > kMaxThreads) return snprintf(error, sizeof error, "bad thread count"), 1;
    if (shared_bytes > 227 * 1024) return snprintf(error, sizeof error, "%zu shared bytes: too many", shared_bytes), 1;
    const size_t pages = (shared_bytes + kPage - 1) / kPage * kPage;
    auto* area = (unsigned char*)mmap(nullptr, pages + 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(area, kPage, PROT_NONE);
    mprotect(area + kPage + pages, kPage, PROT_NONE);
    std::vector<unsigned char> stacks(threads * kStackBytes + 16);
    std::mt19937 random(order);
    block.threads = threads, block.body = &body, block.shared_bytes = shared_bytes, block.mma_count = 0;
    block.shared = area + kPage + (pages - shared_bytes) / 16 * 16;
    blockDim = {(unsigned)threads, 1, 1}, gridDim = {grid_x, grid_y, 1};
    for (unsigned y = 0; y < grid_y && !error[0]; ++y) {
        for (unsigned x = 0; x < grid_x && !error[0]; ++x) {
            blockIdx = {x, y, 0};
            memset(area + kPage, 0xFF, pages);
            block.failed = false;
            for (auto& warp : block.warps) warp = Warp();
            for (auto& barrier : block.barriers) barrier = Rendezvous();
            for (int t = 0; t < threads; ++t) {
                block.fibers[t] = Fiber();
                auto top = ((uintptr_t)stacks.data() + (t + 1) * kStackBytes) / 16 * 16;
                void** stack = (void**)top - 8;  // six registers, the entry, and a word to align the stack
                memset(stack, 0, 64);
                stack[6] = (void*)fiber_main;
                block.fibers[t].stack_pointer = stack;
            }
            std::vector<int> warps(threads / kWarp);
            for (size_t w = 0; w < warps.size(); ++w) warps[w] = order == 1 ? warps.size() - 1 - w : w;
            for (bool progress = true; progress && !block.failed;) {
                progress = false;
                if (order > 1) std::shuffle(warps.begin(), warps.end(), random);
                for (int warp : warps) {
                    int passes = order > 1 ? 1 + random() % 64 : 1 << 30;  // how far this warp gets before another's turn
                    for (bool ran = true; ran && passes-- && !block.failed;) {
                        ran = false;
                        for (int k = 0; k < kWarp && !block.failed; ++k) {
                            const int lane = order == 1 ? kWarp - 1 - k : order > 1 ? (k * 13 + 7) % kWarp : k;
                            Fiber& fiber = block.fibers[warp * kWarp + lane];
                            if (fiber.finished) continue;
                            if (fiber.waits_for && fiber.waits_for->generation == fiber.seen) continue;
                            fiber.waits_for = nullptr;
                            block.current = warp * kWarp + lane;
                            threadIdx = {(unsigned)block.current, 0, 0};
                            asm volatile("" ::: "memory");
                            switch_stack(&block.scheduler, fiber.stack_pointer);
                            asm volatile("" ::: "memory");
                            ran = progress = true;
                        }
                    }
                }
            }
            if (!block.failed)
                for (int t = 0; t < threads && !error[0]; ++t)
                    if (!block.fibers[t].finished)
                        snprintf(error, sizeof error, "block (%u, %u): deadlock, thread %d waits at %s (%d of %d came)", x, y, t,
                                 block.fibers[t].where, block.fibers[t].waits_for->arrived, block.fibers[t].waits_for->expected);
            for (auto* byte = area + kPage; byte < block.shared; ++byte)
                if (*byte != 0xFF && !error[0]) snprintf(error, sizeof error, "a write before the start of shared memory");
        }
    }
    munmap(area, pages + 2 * kPage);
    return error[0] != 0;
}

inline float to_float(unsigned bits) { float value; memcpy(&value, &bits, 4); return value; }
inline unsigned to_bits(float value) { unsigned bits; memcpy(&bits, &value, 4); return bits; }
inline float half_of(unsigned pair, int high) { return to_float(high ? pair & 0xFFFF0000u : pair << 16); }

}  // namespace emulator

// ---- What CUDA provides ----
inline void __syncthreads() { emulator::meet(emulator::block.barriers[0], emulator::block.threads, "__syncthreads", [] {}); }
// bar.sync: `threads` threads of the block (whole warps) meet at barrier `id` (1 to 15).
inline void barrier_sync(int id, int threads) { emulator::meet(emulator::block.barriers[id], threads, "barrier_sync", [] {}); }
inline void __syncwarp(unsigned = 0xFFFFFFFFu) { int none = 0; emulator::collective("__syncwarp", none, [](int**) {}); }
inline void __threadfence() {}

template <class Value, class Source>
inline Value shuffle_emulated(const char* kind, Value value, Source source) {
    struct Operands { Value value, result; int source; } mine{value, value, source(emulator::block.current % 32)};
    emulator::collective(kind, mine, [](Operands** lanes) {
        for (int lane = 0; lane < 32; ++lane) lanes[lane]->result = lanes[lanes[lane]->source]->value;
    });
    return mine.result;
}
template <class Value> inline Value __shfl_xor_sync(unsigned, Value value, int mask) {
    return shuffle_emulated("__shfl_xor_sync", value, [=](int lane) { return lane ^ mask; });
}
template <class Value> inline Value __shfl_sync(unsigned, Value value, int source) {
    return shuffle_emulated("__shfl_sync", value, [=](int) { return source & 31; });
}
template <class Value> inline Value __shfl_down_sync(unsigned, Value value, int delta) {
    return shuffle_emulated("__shfl_down_sync", value, [=](int lane) { return lane + delta < 32 ? lane + delta : lane; });
}
inline float __uint_as_float(unsigned bits) { return emulator::to_float(bits); }
inline unsigned __float_as_uint(float value) { return emulator::to_bits(value); }
inline float rsqrtf(float value) { return 1.0f / sqrtf(value); }
inline float __expf(float value) { return expf(value); }
inline float __fdividef(float a, float b) { return a / b; }
template <class Value> inline Value __ldg(const Value* address) { return *address; }
inline float atomicAdd(float* address, float value) { float old = *address; *address += value; return old; }
inline unsigned atomicAdd(unsigned* address, unsigned value) { unsigned old = *address; *address += value; return old; }

// ---- What tile.cuh writes as inline PTX on the GPU, under the same names ----
// The block's dynamic shared memory.
inline unsigned char* dynamic_shared_memory() { return emulator::block.shared; }

// Two floats rounded to the nearest bf16 (ties to even), `low` in the lower half. NaN stays NaN.
inline unsigned pack_bf16(float low, float high) {
    auto round = [](float value) -> unsigned {
        unsigned bits = emulator::to_bits(value);
        if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return 0x7FFF;
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
    };
    return round(low) | round(high) << 16;
}

// mma.sync m16n8k16, row.col, bf16 x bf16 + f32: d += A B. Lane: r = lane / 4, q = lane % 4.
// a[0]: row r, k 2q, 2q+1; a[1]: row r+8; a[2], a[3]: the same rows, k + 8. b[0]: column r, k 2q, 2q+1; b[1]: k + 8.
// d[0], d[1]: row r, columns 2q, 2q+1; d[2], d[3]: row r + 8.
inline void mma_16x8x16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    struct Operands { float* d; const unsigned *a, *b; } mine{d, a, b};
    emulator::collective("mma_16x8x16", mine, [](Operands** lanes) {
        ++emulator::block.mma_count;
        float rows[16][16], columns[8][16];
        for (int lane = 0; lane < 32; ++lane) {
            const int r = lane / 4, q = lane % 4;
            for (int part = 0; part < 4; ++part)
                for (int high = 0; high < 2; ++high)
                    rows[r + part % 2 * 8][2 * q + part / 2 * 8 + high] = emulator::half_of(lanes[lane]->a[part], high);
            for (int part = 0; part < 2; ++part)
                for (int high = 0; high < 2; ++high)
                    columns[r][2 * q + part * 8 + high] = emulator::half_of(lanes[lane]->b[part], high);
        }
        for (int lane = 0; lane < 32; ++lane)
            for (int part = 0; part < 4; ++part) {
                const float *row = rows[lane / 4 + part / 2 * 8], *column = columns[2 * (lane % 4) + part % 2];
                float sum = 0;
                for (int k = 0; k < 16; ++k) sum += row[k] * column[k];
                lanes[lane]->d[part] += sum;
            }
    });
}

// ldmatrix: `count` 8 x 8 matrices of bf16; lane 8 m + r gives the address of row r of matrix m; the lane gets of each
// matrix row lane / 4, columns 2 (lane % 4) and the next; transposed: column lane / 4, rows 2 (lane % 4) and the next.
template <int count, bool transposed>
inline void ldmatrix_emulated(const char* kind, unsigned* result, const void* address) {
    if (emulator::block.current % 32 < 8 * count && (uintptr_t)address % 16) emulator::fail("%s: misaligned address", kind);
    struct Operands { unsigned* result; const uint16_t* row; } mine{result, (const uint16_t*)address};
    emulator::collective(kind, mine, [](Operands** lanes) {
        for (int matrix = 0; matrix < count; ++matrix)
            for (int lane = 0; lane < 32; ++lane) {
                auto element = [&](int row, int column) -> unsigned { return lanes[8 * matrix + row]->row[column]; };
                const int r = lane / 4, c = lane % 4 * 2;
                lanes[lane]->result[matrix] = transposed ? element(c, r) | element(c + 1, r) << 16 : element(r, c) | element(r, c + 1) << 16;
            }
    });
}
inline void ldmatrix_x4(unsigned (&result)[4], const void* row) { ldmatrix_emulated<4, false>("ldmatrix_x4", result, row); }
inline void ldmatrix_x2(unsigned (&result)[2], const void* row) { ldmatrix_emulated<2, false>("ldmatrix_x2", result, row); }
inline void ldmatrix_x4_transpose(unsigned (&result)[4], const void* row) { ldmatrix_emulated<4, true>("ldmatrix_x4_transpose", result, row); }
inline void ldmatrix_x2_transpose(unsigned (&result)[2], const void* row) { ldmatrix_emulated<2, true>("ldmatrix_x2_transpose", result, row); }

// movmatrix: the transpose of one 8 x 8 matrix held as ldmatrix gives it.
inline unsigned movmatrix_transpose(unsigned value) {
    struct Operands { unsigned value, result; } mine{value, 0};
    emulator::collective("movmatrix_transpose", mine, [](Operands** lanes) {
        auto element = [&](int row, int column) { return lanes[row * 4 + column / 2]->value >> (column % 2 * 16) & 0xFFFFu; };
        for (int lane = 0; lane < 32; ++lane) {
            const int r = lane / 4, c = lane % 4 * 2;
            lanes[lane]->result = element(c, r) | element(c + 1, r) << 16;
        }
    });
    return mine.result;
}

// cp.async of 16 bytes. The target reads as NaN until the group it was committed to has been waited for.
inline void cp_async_16(void* shared, const void* global) {
    if ((uintptr_t)shared % 16 || (uintptr_t)global % 16) emulator::fail("cp_async_16: misaligned address");
    memset(shared, 0xFF, 16);
    emulator::block.fibers[emulator::block.current].open_copies.push_back({shared, global, 16});
}
inline void cp_async_commit() {
    auto& fiber = emulator::block.fibers[emulator::block.current];
    fiber.copy_groups.push_back(std::move(fiber.open_copies));
    fiber.open_copies.clear();
}
// Waits until at most `pending` committed groups of this thread are under way (others' need a barrier as well).
template <int pending> inline void cp_async_wait() {
    auto& groups = emulator::block.fibers[emulator::block.current].copy_groups;
    for (; groups.size() > (size_t)pending; groups.erase(groups.begin()))
        for (auto& copy : groups.front()) memcpy(copy.target, copy.source, copy.bytes);
}
