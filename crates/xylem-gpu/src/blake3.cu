// Chaining values of BLAKE3's tree, computed where the bytes are: in a GPU's memory.
//
// `segments_aligned` and `segments_unaligned` hash segments of 8 chunks (8,192 bytes), the leaves of xylem-tree's tree,
// to one value each. `regions` joins the values of 512 segments to that of their region of 4 MiB. Chunk numbers are
// those in the file; a region begins at a multiple of its size in the file.
//
// `one` is always 1. The compiler does not know that, so `x * one + y` stays a multiplication, which runs on the
// multiplier's pipe. Plain additions would compete with XORs and rotations for the other pipe, which limits the rate.
//
// The driver compiles blake3.ptx beside this file for its card. `compile.py` makes that file from this one.

typedef unsigned int u32;
typedef unsigned long long u64;

#define CHUNKS_A_SEGMENT 8
#define BLOCK 256 // threads, and chunks, of one block of `segments_*`
#define BLOCKS_A_PROCESSOR 4 // at least: 64 registers a thread at most
#define SEGMENTS_A_REGION 512

#define CHUNK_START 1u
#define CHUNK_END 2u
#define PARENT 4u

__device__ __forceinline__ u32 add(u32 x, u32 y, u32 one) {
    u32 sum;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(one), "r"(y));
    return sum;
}

__device__ __forceinline__ u32 rotate_right(u32 x, int n) { return __funnelshift_r(x, x, n); }

__device__ __forceinline__ u32 swap_halves(u32 x) { return __byte_perm(x, 0, 0x1032); }

__device__ __forceinline__ u32 rotate_byte(u32 x) { return __byte_perm(x, 0, 0x0321); }

__device__ __forceinline__ void mix(u32 &a, u32 &b, u32 &c, u32 &d, u32 x, u32 y, u32 one) {
    a = add(b, add(x, a, one), one);
    d = swap_halves(d ^ a);
    c = add(d, c, one);
    b = rotate_right(b ^ c, 12);
    a = add(b, add(y, a, one), one);
    d = rotate_byte(d ^ a);
    c = add(d, c, one);
    b = rotate_right(b ^ c, 7);
}

#define ROUND(s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf) \
    mix(v[0], v[4], v[8], v[12], m[s0], m[s1], one);                          \
    mix(v[1], v[5], v[9], v[13], m[s2], m[s3], one);                          \
    mix(v[2], v[6], v[10], v[14], m[s4], m[s5], one);                         \
    mix(v[3], v[7], v[11], v[15], m[s6], m[s7], one);                         \
    mix(v[0], v[5], v[10], v[15], m[s8], m[s9], one);                         \
    mix(v[1], v[6], v[11], v[12], m[sa], m[sb], one);                         \
    mix(v[2], v[7], v[8], v[13], m[sc], m[sd], one);                          \
    mix(v[3], v[4], v[9], v[14], m[se], m[sf], one);

// Replaces the chaining value `cv` by the one after the block `m`.
__device__ __forceinline__ void compress(u32 (&cv)[8], const u32 (&m)[16], u64 counter, u32 len, u32 flags, u32 one) {
    u32 v[16] = {cv[0], cv[1], cv[2], cv[3], cv[4], cv[5], cv[6], cv[7],
                 0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au, (u32)counter, (u32)(counter >> 32), len, flags};
    ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
    ROUND(2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
    ROUND(3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1)
    ROUND(10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6)
    ROUND(12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4)
    ROUND(9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7)
    ROUND(11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13)
#pragma unroll
    for (int i = 0; i < 8; i++) cv[i] = v[i] ^ v[i + 8];
}

__device__ __forceinline__ void start(u32 (&cv)[8]) {
    cv[0] = 0x6A09E667u, cv[1] = 0xBB67AE85u, cv[2] = 0x3C6EF372u, cv[3] = 0xA54FF53Au;
    cv[4] = 0x510E527Fu, cv[5] = 0x9B05688Cu, cv[6] = 0x1F83D9ABu, cv[7] = 0x5BE0CD19u;
}

// A thread reads all of its chunk, in order.
__device__ __forceinline__ uint4 load(const uint4 *at) {
    uint4 x;
    asm volatile("ld.global.nc.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
        : "l"(at));
    return x;
}

// The 16 bytes that `bytes` lies in.
__device__ __forceinline__ const uint4 *quad_of(const unsigned char *bytes) {
    return (const uint4 *)((u64)bytes & ~15ull);
}

// The next block of a chunk, 64 bytes, from a multiple of 16 bytes on.
struct Aligned {
    const uint4 *at;

    __device__ __forceinline__ explicit Aligned(const unsigned char *bytes) : at(quad_of(bytes)) {}

    __device__ __forceinline__ void next(u32 (&m)[16]) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint4 x = load(at + i);
            m[4 * i] = x.x, m[4 * i + 1] = x.y, m[4 * i + 2] = x.z, m[4 * i + 3] = x.w;
        }
        at += 4;
    }
};

// The same from any address on. It loads whole 16 bytes, up to 15 before the chunk and up to 15 behind it.
struct Unaligned {
    const uint4 *at;
    uint4 carried;
    bool two, single;
    u32 bits;

    __device__ __forceinline__ explicit Unaligned(const unsigned char *bytes)
        : at(quad_of(bytes)), two((u64)bytes & 8), single((u64)bytes & 4),
          bits(((u32)(u64)bytes & 3) * 8) {
        carried = load(at);
    }

    __device__ __forceinline__ void next(u32 (&m)[16]) {
        u32 w[20];
        w[0] = carried.x, w[1] = carried.y, w[2] = carried.z, w[3] = carried.w;
#pragma unroll
        for (int i = 1; i < 5; i++) {
            carried = load(at + i);
            w[4 * i] = carried.x, w[4 * i + 1] = carried.y, w[4 * i + 2] = carried.z, w[4 * i + 3] = carried.w;
        }
        at += 4;
#pragma unroll
        for (int i = 0; i < 18; i++) w[i] = two ? w[i + 2] : w[i];
#pragma unroll
        for (int i = 0; i < 17; i++) w[i] = single ? w[i + 1] : w[i];
#pragma unroll
        for (int i = 0; i < 16; i++) m[i] = __funnelshift_r(w[i], w[i + 1], bits);
    }
};

// The value of the chunk at `bytes`.
template <class Blocks>
__device__ __forceinline__ void chunk(u32 (&cv)[8], const unsigned char *bytes, u64 counter, u32 one) {
    start(cv);
    Blocks blocks(bytes);
#pragma unroll 1
    for (int block = 0; block < 16; block++) {
        u32 m[16];
        blocks.next(m);
        compress(cv, m, counter, 64, block == 0 ? CHUNK_START : block == 15 ? CHUNK_END : 0, one);
    }
}

__device__ __forceinline__ void store(uint4 *at, const u32 (&cv)[8]) {
    at[0] = make_uint4(cv[0], cv[1], cv[2], cv[3]);
    at[1] = make_uint4(cv[4], cv[5], cv[6], cv[7]);
}

// The value of the parent over the two values at `children`.
__device__ __forceinline__ void parent(u32 (&cv)[8], const uint4 *children, u32 one) {
    u32 m[16];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint4 x = children[i];
        m[4 * i] = x.x, m[4 * i + 1] = x.y, m[4 * i + 2] = x.z, m[4 * i + 3] = x.w;
    }
    start(cv);
    compress(cv, m, 0, 64, PARENT, one);
}

// Replaces `2 * parents` values in shared memory by `parents`. All threads of the block call it.
__device__ __forceinline__ void climb(uint4 *values, u32 parents, u32 one) {
    u32 cv[8];
    const u32 i = threadIdx.x;
    if (i < parents) parent(cv, values + 4 * i, one);
    __syncthreads();
    if (i < parents) store(values + 2 * i, cv);
    __syncthreads();
}

// One thread hashes one chunk, and the block joins its chunks to segments. `chunks` is a multiple of 8.
template <class Blocks>
__device__ __forceinline__ void
segments(const unsigned char *bytes, u64 first_chunk, u64 chunks, uint4 *values, u32 one) {
    __shared__ uint4 shared[2 * BLOCK];
    const u64 number = (u64)blockIdx.x * BLOCK + threadIdx.x;
    if (number < chunks) {
        u32 cv[8];
        chunk<Blocks>(cv, bytes + number * 1024, first_chunk + number, one);
        store(shared + 2 * threadIdx.x, cv);
    }
    __syncthreads();
#pragma unroll 1
    for (u32 parents = BLOCK / 2; parents >= BLOCK / CHUNKS_A_SEGMENT; parents /= 2) climb(shared, parents, one);
    // Two quads a value.
    const u64 quad = (u64)blockIdx.x * (2 * BLOCK / CHUNKS_A_SEGMENT) + threadIdx.x;
    if (threadIdx.x < 2 * BLOCK / CHUNKS_A_SEGMENT && quad < chunks / CHUNKS_A_SEGMENT * 2)
        values[quad] = shared[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_A_PROCESSOR)
    segments_aligned(const unsigned char *bytes, u64 first_chunk, u64 chunks, uint4 *values, u32 one) {
    segments<Aligned>(bytes, first_chunk, chunks, values, one);
}

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_A_PROCESSOR)
    segments_unaligned(const unsigned char *bytes, u64 first_chunk, u64 chunks, uint4 *values, u32 one) {
    segments<Unaligned>(bytes, first_chunk, chunks, values, one);
}

// A block joins the values of 512 segments to that of their region.
extern "C" __global__ void __launch_bounds__(SEGMENTS_A_REGION / 2)
    regions(const uint4 *segments, uint4 *values, u32 one) {
    __shared__ uint4 shared[SEGMENTS_A_REGION];
    u32 cv[8];
    parent(cv, segments + (u64)blockIdx.x * (2 * SEGMENTS_A_REGION) + 4 * threadIdx.x, one);
    store(shared + 2 * threadIdx.x, cv);
    __syncthreads();
#pragma unroll 1
    for (u32 parents = SEGMENTS_A_REGION / 4; parents > 0; parents /= 2) climb(shared, parents, one);
    if (threadIdx.x < 2) values[2 * (u64)blockIdx.x + threadIdx.x] = shared[threadIdx.x];
}
