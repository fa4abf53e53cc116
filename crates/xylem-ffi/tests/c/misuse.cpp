/*
 * Uses a hasher that was never initialized: the library must abort the process, and must not throw.
 * Ends by SIGABRT; exits 0 if nothing happened and 1 if an exception was thrown.
 */
#include <cstring>

#include "xylem_blake3.h"

int main() {
  static xylem_blake3_hasher hasher;
  std::memset(&hasher, 0x55, sizeof hasher);
  try {
    xylem_blake3_hasher_update(&hasher, "abc", 3);
  } catch (...) {
    return 1;
  }
  return 0;
}
