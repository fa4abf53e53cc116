/*
 * A hasher that was never begun: the library must abort the process, and must not throw into it.
 * Ends by SIGABRT; exits 0 if nothing happened and 1 if something was thrown.
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
