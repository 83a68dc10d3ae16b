/* Loops over the rows of large matrices; rows.c includes this file once for each type of their entries.
 *
 * REAL is that type, NAME(stem) the stem with its name, and ROW a vector of four of them. All sums are in double
 * precision, and their order is written out, so that all compilers and processors give the same digits.
 */

typedef REAL ROW __attribute__((vector_size(4 * sizeof(REAL))));

#define LOAD_ROW(name, from) \
    ROW name##_; \
    memcpy(&name##_, from, sizeof(ROW)); \
    Four name = __builtin_convertvector(name##_, Four)

INLINE double NAME(dot_)(const REAL *restrict row, const double *restrict vector, int64_t size) {
    Four s0 = {0.0, 0.0, 0.0, 0.0}, s1 = s0, s2 = s0, s3 = s0;
    double rest = 0.0;
    int64_t k = 0;
    for (; k + 15 < size; k += 16) {
        LOAD_ROW(a0, row + k);
        LOAD_ROW(a1, row + k + 4);
        LOAD_ROW(a2, row + k + 8);
        LOAD_ROW(a3, row + k + 12);
        LOAD(b0, vector + k);
        LOAD(b1, vector + k + 4);
        LOAD(b2, vector + k + 8);
        LOAD(b3, vector + k + 12);
        s0 += a0 * b0, s1 += a1 * b1, s2 += a2 * b2, s3 += a3 * b3;
    }
    for (; k + 3 < size; k += 4) {
        LOAD_ROW(a, row + k);
        LOAD(b, vector + k);
        s0 += a * b;
    }
    for (; k < size; k++) rest += row[k] * vector[k];
    s0 = (s0 + s1) + (s2 + s3);
    return sum_of(s0) + rest;
}

/* Write rows @ vector. */
FAST int NAME(tensormargin_multiply_)(int64_t n, int64_t width, const REAL *rows, const double *vector, double *out) {
    for (int64_t i = 0; i < n; i++) out[i] = NAME(dot_)(rows + i * width, vector, width);
    return 0;
}

/* Add weights @ rows to out; four rows at a time, so that out is written a quarter as often. */
FAST int NAME(tensormargin_combine_)(int64_t n, int64_t width, const REAL *rows, const double *weights,
                                     double *restrict out) {
    int64_t i = 0;
    for (; i + 3 < n; i += 4) {
        const REAL *r0 = rows + i * width, *r1 = r0 + width, *r2 = r1 + width, *r3 = r2 + width;
        double w0 = weights[i], w1 = weights[i + 1], w2 = weights[i + 2], w3 = weights[i + 3];
        for (int64_t k = 0; k < width; k++) out[k] += (w0 * r0[k] + w1 * r1[k]) + (w2 * r2[k] + w3 * r3[k]);
    }
    for (; i < n; i++)
        for (int64_t k = 0; k < width; k++) out[k] += weights[i] * rows[i * width + k];
    return 0;
}

/* Add weighted sums of rows - pivot to the first two rows of sums, and the weighted sum of squares to the first number
 * of the third. Each row is read once; sums of a tile of columns stay in the cache, and are written every fourth row:
 * the last group is filled up with rows of weight zero. */
FAST int NAME(tensormargin_add_moments_)(int64_t n, int64_t width, const REAL *rows, const REAL *pivot,
                                         const double *weights, const double *signed_weights, double *sums) {
    for (int64_t start = 0; start < width; start += COLUMNS) {
        int64_t size = width - start < COLUMNS ? width - start : COLUMNS;
        const REAL *less = pivot + start;
        double *restrict plain = sums + start, *restrict with_sign = sums + width + start;
        for (int64_t i = 0; i < n; i += 4) {
            const REAL *row[4];
            double w[4], s[4], rest = 0.0;
            for (int64_t a = 0; a < 4; a++) {
                int64_t which = i + a < n ? i + a : n - 1;
                row[a] = rows + which * width + start;
                w[a] = i + a < n ? weights[which] : 0.0, s[a] = i + a < n ? signed_weights[which] : 0.0;
            }
            Four squares = {0.0, 0.0, 0.0, 0.0};
            int64_t k = 0;
            for (; k + 3 < size; k += 4) {
                LOAD_ROW(p, less + k);
                LOAD_ROW(a, row[0] + k);
                LOAD_ROW(b, row[1] + k);
                LOAD_ROW(c, row[2] + k);
                LOAD_ROW(d, row[3] + k);
                LOAD(of_plain, plain + k);
                LOAD(of_signed, with_sign + k);
                a -= p, b -= p, c -= p, d -= p;
                squares += (w[0] * (a * a) + w[1] * (b * b)) + (w[2] * (c * c) + w[3] * (d * d));
                of_plain += (w[0] * a + w[1] * b) + (w[2] * c + w[3] * d);
                of_signed += (s[0] * a + s[1] * b) + (s[2] * c + s[3] * d);
                memcpy(plain + k, &of_plain, sizeof(Four));
                memcpy(with_sign + k, &of_signed, sizeof(Four));
            }
            for (; k < size; k++)
                for (int64_t a = 0; a < 4; a++) {
                    double entry = (double)row[a][k] - less[k];
                    rest += w[a] * (entry * entry), plain[k] += w[a] * entry, with_sign[k] += s[a] * entry;
                }
            sums[2 * width] += sum_of(squares) + rest;
        }
    }
    return 0;
}

/* Visit the active coordinates once; return the estimated gap. bars are the worst violations: of the epoch before, and
 * then of this one. */
INLINE double NAME(epoch_)(const Rows *of, const REAL *rows, double *beta, double *restrict u, int64_t *order,
                                  int64_t *active, double *bars) {
    double gap = 0.0, lowest = 0.0, highest = 0.0;
    int64_t position = 0;
    while (position < *active) {
        int64_t i = order[position];
        const REAL *restrict row = rows + i * of->width;
        double old = beta[i], low = of->lower[i], high = of->upper[i];
        double gradient = NAME(dot_)(row, u, of->width) - 1.0;
        /* at a bound, and pushed against it harder than any other is pulled away */
        if ((old <= low && gradient > bars[1]) || (old >= high && gradient < bars[0])) {
            order[position] = order[--*active], order[*active] = i;
            continue;
        }
        position++;
        double distance = gradient < 0.0 ? high - old : old - low;
        gap += distance * fabs(gradient);
        if (distance > 0.0) lowest = lesser(lowest, gradient), highest = greater(highest, gradient);
        double best = gradient < 0.0 ? high : low; /* of a row of zeros, where the objective is linear */
        if (of->squares[i] > 0.0) best = lesser(greater(old - gradient / of->squares[i], low), high);
        double step = best - old;
        if (step == 0.0) continue;
        beta[i] = best; /* old + step may miss the bound by a rounding error, and the coordinate would never be set aside */
        for (int64_t k = 0; k < of->width; k++) u[k] += step * row[k];
    }
    bars[0] = lowest < 0.0 ? lowest : -INFINITY, bars[1] = highest > 0.0 ? highest : INFINITY;
    return gap;
}

/* Run epochs of dual coordinate descent until the estimated gap is at most target; return their number.
 *
 * Shrinking: a coordinate at a bound is set aside if its gradient points outwards by more than any violation of the
 * previous epoch. The caller checks the gap over all samples and calls again if shrinking was too aggressive. */
FAST int NAME(tensormargin_descend_)(int64_t n, int64_t width, const REAL *rows, const double *squares,
                                     const double *lower, const double *upper, double *beta, double *u, int64_t *order,
                                     uint64_t *seed, double target, int64_t most) {
    Rows of = {width, squares, lower, upper};
    double bars[2] = {-INFINITY, INFINITY};
    int64_t active = n;
    for (int64_t epoch = 1; epoch <= most; epoch++) {
        shuffle(order, active, seed);
        if (NAME(epoch_)(&of, rows, beta, u, order, &active, bars) <= target) return (int)epoch;
    }
    return (int)most;
}

#undef LOAD_ROW
