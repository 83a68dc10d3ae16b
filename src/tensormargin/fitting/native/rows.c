/* Moments of samples, products of designs, and dual coordinate descent, for problems that are not small. */

#include "small.h"

#define COLUMNS 2048 /* whose sums stay in the first cache */

typedef struct { /* a block problem but for its rows */
    int64_t width;
    const double *squares, *lower, *upper; /* of each row */
} Rows;

/* Fisher-Yates with xorshift64, independently of any global random state. */
static inline void shuffle(int64_t *order, int64_t size, uint64_t *seed) {
    uint64_t state = *seed;
    for (int64_t last = size - 1; last > 0; last--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        int64_t other = (int64_t)(state % (uint64_t)(last + 1)), kept = order[last];
        order[last] = order[other], order[other] = kept;
    }
    *seed = state;
}

#define REAL float
#define ROW FourFloats
#define NAME(stem) stem##float32
#include "rows.h"
#undef REAL
#undef ROW
#undef NAME

#define REAL double
#define ROW FourDoubles
#define NAME(stem) stem##float64
#include "rows.h"
