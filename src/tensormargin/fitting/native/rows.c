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

/* As tensormargin_descend_, given the inner products of all rows in place of these: one matrix, and factor times those of
 * a vector. scores and along are what the matrix and the vector make of signs * beta, before and after. */
FAST int tensormargin_descend_products(int64_t n, const double *products, const double *vector, double factor,
                                       const double *signs, const double *lower, const double *upper, double *beta,
                                       double *restrict scores, double *along, int64_t *order, uint64_t *seed,
                                       double target, int64_t max_epochs) {
    for (int64_t epoch = 0; epoch < max_epochs; epoch++) {
        double gap = 0.0;
        shuffle(order, n, seed);
        for (int64_t k = 0; k < n; k++) {
            int64_t i = order[k];
            double gradient = signs[i] * (scores[i] + factor * vector[i] * *along) - 1.0, old = beta[i];
            gap += (gradient < 0.0 ? upper[i] - old : old - lower[i]) * fabs(gradient);
            double square = products[i * (n + 1)] + factor * vector[i] * vector[i];
            double best = gradient < 0.0 ? upper[i] : lower[i]; /* of a row of zeros, where the objective is linear */
            if (square > 0.0) best = lesser(greater(old - gradient / square, lower[i]), upper[i]);
            if (best == old) continue;
            double change = signs[i] * (best - old);
            beta[i] = best, *along += change * vector[i];
            add(scores, change, products + i * n, n);
        }
        if (gap <= target) return (int)epoch + 1;
    }
    return (int)max_epochs;
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
