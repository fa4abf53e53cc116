/*
 * Tests the C interface, as a C99 and as a C++ program, under our own names and under those of
 * blake3.h (XYLEM_BLAKE3_COMPAT). Argument: the file of official vectors. Prints failures, and
 * exits 1 if there are any.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xylem_blake3.h"

#if defined(XYLEM_BLAKE3_COMPAT)
#define NAME(name) blake3_##name
typedef blake3_hasher hasher;
#define KEY_LEN BLAKE3_KEY_LEN
#define OUT_LEN BLAKE3_OUT_LEN
#define VERSION BLAKE3_VERSION_STRING
#else
#define NAME(name) xylem_blake3_##name
typedef xylem_blake3_hasher hasher;
#define KEY_LEN XYLEM_BLAKE3_KEY_LEN
#define OUT_LEN XYLEM_BLAKE3_OUT_LEN
#define VERSION XYLEM_BLAKE3_VERSION_STRING
#endif

static unsigned checks, failures;

#define CHECK(what)                                                     \
  do {                                                                  \
    checks++;                                                           \
    if (!(what)) {                                                      \
      failures++;                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what); \
    }                                                                   \
  } while (0)

#define VECTOR_LEN 131
#define LONGEST 200000

static uint8_t message[LONGEST];

/* Feeds `len` bytes of the message in pieces of `piece` bytes. */
static void feed(hasher *self, size_t len, size_t piece) {
  size_t at;
  for (at = 0; at < len; at += piece) {
    NAME(hasher_update)(self, message + at, len - at < piece ? len - at : piece);
  }
}

static void unhex(const char *hex, uint8_t out[VECTOR_LEN]) {
  size_t i;
  for (i = 0; i < VECTOR_LEN; i++) {
    unsigned byte = 0;
    CHECK(sscanf(hex + 2 * i, "%2x", &byte) == 1);
    out[i] = (uint8_t)byte;
  }
}

/* One mode at one length: whole, in pieces, from the middle, after a reset, in a copy. */
static void check_vector(const hasher *begun, size_t len, const char *hex) {
  static const size_t pieces[] = {1, 64, 1000, 8192, LONGEST};
  uint8_t want[VECTOR_LEN], out[VECTOR_LEN];
  hasher self, copy;
  size_t i, seek;
  unhex(hex, want);
  for (i = 0; i < sizeof pieces / sizeof *pieces; i++) {
    self = *begun;
    feed(&self, len, pieces[i]);
    NAME(hasher_finalize)(&self, out, VECTOR_LEN);
    CHECK(memcmp(out, want, VECTOR_LEN) == 0);
    NAME(hasher_finalize)(&self, out, OUT_LEN);
    CHECK(memcmp(out, want, OUT_LEN) == 0);
  }
  for (seek = 0; seek < VECTOR_LEN; seek += 13) {
    NAME(hasher_finalize_seek)(&self, seek, out, VECTOR_LEN - seek);
    CHECK(memcmp(out, want + seek, VECTOR_LEN - seek) == 0);
  }
  copy = self;
  NAME(hasher_update)(&self, "more", 4);
  NAME(hasher_finalize)(&copy, out, VECTOR_LEN);
  CHECK(memcmp(out, want, VECTOR_LEN) == 0);
  NAME(hasher_finalize)(&self, out, VECTOR_LEN);
  CHECK(memcmp(out, want, VECTOR_LEN) != 0);
  NAME(hasher_reset)(&self);
  feed(&self, len, LONGEST);
  NAME(hasher_finalize)(&self, out, VECTOR_LEN);
  CHECK(memcmp(out, want, VECTOR_LEN) == 0);
}

static void check_vectors(const char *path) {
  static char plain[300], keyed[300], derived[300], line[1000];
  char key[KEY_LEN + 1] = "", context[100] = "";
  FILE *file = fopen(path, "r");
  unsigned cases = 0;
  unsigned long len;
  hasher self;
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  while (fgets(line, sizeof line, file) != NULL) {
    if (line[0] == '#') continue;
    if (sscanf(line, "key %32[^\n]", key) == 1) continue;
    if (sscanf(line, "context %99[^\n]", context) == 1) continue;
    if (sscanf(line, "%lu %299s %299s %299s", &len, plain, keyed, derived) != 4) continue;
    if (len > LONGEST) continue;
    CHECK(strlen(plain) == 2 * VECTOR_LEN && strlen(key) == KEY_LEN);
    NAME(hasher_init)(&self);
    check_vector(&self, len, plain);
    NAME(hasher_init_keyed)(&self, (const uint8_t *)key);
    check_vector(&self, len, keyed);
    NAME(hasher_init_derive_key)(&self, context);
    check_vector(&self, len, derived);
    NAME(hasher_init_derive_key_raw)(&self, context, strlen(context));
    check_vector(&self, len, derived);
    cases++;
  }
  fclose(file);
  CHECK(cases == 35);
}

/* Every length around the edges of blocks, chunks and batches: in one call and in two. */
static void check_lengths(void) {
  static const size_t steps[] = {64, 1024, 8192, 16384, 131072};
  uint8_t whole[OUT_LEN], out[OUT_LEN];
  hasher self;
  size_t i, around, len;
  for (i = 0; i < sizeof steps / sizeof *steps; i++) {
    for (around = 0; around < 5; around++) {
      len = steps[i] + around - 2;
      xylem_blake3_hash(message, len, whole);
      NAME(hasher_init)(&self);
      NAME(hasher_update)(&self, message, len / 3);
      NAME(hasher_finalize)(&self, out, OUT_LEN);
      CHECK(memcmp(out, whole, OUT_LEN) != 0);
      NAME(hasher_update)(&self, message + len / 3, len - len / 3);
      NAME(hasher_finalize)(&self, out, OUT_LEN);
      CHECK(memcmp(out, whole, OUT_LEN) == 0);
    }
  }
}

/* NULL with a length of 0, no messages, no block length, zeroed memory, the end of the output. */
static void check_edges(void) {
  static const uint8_t key[KEY_LEN] = {7};
  static hasher zero;
  uint8_t empty[OUT_LEN], out[2 * OUT_LEN];
  const uint8_t *none[1] = {NULL};
  size_t no_len[1] = {0}, i;
  hasher self;
  CHECK(strcmp(NAME(version)(), VERSION) == 0);
  xylem_blake3_hash(NULL, 0, empty);
  NAME(hasher_init)(&self);
  NAME(hasher_update)(&self, NULL, 0);
  NAME(hasher_finalize)(&self, NULL, 0);
  NAME(hasher_finalize_seek)(&self, UINT64_MAX, NULL, 0);
  NAME(hasher_finalize)(&self, out, OUT_LEN);
  CHECK(memcmp(out, empty, OUT_LEN) == 0);
  NAME(hasher_init_derive_key_raw)(&self, NULL, 0);
  NAME(hasher_finalize)(&self, out, OUT_LEN);
  CHECK(memcmp(out, empty, OUT_LEN) != 0);
  xylem_blake3_hash_many(NULL, NULL, 0, NULL);
  xylem_blake3_keyed_hash_many(key, NULL, NULL, 0, NULL);
  xylem_blake3_hash_many(none, no_len, 1, out);
  CHECK(memcmp(out, empty, OUT_LEN) == 0);
  CHECK(xylem_blake3_hash_blocks(NULL, 0, 4096, NULL) == 0);
  CHECK(xylem_blake3_hash_blocks(message, 100, 0, NULL) == 0);
  NAME(hasher_finalize)(&zero, out, OUT_LEN);
  CHECK(memcmp(out, empty, OUT_LEN) == 0);
  NAME(hasher_update)(&zero, "", 0);
  NAME(hasher_finalize)(&zero, out, OUT_LEN);
  CHECK(memcmp(out, empty, OUT_LEN) == 0);
  memset(out, 0xff, sizeof out);
  NAME(hasher_finalize_seek)(&zero, UINT64_MAX - 3, out, sizeof out);
  for (i = 3; i < sizeof out; i++) CHECK(out[i] == 0);
  CHECK(out[0] != 0 || out[1] != 0 || out[2] != 0);
}

static void check_wipe(void) {
  static hasher zero;
  static const uint8_t key[KEY_LEN] = {7};
  hasher self;
  NAME(hasher_init_keyed)(&self, key);
  NAME(hasher_update)(&self, message, 30000);
  CHECK(memcmp(&self, &zero, sizeof zero) != 0);
  xylem_blake3_hasher_wipe(&self);
  CHECK(memcmp(&self, &zero, sizeof zero) == 0);
}

#define MANY 300

static void check_many(void) {
  static uint8_t out[OUT_LEN * MANY], want[OUT_LEN], key[KEY_LEN];
  static const uint8_t *inputs[MANY];
  static size_t lens[MANY];
  size_t i, count;
  memcpy(key, message + 99, KEY_LEN);
  for (i = 0; i < MANY; i++) {
    inputs[i] = message + i;
    lens[i] = i % 7 == 0 ? 20000 + i : i * 37 % 5000;
  }
  xylem_blake3_hash_many(inputs, lens, MANY, out);
  for (i = 0; i < MANY; i++) {
    xylem_blake3_hash(inputs[i], lens[i], want);
    CHECK(memcmp(out + OUT_LEN * i, want, OUT_LEN) == 0);
  }
  xylem_blake3_keyed_hash_many(key, inputs, lens, MANY, out);
  for (i = 0; i < MANY; i++) {
    xylem_blake3_keyed_hash(key, inputs[i], lens[i], want);
    CHECK(memcmp(out + OUT_LEN * i, want, OUT_LEN) == 0);
  }
  count = xylem_blake3_hash_blocks(message, 10 * 4096 + 1, 4096, out);
  CHECK(count == 11);
  for (i = 0; i < count; i++) {
    xylem_blake3_hash(message + 4096 * i, i == 10 ? 1 : 4096, want);
    CHECK(memcmp(out + OUT_LEN * i, want, OUT_LEN) == 0);
  }
}

int main(int argc, char **argv) {
  size_t i;
  if (argc != 2) {
    fprintf(stderr, "usage: %s VECTORS\n", argv[0]);
    return 2;
  }
  for (i = 0; i < LONGEST; i++) message[i] = (uint8_t)(i % 251);
  check_vectors(argv[1]);
  check_lengths();
  check_edges();
  check_wipe();
  check_many();
  printf("%u checks, %u failed\n", checks, failures);
  return failures == 0 ? 0 : 1;
}
