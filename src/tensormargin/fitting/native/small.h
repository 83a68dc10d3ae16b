/* What the files of this folder share: vector operations, and the solution of one block problem.
 *
 * Numbers are double or float, whole numbers int64_t. */

#ifndef TENSORMARGIN_SMALL_H
#define TENSORMARGIN_SMALL_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TILE 8
#define ABI 9 /* of the functions that Python calls; see __init__.py, to be raised with any change of their arguments */

#define TINY 2.2250738585072014e-308
#define EPSILON 2.220446049250313e-16

/* Functions with most of the arithmetic: compiled twice where the processor may add and multiply four at a time. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
/* GCC only: the compiler that makes the wheels compiles whole files twice instead; see hatch_build.py. */
#define FAST __attribute__((target_clones("avx2", "default")))
#else
#define FAST
#endif

/* What FAST functions call and must be compiled with them. */
#define INLINE static inline __attribute__((always_inline))

typedef double Four __attribute__((vector_size(32))); /* two pairs, where the processor has no more */
typedef int64_t FourBits __attribute__((vector_size(32)));

#define LOAD(name, from) Four name; memcpy(&name, from, sizeof(Four))
#define sum_of(four) ((four[0] + four[2]) + (four[1] + four[3]))

/* The order of summation is written out, so that all compilers and processors give the same digits. */
static inline double dot(const double *restrict a, const double *restrict b, int64_t size) {
    Four s0 = {0.0, 0.0, 0.0, 0.0}, s1 = s0;
    double rest = 0.0;
    int64_t i = 0;
    for (; i + 7 < size; i += 8) {
        LOAD(a0, a + i);
        LOAD(b0, b + i);
        LOAD(a1, a + i + 4);
        LOAD(b1, b + i + 4);
        s0 += a0 * b0, s1 += a1 * b1;
    }
    if (i + 3 < size) {
        LOAD(a0, a + i);
        LOAD(b0, b + i);
        s0 += a0 * b0, i += 4;
    }
    for (; i < size; i++) rest += a[i] * b[i];
    s0 += s1;
    return sum_of(s0) + rest;
}

/* Write the products of four columns, a step apart, with a vector. */
static inline void dot_four(const double *restrict a, int64_t step, const double *restrict b, int64_t size,
                            double *restrict out) {
    Four s0 = {0.0, 0.0, 0.0, 0.0}, s1 = s0, s2 = s0, s3 = s0;
    double r0 = 0.0, r1 = 0.0, r2 = 0.0, r3 = 0.0;
    const double *a1 = a + step, *a2 = a1 + step, *a3 = a2 + step;
    int64_t i = 0;
    for (; i + 3 < size; i += 4) {
        LOAD(x0, a + i);
        LOAD(x1, a1 + i);
        LOAD(x2, a2 + i);
        LOAD(x3, a3 + i);
        LOAD(y, b + i);
        s0 += x0 * y, s1 += x1 * y, s2 += x2 * y, s3 += x3 * y;
    }
    for (; i < size; i++) r0 += a[i] * b[i], r1 += a1[i] * b[i], r2 += a2[i] * b[i], r3 += a3[i] * b[i];
    out[0] = sum_of(s0) + r0, out[1] = sum_of(s1) + r1, out[2] = sum_of(s2) + r2, out[3] = sum_of(s3) + r3;
}

static inline double lesser(double a, double b) { return a < b ? a : b; }

static inline double greater(double a, double b) { return a > b ? a : b; }

static inline void add(double *restrict a, double factor, const double *restrict b, int64_t size) {
    for (int64_t i = 0; i < size; i++) a[i] += factor * b[i];
}

/* a += factors[0] b + factors[1] (b + step) + factors[2] (b + 2 step) + factors[3] (b + 3 step) */
static inline void add_four(double *restrict a, const double *restrict factors, const double *restrict b, int64_t step,
                            int64_t size) {
    double f0 = factors[0], f1 = factors[1], f2 = factors[2], f3 = factors[3];
    const double *b1 = b + step, *b2 = b1 + step, *b3 = b2 + step;
    for (int64_t i = 0; i < size; i++) a[i] += (f0 * b[i] + f1 * b1[i]) + (f2 * b2[i] + f3 * b3[i]);
}

/* Write the sum of count columns of n numbers, each times its factor. */
static inline void combine_columns(const double *columns, int64_t n, int64_t count, const double *factors, double *out) {
    int64_t j = 0;
    memset(out, 0, n * sizeof(double));
    for (; j + 3 < count; j += 4) add_four(out, factors + j, columns + j * n, n, n);
    for (; j < count; j++) add(out, factors[j], columns + j * n, n);
}

/* Write the inner products of the rows of a matrix into the lower triangle of out, two rows by two at a time. */
static inline void inner_products(const double *rows, int64_t length, int64_t count, double *out) {
    for (int64_t a = 0; a < count; a += 2)
        for (int64_t b = 0; b <= a; b += 2) {
            int64_t more_a = a + 1 < count, more_b = b + 1 < count;
            const double *a0 = rows + a * length, *a1 = a0 + more_a * length;
            const double *b0 = rows + b * length, *b1 = b0 + more_b * length;
            Four s00 = {0.0, 0.0, 0.0, 0.0}, s01 = s00, s10 = s00, s11 = s00;
            double r00 = 0.0, r01 = 0.0, r10 = 0.0, r11 = 0.0;
            int64_t i = 0;
            for (; i + 3 < length; i += 4) {
                LOAD(x0, a0 + i);
                LOAD(x1, a1 + i);
                LOAD(y0, b0 + i);
                LOAD(y1, b1 + i);
                s00 += x0 * y0, s01 += x0 * y1, s10 += x1 * y0, s11 += x1 * y1;
            }
            for (; i < length; i++)
                r00 += a0[i] * b0[i], r01 += a0[i] * b1[i], r10 += a1[i] * b0[i], r11 += a1[i] * b1[i];
            out[a * count + b] = sum_of(s00) + r00;
            if (more_b) out[a * count + b + 1] = sum_of(s01) + r01;
            if (more_a) out[(a + 1) * count + b] = sum_of(s10) + r10;
            if (more_a && more_b) out[(a + 1) * count + b + 1] = sum_of(s11) + r11;
        }
}

static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* In square tiles: rows and columns are often a power of two apart, and then share few places of the cache. */
static inline void transpose(const double *from, int64_t rows, int64_t columns, double *to) {
    for (int64_t first = 0; first < rows; first += TILE)
        for (int64_t left = 0; left < columns; left += TILE)
            for (int64_t a = first; a < rows && a < first + TILE; a++)
                for (int64_t b = left; b < columns && b < left + TILE; b++) to[b * rows + a] = from[a * columns + b];
}

typedef struct {
    double goal;        /* relative gap to reach */
    double descent_gap; /* relative gap at which descent hands over to the exact solve */
    double near;        /* relative gap above which a further round of descent is not worth trying */
    int64_t rounds, epochs;
    double work; /* multiplications of an exact solve */
    double wide; /* columns per sample above which a problem is solved in the samples' inner products */
} Limits;

typedef struct { /* Eq. 7 without its samples */
    int64_t n;
    const double *signs;   /* labels, 1 or -1 */
    const double *weights; /* sum to one */
    double lam, mu1, mu2;
    double bias; /* zero for no intercept */
    Limits limits;
} Task;

/* strengths: lam, mu1, mu2; limits: those of the struct, in its order */
static inline Task task_of(int64_t n, const double *signs, const double *weights, const double *strengths, double bias,
                           const double *limits) {
    Limits of_task = {limits[0], limits[1], limits[2], (int64_t)limits[3], (int64_t)limits[4], limits[5], limits[6]};
    Task task = {n, signs, weights, strengths[0], strengths[1], strengths[2], bias, of_task};
    return task;
}

typedef struct {
    double intercept, primal, dual, scale;
} Answer;

#define NOT_SOLVED {0.0, INFINITY, -INFINITY, 0.0}

/* A negative gap is rounding: as far as it goes, the values say nothing about the solution. */
static inline double relative_gap(const Answer *answer) {
    double gap = answer->primal - answer->dual;
    if (!isfinite(gap)) return INFINITY;
    return answer->scale > 0.0 ? fabs(gap) / answer->scale : 0.0;
}

/* Solve Eq. 12 for one design, given by its d columns of n numbers. beta is the dual point to start from, and is overwritten by the solution.
 * kept, unless it is NULL, is memory of kept_size, zero at first, for what does not depend on lambda and mu: a later solve
 * for the same samples and labels finds it there, if they have fewer rows than columns.
 *
 * Returns 0, 1 if memory is missing, 2 if the quadratic form is not definite.
 */
int tensormargin_solve_block(const Task *task, int64_t d, const double *design, double *kept, double *beta,
                             double *vector, Answer *answer);

static inline int64_t kept_size(int64_t n, int64_t d) { return n * (d + 1) + d + n * n + n + 1; }

int64_t tensormargin_factor_gram(const double *gram, int64_t n, double *out, int64_t *chosen, double *memory);

void tensormargin_combine(const double *factored, const int64_t *chosen, int64_t n, int64_t rank, double *vector,
                          double *coefficients);

#endif
