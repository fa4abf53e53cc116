/*
 * BLAKE3: plain, keyed and key-deriving hashes of a message in pieces, with extendable output; and
 * hashes of many messages side by side, which makes short messages fast.
 *
 * The functions, their order of arguments and their meaning are those of blake3.h (the C library
 * of the BLAKE3 team), under names of our own: both libraries may be linked into one program. To
 * move a program written for blake3.h, write
 *
 *     #define XYLEM_BLAKE3_COMPAT
 *     #include <xylem_blake3.h>
 *
 * in place of its include. Or add the directory that `pkg-config --variable=compatdir xylem-blake3`
 * prints to the include path; it has a blake3.h with these two lines.
 *
 * Ownership. All memory is the caller's: the library allocates nothing, keeps no pointer after
 * a call, and writes only to `self` and `out`. A pointer to bytes may be NULL if its length is
 * 0; every other pointer must be valid for its length and, for `self`, aligned as its type is.
 * `out` must overlap neither `self` nor an input.
 *
 * The hasher. A xylem_blake3_hasher holds no pointers: assignment and memcpy copy it, it may lie
 * anywhere, it needs no destructor. A hasher that is all zero is a plain hasher without input. The
 * use of one that is neither zero nor initialized is undefined (in most cases the process is
 * aborted). It is larger than the one of blake3.h, 24 KiB, because it gathers input until all
 * lanes of the processor are busy; only the parts in use are ever touched.
 *
 * Secrets. A hasher holds its key and up to 16 KiB of its message until they are overwritten. As
 * there is no destructor, that does not happen by itself. Call xylem_blake3_hasher_wipe when a keyed
 * or key-deriving hasher, or any hasher of a secret message, is done, and on every copy of one. The
 * library clears its own working memory (its part of the stack) as far as the compiler lets it,
 * which is no guarantee. The time that a function takes depends on lengths alone.
 *
 * Threads. Functions share no state. One hasher may be read (finalize, finalize_seek) by any
 * number of threads at once, and be changed by one thread while no other uses it.
 *
 * Failure. No function fails, and none unwinds into the caller. A violated invariant of the library
 * itself would abort the process.
 */
#ifndef XYLEM_BLAKE3_H
#define XYLEM_BLAKE3_H

#include <stddef.h>
#include <stdint.h>

#if !defined(XYLEM_BLAKE3_API)
#  if defined(_WIN32) && defined(XYLEM_BLAKE3_DLL)
#    define XYLEM_BLAKE3_API __declspec(dllimport)
#  else
#    define XYLEM_BLAKE3_API
#  endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define XYLEM_BLAKE3_VERSION_STRING "0.1.0"
#define XYLEM_BLAKE3_KEY_LEN 32
#define XYLEM_BLAKE3_OUT_LEN 32
#define XYLEM_BLAKE3_BLOCK_LEN 64
#define XYLEM_BLAKE3_CHUNK_LEN 1024

/* Part of the binary interface: fixed, with room to spare for the library's own state. */
#define XYLEM_BLAKE3_HASHER_SIZE 24576

/* The state of a hash. Aligned as uint64_t is. The content is the library's own. */
typedef struct {
  uint64_t opaque[XYLEM_BLAKE3_HASHER_SIZE / 8];
} xylem_blake3_hasher;

/* Compiles only while the size is as promised. */
typedef char xylem_blake3_hasher_size_check
    [sizeof(xylem_blake3_hasher) == XYLEM_BLAKE3_HASHER_SIZE ? 1 : -1];

/* The library's version, "major.minor.patch". Compare it with XYLEM_BLAKE3_VERSION_STRING to detect
 * a library that does not match the header. */
XYLEM_BLAKE3_API const char *xylem_blake3_version(void);

/* ---- One message in pieces: init, update any number of times, finalize as often as wanted ---- */

/* Begins a plain hash. */
XYLEM_BLAKE3_API void xylem_blake3_hasher_init(xylem_blake3_hasher *self);

/* Begins a keyed hash (a MAC) under a uniformly random key. */
XYLEM_BLAKE3_API void
xylem_blake3_hasher_init_keyed(xylem_blake3_hasher *self,
                               const uint8_t key[XYLEM_BLAKE3_KEY_LEN]);

/* Begins the derivation of a key; the message is the key material. `context` is a string that
 * ends with NUL and names the purpose: hard-coded and globally unique. */
XYLEM_BLAKE3_API void xylem_blake3_hasher_init_derive_key(xylem_blake3_hasher *self,
                                                          const char *context);

/* Begins the derivation of a key, with a context of `context_len` bytes of any value. */
XYLEM_BLAKE3_API void xylem_blake3_hasher_init_derive_key_raw(xylem_blake3_hasher *self,
                                                              const void *context,
                                                              size_t context_len);

/* Adds `input_len` bytes to the message. */
XYLEM_BLAKE3_API void xylem_blake3_hasher_update(xylem_blake3_hasher *self, const void *input,
                                                 size_t input_len);

/* Writes the first `out_len` bytes of the output for the message so far: 32 for a hash. The hasher
 * stays as it is and may be updated further. */
XYLEM_BLAKE3_API void xylem_blake3_hasher_finalize(const xylem_blake3_hasher *self, uint8_t *out,
                                                   size_t out_len);

/* Writes `out_len` bytes of the output from byte `seek` on. The output ends after 2^64 - 1 bytes;
 * bytes beyond its end are zeros. */
XYLEM_BLAKE3_API void xylem_blake3_hasher_finalize_seek(const xylem_blake3_hasher *self,
                                                        uint64_t seek, uint8_t *out,
                                                        size_t out_len);

/* Begins a new message in the same mode, under the same key or context. */
XYLEM_BLAKE3_API void xylem_blake3_hasher_reset(xylem_blake3_hasher *self);

/* Overwrites all of `self` with zeros, whatever it held, in a way that compilers keep. */
XYLEM_BLAKE3_API void xylem_blake3_hasher_wipe(xylem_blake3_hasher *self);

/* ---- Whole messages ---- */

/* The hash of `input`. */
XYLEM_BLAKE3_API void xylem_blake3_hash(const void *input, size_t input_len,
                                        uint8_t out[XYLEM_BLAKE3_OUT_LEN]);

/* The keyed hash of `input`. */
XYLEM_BLAKE3_API void xylem_blake3_keyed_hash(const uint8_t key[XYLEM_BLAKE3_KEY_LEN],
                                              const void *input, size_t input_len,
                                              uint8_t out[XYLEM_BLAKE3_OUT_LEN]);

/* The hashes of `count` messages of any lengths, side by side: out[32 * i] on is that of the
 * `input_lens[i]` bytes at inputs[i]. `out` has 32 * count bytes. */
XYLEM_BLAKE3_API void xylem_blake3_hash_many(const uint8_t *const *inputs,
                                             const size_t *input_lens, size_t count,
                                             uint8_t *out);

/* The keyed hashes of `count` messages, all with one key; otherwise as xylem_blake3_hash_many. */
XYLEM_BLAKE3_API void
xylem_blake3_keyed_hash_many(const uint8_t key[XYLEM_BLAKE3_KEY_LEN],
                             const uint8_t *const *inputs, const size_t *input_lens,
                             size_t count, uint8_t *out);

/* The hash of each block of `block_len` bytes of `input`, the last of which may be shorter; 32
 * bytes each go to `out`. Returns how many there are: input_len / block_len, rounded up; and 0,
 * having written nothing, if block_len is 0. */
XYLEM_BLAKE3_API size_t xylem_blake3_hash_blocks(const void *input, size_t input_len,
                                                 size_t block_len, uint8_t *out);

#ifdef __cplusplus
}
#endif

#endif /* XYLEM_BLAKE3_H */

/* ---- The names of blake3.h ---- (outside of the guard, as an earlier include may not have defined them) */

#if defined(XYLEM_BLAKE3_COMPAT) && !defined(XYLEM_BLAKE3_COMPAT_NAMES)
#  define XYLEM_BLAKE3_COMPAT_NAMES
#  if defined(BLAKE3_VERSION_STRING)
#    error "include either blake3.h or xylem_blake3.h with XYLEM_BLAKE3_COMPAT, not both"
#  endif
/* The guard of blake3.h: a later include of it has no effect. */
#  ifndef BLAKE3_H
#    define BLAKE3_H
#  endif
#  define BLAKE3_VERSION_STRING XYLEM_BLAKE3_VERSION_STRING
#  define BLAKE3_KEY_LEN XYLEM_BLAKE3_KEY_LEN
#  define BLAKE3_OUT_LEN XYLEM_BLAKE3_OUT_LEN
#  define BLAKE3_BLOCK_LEN XYLEM_BLAKE3_BLOCK_LEN
#  define BLAKE3_CHUNK_LEN XYLEM_BLAKE3_CHUNK_LEN
#  define BLAKE3_MAX_DEPTH 54
#  define blake3_hasher xylem_blake3_hasher
#  define blake3_version xylem_blake3_version
#  define blake3_hasher_init xylem_blake3_hasher_init
#  define blake3_hasher_init_keyed xylem_blake3_hasher_init_keyed
#  define blake3_hasher_init_derive_key xylem_blake3_hasher_init_derive_key
#  define blake3_hasher_init_derive_key_raw xylem_blake3_hasher_init_derive_key_raw
#  define blake3_hasher_update xylem_blake3_hasher_update
#  define blake3_hasher_finalize xylem_blake3_hasher_finalize
#  define blake3_hasher_finalize_seek xylem_blake3_hasher_finalize_seek
#  define blake3_hasher_reset xylem_blake3_hasher_reset
#endif
