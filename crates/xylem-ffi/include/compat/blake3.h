/* The names of the BLAKE3 team's C library, implemented by libxylem_blake3. */
#define XYLEM_BLAKE3_COMPAT
#include "../xylem_blake3.h"
