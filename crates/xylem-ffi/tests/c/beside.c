/*
 * Links both C libraries into one program, that of the BLAKE3 team and ours, and makes the same
 * random calls to each. Arguments: none. Prints a difference, and exits 1.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blake3.h"
#include "xylem_blake3.h"

#define ROUNDS 2000
#define LONGEST 70000

static uint64_t state = 0x9e3779b97f4a7c15u;

/* splitmix64 */
static uint64_t next(void) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Small numbers more often than large ones, below `end`. */
static size_t length(size_t end) {
  size_t bound = (size_t)1 << next() % 18;
  return (size_t)(next() % (bound < end ? bound : end));
}

static void begin(blake3_hasher *theirs, xylem_blake3_hasher *ours) {
  uint8_t bytes[64];
  char text[40];
  size_t i, len = length(sizeof bytes);
  for (i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)next();
  switch (next() % 4) {
    case 0:
      blake3_hasher_init(theirs);
      xylem_blake3_hasher_init(ours);
      break;
    case 1:
      blake3_hasher_init_keyed(theirs, bytes);
      xylem_blake3_hasher_init_keyed(ours, bytes);
      break;
    case 2:
      blake3_hasher_init_derive_key_raw(theirs, bytes, len);
      xylem_blake3_hasher_init_derive_key_raw(ours, bytes, len);
      break;
    default:
      sprintf(text, "context %lu", (unsigned long)(next() % 1000));
      blake3_hasher_init_derive_key(theirs, text);
      xylem_blake3_hasher_init_derive_key(ours, text);
  }
}

int main(void) {
  static uint8_t message[LONGEST], left[3000], right[3000];
  blake3_hasher theirs;
  xylem_blake3_hasher ours;
  unsigned round, piece, pieces, different = 0, calls = 0;
  size_t i;
  for (i = 0; i < LONGEST; i++) message[i] = (uint8_t)next();
  for (round = 0; round < ROUNDS; round++) {
    begin(&theirs, &ours);
    pieces = (unsigned)(next() % 6);
    for (piece = 0; piece < pieces; piece++, calls++) {
      size_t at = length(LONGEST), len = length(LONGEST - at + 1);
      uint64_t seek = next() >> next() % 64;
      size_t out_len = length(sizeof left);
      if (seek > UINT64_MAX - sizeof left) seek = 0;
      blake3_hasher_update(&theirs, message + at, len);
      xylem_blake3_hasher_update(&ours, message + at, len);
      if (next() % 8 == 0) {
        blake3_hasher_reset(&theirs);
        xylem_blake3_hasher_reset(&ours);
      }
      blake3_hasher_finalize_seek(&theirs, seek, left, out_len);
      xylem_blake3_hasher_finalize_seek(&ours, seek, right, out_len);
      different += memcmp(left, right, out_len) != 0;
      blake3_hasher_finalize(&theirs, left, out_len);
      xylem_blake3_hasher_finalize(&ours, right, out_len);
      different += memcmp(left, right, out_len) != 0;
    }
  }
  printf("blake3 %s and ours: %u random calls, %u different\n", blake3_version(), calls, different);
  return different == 0 && calls > ROUNDS ? 0 : 1;
}
