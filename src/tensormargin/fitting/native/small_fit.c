/* A small fit: sweeps from one or two starts until the weight no longer changes. A sweep is a step in the tangent space of
 * the weights of one rank, and a fit of the core there.
 *
 * The same steps as fitting/alternation.py takes with fitting/formats/tucker.py, in one call without the GIL.
 * tests/fitting/test_small_fits.py compares both. The weight is a Tucker tensor with orthonormal factors; all arrays are
 * row-major. With several views there is one such tensor per view, and the columns of all views are side by side; a full
 * weight is one of order zero, which has a core but no factors. A sum of rank-one tensors (fitting/formats/cp.py) is such
 * a tensor whose core is a sum of rank-one tensors, and instead of the core one of its factors is fitted.
 */

#include "small.h"

#define MOST_MODES 16
#define KEPT 4 /* contractions: of the weights of two runs, and of those that a step is tried with */
#define LONGEST_STEP 64.0 /* as in alternation.py */
#define SYMMETRIC 1e-6 /* as in formats/base.py */
#define NOT_EXACT 3
#define NO_START 4
#define DEPENDENT 1e-4 /* square of the one in formats/cp.py */
#define VANISHING 1e-10 /* as in formats/cp.py */
#define SMALLEST 1e-4 /* as in formats/cp.py */

typedef struct {
    int64_t order, entries, core_size;
    const int64_t *sizes, *ranks;
    int64_t count, fitted; /* rank-one tensors, or 0; and the factor of these that is fitted after a step */
    const int64_t *in_turn; /* the factors in the order of a pass over them */
} Shape;

typedef struct { /* a core, and one size x rank factor per mode; for a sum of rank-one tensors also the factors of the
                    core, with unit columns (rank x count), and the lengths of its components */
    double *core, *factors[MOST_MODES], *inner[MOST_MODES], *lengths;
} Tucker;

typedef struct { /* one Tucker tensor per view, with all cores one after the other */
    double *core;
    Tucker *views;
    double intercept, primal, dual, scale;
    double *beta;
} Weight;

typedef struct { /* what is known of a view, and memory for its bases */
    Shape shape;
    const double *samples;
    int64_t width;             /* columns of the tangent space */
    double *rows[MOST_MODES];  /* orthonormal basis of the core's unfolding: (core_size / rank) x rank */
    double *turns[MOST_MODES]; /* reflections that turn a factor to the last axes: rank x size */
    double *bases[MOST_MODES]; /* size x (rank + added): a factor, and the directions in which it changes */
    double *triangles[MOST_MODES];
    int64_t wide[MOST_MODES]; /* rank + added */
    double *whitening[MOST_MODES]; /* of sums of rank-one tensors: count x count, from rows to their products */
    int64_t within;                /* columns of the tangent space that change the core */
    double *last[KEPT], *last_factor[KEPT]; /* samples contracted with factors of the last mode, and these */
    int64_t n_last;
    double *basis, *changes;       /* these: core_size x within, and the changes of inner factors that they stand for */
} View;

typedef struct {
    const Task *task;
    int64_t n_views, core_size, width, entries; /* the last three summed over the views */
    View *views;
    double *here, *there;    /* contracted samples */
    double *design, *vector; /* of the tangent space */
    double *cores;           /* design of the cores, unless there is only one */
    double *whole, *part;    /* core in wider bases */
    double *gram, *axes;     /* of an unfolding of it */
    double *change;          /* of a factor */
    double *unfolded;        /* the same of a dense tensor */
    double *dense;           /* the weight before the sweep */
    Weight trial, other;     /* at the end of a step */
    double *products;        /* of the columns of inner factors */
    double *jacobian;        /* of a core that is a sum of rank-one tensors */
    double *factor;          /* a factor of such a sum; its solution, and rows and whitening */
    double *step;            /* lengths, and coordinates of a change of the core */
} Memory;

typedef struct { /* when to stop; see alternation.py and tuning.py */
    double shortest;   /* share of a step */
    double stationary; /* promised decrease below which no step is made */
    double good;       /* share of the promised decrease that a good step gains */
    double tol, gap, rest, slowest_decay;
    int64_t raced, most; /* sweeps from two starts before one can be dropped, and in all */
} Rules;

typedef struct { /* the sweeps from one start, with RECORDED numbers for each */
    Weight at;
    double *records;
    int64_t done;
    int converged, passes_next; /* whether the next sweep is a pass over the factors */
} Run;

enum { OBJECTIVE, GAP, CHANGE, DECREASE, RECORDED };

/* ---- small matrices ---- */

/* Add to two vectors, or to the first alone, combinations of four others, by four factors for each. */
static inline void add_four_to_two(double *restrict a, double *restrict b, int both, const double *restrict factors,
                                   const double *restrict from, int64_t step, int64_t size) {
    if (!both) {
        add_four(a, factors, from, step, size);
        return;
    }
    double f0 = factors[0], f1 = factors[1], f2 = factors[2], f3 = factors[3];
    double g0 = factors[4], g1 = factors[5], g2 = factors[6], g3 = factors[7];
    const double *c1 = from + step, *c2 = c1 + step, *c3 = c2 + step;
    for (int64_t i = 0; i < size; i++) {
        double x0 = from[i], x1 = c1[i], x2 = c2[i], x3 = c3[i];
        a[i] += (f0 * x0 + f1 * x1) + (f2 * x2 + f3 * x3);
        b[i] += (g0 * x0 + g1 * x1) + (g2 * x2 + g3 * x3);
    }
}

/* out[o, a, i] = sum_s matrix[s, a] tensor[o, s, i] for a size x rows matrix (matrix[a, s] for a rows x size one) */
FAST static void multiply_mode(const double *tensor, int64_t outer, int64_t size, int64_t inner, const double *matrix,
                          int64_t rows, int transposed, double *out) {
    int64_t step = transposed ? rows : 1, next = transposed ? 1 : size;
    memset(out, 0, outer * rows * inner * sizeof(double));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t a = 0; a < rows; a += 2) { /* each number loaded is used twice */
            int both = a + 1 < rows;
            double *to = out + (o * rows + a) * inner;
            const double *from = tensor + o * size * inner, *entry = matrix + a * next, *below = entry + both * next;
            int64_t s = 0;
            for (; s + 3 < size; s += 4) {
                double factors[8];
                for (int64_t f = 0; f < 4; f++) factors[f] = entry[(s + f) * step], factors[4 + f] = below[(s + f) * step];
                add_four_to_two(to, to + both * inner, both, factors, from + s * inner, inner, inner);
            }
            for (; s < size; s++) {
                add(to, entry[s * step], from + s * inner, inner);
                if (both) add(to + inner, below[s * step], from + s * inner, inner);
            }
        }
}

/* Reflect the rows of a size x width matrix; along is memory for a row. */
FAST static void reflect(const double *turn, int64_t size, double *matrix, int64_t width, double *along) {
    memset(along, 0, width * sizeof(double));
    for (int64_t s = 0; s < size; s++) add(along, turn[s], matrix + s * width, width);
    for (int64_t s = 0; s < size; s++) add(matrix + s * width, -turn[s], along, width);
}

/* Turn a symmetric matrix to one with three diagonals, by reflections from both sides; write its diagonal and the one
 * next to it, and as rows the axes in which it has that form. memory is for 2 size numbers. */
FAST static void to_three_diagonals(double *matrix, int64_t size, double *diagonal, double *next, double *rows,
                               double *memory) {
    double *turn = memory, *along = memory + size;
    for (int64_t i = 0; i < size * size; i++) rows[i] = i % (size + 1) == 0;
    for (int64_t k = 0; k < size - 1; k++) {
        int64_t left = size - k - 1;
        double *rest = matrix + (k + 1) * size + k + 1;
        for (int64_t i = 0; i < left; i++) turn[i] = matrix[(k + 1 + i) * size + k];
        double length = sqrt(dot(turn, turn, left));
        diagonal[k] = matrix[k * (size + 1)], next[k] = turn[0] < 0.0 ? length : -length;
        turn[0] -= next[k];
        double square = dot(turn, turn, left), scale = square > 0.0 ? sqrt(2.0 / square) : 0.0;
        for (int64_t i = 0; i < left; i++) turn[i] *= scale;
        for (int64_t i = 0; i < left; i++) along[i] = dot(rest + i * size, turn, left);
        add(along, -0.5 * dot(along, turn, left), turn, left);
        for (int64_t i = 0; i < left; i++) {
            add(rest + i * size, -turn[i], along, left);
            add(rest + i * size, -along[i], turn, left);
        }
        reflect(turn, left, rows + (k + 1) * size, size, along);
    }
    diagonal[size - 1] = matrix[size * size - 1], next[size - 1] = 0.0;
}

/* One round of the QL algorithm with implicit shifts for a matrix with three diagonals, from first to last row. */
FAST static void shift_diagonals(double *diagonal, double *next, int64_t first, int64_t last, double *rows, int64_t size) {
    double slant = (diagonal[first + 1] - diagonal[first]) / (2.0 * next[first]), sine = 1.0, cosine = 1.0, moved = 0.0;
    double bulge = diagonal[last] - diagonal[first] + next[first] / (slant + copysign(sqrt(slant * slant + 1.0), slant));
    for (int64_t i = last - 1; i >= first; i--) {
        double over = sine * next[i], own = cosine * next[i], length = sqrt(over * over + bulge * bulge);
        next[i + 1] = length;
        if (length == 0.0) { /* it has fallen apart */
            diagonal[i + 1] -= moved, next[last] = 0.0;
            return;
        }
        sine = over / length, cosine = bulge / length, bulge = diagonal[i + 1] - moved;
        double turned = (diagonal[i] - bulge) * sine + 2.0 * cosine * own;
        moved = sine * turned, diagonal[i + 1] = bulge + moved, bulge = cosine * turned - own;
        double *upper = rows + i * size, *lower = upper + size;
        for (int64_t k = 0; k < size; k++) {
            double above = upper[k], below = lower[k];
            lower[k] = sine * above + cosine * below, upper[k] = cosine * above - sine * below;
        }
    }
    diagonal[first] -= moved, next[first] = bulge, next[last] = 0.0;
}

/* Diagonalise a symmetric matrix; the columns of axes are its eigenvectors, largest value first. memory is for size^2 +
 * 4 size numbers. */
FAST static void eigenvectors(double *matrix, int64_t size, double *axes, double *memory) {
    double *rows = memory, *diagonal = rows + size * size, *next = diagonal + size;
    to_three_diagonals(matrix, size, diagonal, next, rows, next + size);
    for (int64_t first = 0; first < size; first++)
        for (int64_t round = 0; round < 60; round++) {
            int64_t last = first;
            for (; last + 1 < size; last++)
                if (fabs(next[last]) <= EPSILON * (fabs(diagonal[last]) + fabs(diagonal[last + 1]))) break;
            if (last == first) break;
            shift_diagonals(diagonal, next, first, last, rows, size);
        }
    for (int64_t a = 0; a < size; a++) { /* in order of the values */
        int64_t best = 0;
        for (int64_t b = 1; b < size; b++)
            if (diagonal[b] > diagonal[best]) best = b;
        matrix[a * (size + 1)] = diagonal[best], diagonal[best] = -INFINITY;
        for (int64_t k = 0; k < size; k++) axes[k * size + a] = rows[best * size + k];
    }
}

/* Subtract from a column its parts along the first columns of a matrix, twice; add them to parts, if given. */
static void remove_columns(double *column, const double *matrix, int64_t rows, int64_t width, int64_t from, int64_t to,
                           double *parts) {
    for (int64_t turn = 0; turn < 2; turn++)
        for (int64_t b = from; b < to; b++) {
            double part = 0.0;
            for (int64_t i = 0; i < rows; i++) part += matrix[i * width + b] * column[i];
            for (int64_t i = 0; i < rows; i++) column[i] -= part * matrix[i * width + b];
            if (parts != NULL) parts[b] += part;
        }
}

/* Make the columns of a tall matrix orthonormal, in place; a vanishing one is replaced by any other direction. */
static void orthonormalise(double *matrix, int64_t rows, int64_t columns, double *column) {
    int64_t unit = 0;
    for (int64_t a = 0; a < columns; a++) {
        for (int64_t i = 0; i < rows; i++) column[i] = matrix[i * columns + a];
        double before = sqrt(dot(column, column, rows));
        for (;;) {
            remove_columns(column, matrix, rows, columns, 0, a, NULL);
            double length = sqrt(dot(column, column, rows));
            if (length > 1e-10 * before && length > 0.0) {
                for (int64_t i = 0; i < rows; i++) matrix[i * columns + a] = column[i] / length;
                break;
            }
            memset(column, 0, rows * sizeof(double));
            column[unit++ % rows] = 1.0;
            before = 1.0;
        }
    }
}

/* Write reflections that turn the span of orthonormal columns to that of the last axes, one after the other; what they
 * turn to the others are the directions away from it. memory is for size x rank + rank numbers. */
static void find_turns(const double *factor, int64_t size, int64_t rank, double *turns, double *memory) {
    double *left = memory, *along = left + size * rank;
    memcpy(left, factor, size * rank * sizeof(double));
    memset(turns, 0, size * rank * sizeof(double));
    for (int64_t a = 0; a < rank; a++) {
        int64_t last = size - 1 - a;
        double *turn = turns + a * size;
        for (int64_t s = 0; s <= last; s++) turn[s] = left[s * rank + a];
        double length = sqrt(dot(turn, turn, last + 1));
        turn[last] += turn[last] < 0.0 ? -length : length;
        double square = dot(turn, turn, last + 1), scale = square > 0.0 ? sqrt(2.0 / square) : 0.0;
        for (int64_t s = 0; s <= last; s++) turn[s] *= scale;
        reflect(turn, last + 1, left, rank, along);
    }
}

/* ---- contractions ---- */

/* Contract the samples with the factor of the last mode; what was contracted with the same factor before is kept. */
static const double *contract_last(Memory *m, View *view, const double *factor) {
    const Shape *shape = &view->shape;
    int64_t last = shape->order - 1, size = shape->sizes[last], rank = shape->ranks[last];
    size_t bytes = size * rank * sizeof(double);
    for (int64_t place = 0; place < KEPT && place < view->n_last; place++)
        if (memcmp(view->last_factor[place], factor, bytes) == 0) return view->last[place];
    int64_t place = view->n_last++ % KEPT;
    multiply_mode(view->samples, shape->entries / size, size, m->task->n, factor, rank, 1, view->last[place]);
    memcpy(view->last_factor[place], factor, bytes);
    return view->last[place];
}

/* Contract the samples with the factors of all modes but one (-1: of all); return where the result lies. */
static const double *contract(Memory *m, View *view, double *const *factors, int64_t skipped) {
    const Shape *shape = &view->shape;
    const double *from = view->samples;
    double *to = m->here, *spare = m->there;
    int64_t inner = m->task->n, outer = shape->entries;
    for (int64_t k = shape->order - 1; k >= 0; k--) {
        int64_t size = shape->sizes[k], rank = shape->ranks[k];
        outer /= size;
        if (k == skipped) {
            inner *= size;
            continue;
        }
        if (k == shape->order - 1) {
            from = contract_last(m, view, factors[k]);
        } else {
            multiply_mode(from, outer, size, inner, factors[k], rank, 1, to);
            from = to;
            to = spare;
            spare = (double *)from;
        }
        inner *= rank;
    }
    return from;
}

/* Write the columns of a design for one factor, size x width, given rows of the core for all other modes, others x width;
 * those of the core as well, if asked for the first mode. */
FAST static void columns_of_factor(Memory *m, View *view, const Tucker *weight, int64_t mode, const double *rows,
                                   int64_t width, double *columns, double *core) {
    const Shape *shape = &view->shape;
    int64_t n = m->task->n, size = shape->sizes[mode], lead = 1, trail = 1;
    for (int64_t k = 0; k < shape->order; k++) {
        if (k < mode) lead *= shape->ranks[k];
        if (k > mode) trail *= shape->ranks[k];
    }
    const double *partial = contract(m, view, weight->factors, mode);
    if (core != NULL) multiply_mode(partial, 1, size, trail * n, weight->factors[mode], shape->ranks[mode], 1, core);
    memset(columns, 0, size * width * n * sizeof(double));
    for (int64_t l = 0; l < lead; l++)
        for (int64_t s = 0; s < size; s++)
            for (int64_t t = 0; t < trail; t++)
                for (int64_t a = 0; a < width; a++) {
                    double entry = rows[(l * trail + t) * width + a];
                    if (entry != 0.0)
                        add(columns + (s * width + a) * n, entry, partial + ((l * size + s) * trail + t) * n, n);
                }
}

/* Write the columns of the tangent space's design that change one factor away from its span, and rank^2 more behind them;
 * those of the core as well, if asked for the first mode. */
FAST static void changes_of_factor(Memory *m, View *view, const Tucker *weight, int64_t mode, double *columns,
                                   double *core) {
    int64_t n = m->task->n, size = view->shape.sizes[mode], rank = view->shape.ranks[mode];
    columns_of_factor(m, view, weight, mode, view->rows[mode], rank, columns, core);
    find_turns(weight->factors[mode], size, rank, view->turns[mode], m->change);
    for (int64_t a = 0; a < rank; a++) /* the contracted samples are no longer needed */
        reflect(view->turns[mode] + a * size, size - a, columns, rank * n, m->here);
}

static int is_free(const Shape *shape, int64_t mode) { return shape->ranks[mode] < shape->sizes[mode]; }

/* Number of directions in which a factor changes away from its span. */
static int64_t away(const Shape *shape, int64_t mode) { return (shape->sizes[mode] - shape->ranks[mode]) * shape->ranks[mode]; }

/* Write the design of the tangent space at a weight: for each view its core, and the changes of its factors. */
static void tangent_design(Memory *m, const Weight *weight) {
    double *next = m->design;
    for (int64_t v = 0; v < m->n_views; v++) {
        View *view = m->views + v;
        const Shape *shape = &view->shape;
        const Tucker *own = weight->views + v;
        double *core = shape->count > 0 ? m->cores : next;
        int shared = shape->order > 0 && is_free(shape, 0);
        if (!shared) memcpy(core, contract(m, view, own->factors, -1), shape->core_size * m->task->n * sizeof(double));
        double *of_core = next;
        next += view->within * m->task->n;
        for (int64_t k = 0; k < shape->order; k++) {
            if (!is_free(shape, k)) continue;
            changes_of_factor(m, view, own, k, next, k == 0 ? core : NULL);
            next += away(shape, k) * m->task->n;
        }
        if (shape->count > 0) multiply_mode(core, 1, shape->core_size, m->task->n, view->basis, view->within, 1, of_core);
    }
}

/* Write an orthonormal basis of the rows of each of the core's unfoldings. */
static void bases_of_core(Memory *m, View *view, const Tucker *weight) {
    const Shape *shape = &view->shape;
    int64_t trail = shape->core_size, lead = 1;
    for (int64_t k = 0; k < shape->order; k++) {
        int64_t rank = shape->ranks[k], others = shape->core_size / rank;
        trail /= rank;
        for (int64_t l = 0; l < lead; l++)
            for (int64_t a = 0; a < rank; a++)
                for (int64_t t = 0; t < trail; t++)
                    view->rows[k][(l * trail + t) * rank + a] = weight->core[(l * rank + a) * trail + t];
        if (others == rank) /* any basis of the whole space */
            for (int64_t a = 0; a < rank * rank; a++) view->rows[k][a] = a % (rank + 1) == 0;
        else if (is_free(shape, k))
            orthonormalise(view->rows[k], others, rank, m->part);
        lead *= rank;
    }
}

/* ---- sums of rank-one tensors ---- */

/* Write the products of the columns of all inner factors but one (-1: of all), others x count. */
static void multiply_columns(const Shape *shape, const Tucker *weight, int64_t skipped, double *out) {
    int64_t done = 1, count = shape->count;
    for (int64_t r = 0; r < count; r++) out[r] = 1.0;
    for (int64_t k = 0; k < shape->order; k++) {
        if (k == skipped) continue;
        int64_t rank = shape->ranks[k];
        for (int64_t o = done - 1; o >= 0; o--)
            for (int64_t i = rank - 1; i >= 0; i--)
                for (int64_t r = 0; r < count; r++)
                    out[(o * rank + i) * count + r] = out[o * count + r] * weight->inner[k][i * count + r];
        done *= rank;
    }
}

/* Write an orthonormal basis of these products, others x count, and the matrix that turns them into it; zeros stand for
 * directions whose squared length is below a share of the largest. gram and axes are memory for count^2 and
 * 2 count^2 + 4 count numbers. */
static void whiten_columns(const double *products, int64_t others, int64_t count, double share, double *gram,
                           double *axes, double *whitening, double *rows) {
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = 0; b < count; b++) {
            double sum = 0.0;
            for (int64_t o = 0; o < others; o++) sum += products[o * count + a] * products[o * count + b];
            gram[a * count + b] = sum;
        }
    eigenvectors(gram, count, axes, axes + count * count);
    for (int64_t a = 0; a < count; a++) {
        double value = gram[a * count + a], factor = value > share * gram[0] ? 1.0 / sqrt(value) : 0.0;
        for (int64_t r = 0; r < count; r++) whitening[r * count + a] = factor * axes[r * count + a];
    }
    memset(rows, 0, others * count * sizeof(double));
    for (int64_t o = 0; o < others; o++)
        for (int64_t r = 0; r < count; r++) add(rows + o * count, products[o * count + r], whitening + r * count, count);
}

/* Write a factor with columns of any length, size x count, into a weight: orthonormal columns that span it, and unit
 * columns in these. The lengths of the components are multiplied by those of its columns. */
static void write_factor(Memory *m, const Shape *shape, int64_t mode, double *factor, Tucker *out) {
    int64_t size = shape->sizes[mode], rank = shape->ranks[mode], count = shape->count;
    double *span = out->factors[mode], *inner = out->inner[mode];
    for (int64_t r = 0; r < count; r++) {
        double square = 0.0;
        for (int64_t i = 0; i < size; i++) square += factor[i * count + r] * factor[i * count + r];
        double length = sqrt(square);
        out->lengths[r] *= length;
        for (int64_t i = 0; i < size; i++) {
            double *entry = factor + i * count + r;
            *entry = length > 0.0 ? *entry / length : sqrt(1.0 / size);
        }
    }
    if (rank < count || rank == size) { /* all directions */
        for (int64_t i = 0; i < size * rank; i++) span[i] = i % (rank + 1) == 0;
    } else {
        memcpy(span, factor, size * rank * sizeof(double));
        orthonormalise(span, size, rank, m->part);
    }
    memset(inner, 0, rank * count * sizeof(double));
    for (int64_t i = 0; i < size; i++)
        for (int64_t a = 0; a < rank; a++) add(inner + a * count, span[i * rank + a], factor + i * count, count);
}

/* Write the core of a weight from its inner factors. */
static void sum_components(Memory *m, const Shape *shape, Tucker *weight) {
    multiply_columns(shape, weight, -1, m->products);
    for (int64_t c = 0; c < shape->core_size; c++)
        weight->core[c] = dot(m->products + c * shape->count, weight->lengths, shape->count);
}

/* Write the changes of a core with its inner factors, core_size x (all of their entries); return the number of these. */
static int64_t write_jacobian(Memory *m, const Shape *shape, const Tucker *weight) {
    int64_t count = shape->count, width = 0, first = 0, trail = shape->core_size;
    for (int64_t k = 0; k < shape->order; k++) width += shape->ranks[k] * count;
    memset(m->jacobian, 0, shape->core_size * width * sizeof(double));
    for (int64_t k = 0; k < shape->order; k++) {
        int64_t rank = shape->ranks[k];
        trail /= rank;
        multiply_columns(shape, weight, k, m->products);
        for (int64_t other = 0; other < shape->core_size / rank; other++)
            for (int64_t i = 0; i < rank; i++)
                memcpy(m->jacobian + (((other / trail) * rank + i) * trail + other % trail) * width + first + i * count,
                       m->products + other * count, count * sizeof(double));
        first += rank * count;
    }
    return width;
}

/* Write the part of the tangent space that changes the core of a sum of rank-one tensors, and rows for the others. */
static void bases_of_components(Memory *m, View *view, const Tucker *weight) {
    const Shape *shape = &view->shape;
    int64_t width = write_jacobian(m, shape, weight), kept = 0;
    double *gram = m->jacobian + shape->core_size * width, *axes = gram + width * width;
    for (int64_t a = 0; a < width; a++)
        for (int64_t b = 0; b <= a; b++) {
            double sum = 0.0;
            for (int64_t c = 0; c < shape->core_size; c++) sum += m->jacobian[c * width + a] * m->jacobian[c * width + b];
            gram[a * width + b] = gram[b * width + a] = sum;
        }
    eigenvectors(gram, width, axes, axes + width * width);
    while (kept < width && kept < shape->core_size && gram[kept * (width + 1)] > DEPENDENT * gram[0]) kept++;
    memset(view->basis, 0, shape->core_size * kept * sizeof(double));
    for (int64_t a = 0; a < kept; a++) {
        double root = sqrt(gram[a * (width + 1)]);
        for (int64_t b = 0; b < width; b++) view->changes[b * kept + a] = axes[b * width + a] / root;
    }
    for (int64_t c = 0; c < shape->core_size; c++)
        for (int64_t b = 0; b < width; b++)
            add(view->basis + c * kept, m->jacobian[c * width + b], view->changes + b * kept, kept);
    m->width += kept - view->within, view->width += kept - view->within, view->within = kept;
    for (int64_t k = 0; k < shape->order; k++) {
        if (!is_free(shape, k)) continue;
        int64_t count = shape->count;
        multiply_columns(shape, weight, k, m->products);
        whiten_columns(m->products, shape->core_size / shape->ranks[k], count, DEPENDENT, gram, gram + count * count,
                       view->whitening[k], view->rows[k]);
    }
}

/* ---- from the tangent space back to weights of the same rank ---- */

/* Write a basis of a factor and its change, size x (rank + added), and the coordinates of the change in it. */
static void widen(Memory *m, View *view, const double *factor, const double *change, double share, int64_t mode) {
    int64_t size = view->shape.sizes[mode], rank = view->shape.ranks[mode], width = 2 * rank, added = 0;
    double *basis = view->bases[mode], *triangle = view->triangles[mode], *column = m->part, *parts = m->gram;
    memset(basis, 0, size * width * sizeof(double));
    memset(triangle, 0, width * rank * sizeof(double));
    for (int64_t i = 0; i < size; i++) memcpy(basis + i * width, factor + i * rank, rank * sizeof(double));
    for (int64_t a = 0; a < rank && change != NULL; a++) {
        for (int64_t i = 0; i < size; i++) column[i] = share * change[i * rank + a];
        double before = sqrt(dot(column, column, size));
        memset(parts, 0, width * sizeof(double));
        remove_columns(column, basis, size, width, 0, rank + added, parts);
        double length = sqrt(dot(column, column, size));
        for (int64_t b = 0; b < added; b++) triangle[(rank + b) * rank + a] = parts[rank + b];
        if (rank + added < size && length > 1e-12 * before) {
            for (int64_t i = 0; i < size; i++) basis[i * width + rank + added] = column[i] / length;
            triangle[(rank + added) * rank + a] = length;
            added++;
        }
    }
    view->wide[mode] = rank + added;
}

/* Add to the widened core the term in which one mode has changed (-1: none has; the core itself is added). */
static void add_term(Memory *m, const View *view, const double *core, int64_t changed) {
    const Shape *shape = &view->shape;
    int64_t steps[MOST_MODES], index[MOST_MODES] = {0}, step = 1;
    for (int64_t k = shape->order - 1; k >= 0; k--) steps[k] = step, step *= view->wide[k];
    int64_t trail = 1, rank = changed < 0 ? 1 : shape->ranks[changed];
    for (int64_t k = changed + 1; changed >= 0 && k < shape->order; k++) trail *= shape->ranks[k];
    for (int64_t place = 0; place < shape->core_size; place++) {
        int64_t where = 0;
        for (int64_t k = 0; k < shape->order; k++)
            if (k != changed) where += index[k] * steps[k];
        if (changed < 0) {
            m->whole[where] += core[place];
        } else { /* this entry of the other modes, and direction index[changed] of the rows' basis */
            int64_t lead = place / (trail * rank), other = lead * trail + place % trail, a = index[changed];
            for (int64_t c = 0; c < rank; c++) {
                double coordinate = view->rows[changed][other * rank + c];
                if (rank + a < view->wide[changed])
                    m->whole[where + (rank + a) * steps[changed]] +=
                        view->triangles[changed][(rank + a) * rank + c] * coordinate;
            }
        }
        for (int64_t k = shape->order - 1; k >= 0 && ++index[k] == shape->ranks[k]; k--) index[k] = 0;
    }
}

/* Multiply numbers by a power of two, which rounds nothing, so that the largest is between 1/2 and 1. */
static void to_unit_range(double *numbers, int64_t size) {
    double largest = 0.0;
    int exponent;
    for (int64_t i = 0; i < size; i++) largest = fmax(largest, fabs(numbers[i]));
    if (!(largest > 0.0) || !isfinite(largest)) return;
    frexp(largest, &exponent);
    double factor = ldexp(1.0, exponent < -1000 ? 1000 : -exponent); /* finite */
    for (int64_t i = 0; i < size; i++) numbers[i] *= factor;
}

/* Write the leading vectors of an unfolding of the widened core into axes, wide x rank. */
static void leading_vectors(Memory *m, const View *view, int64_t mode) {
    int64_t wide = view->wide[mode], rank = view->shape.ranks[mode], lead = 1, trail = 1;
    for (int64_t k = 0; k < view->shape.order; k++) {
        if (k < mode) lead *= view->wide[k];
        if (k > mode) trail *= view->wide[k];
    }
    double *all = m->axes + wide * rank;
    to_unit_range(m->whole, lead * wide * trail); /* the eigensolver takes squares of squares of these numbers */
    for (int64_t a = 0; a < wide; a++)
        for (int64_t b = 0; b <= a; b++) {
            double sum = 0.0;
            for (int64_t l = 0; l < lead; l++)
                sum += dot(m->whole + (l * wide + a) * trail, m->whole + (l * wide + b) * trail, trail);
            m->gram[a * wide + b] = m->gram[b * wide + a] = sum;
        }
    eigenvectors(m->gram, wide, all, all + wide * wide);
    for (int64_t a = 0; a < wide; a++) memcpy(m->axes + a * rank, all + a * wide, rank * sizeof(double));
}

/* Write the change of a factor, size x rank, given its coordinates in the directions away from its span. */
static void turn_back(Memory *m, const View *view, int64_t mode, const double *coordinates) {
    int64_t size = view->shape.sizes[mode], rank = view->shape.ranks[mode], own = away(&view->shape, mode);
    memcpy(m->change, coordinates, own * sizeof(double));
    memset(m->change + own, 0, rank * rank * sizeof(double));
    for (int64_t a = rank - 1; a >= 0 && own > 0; a--)
        reflect(view->turns[mode] + a * size, size - a, m->change, rank, m->part);
}

/* Write a weight of one view; see retract. */
static void retract_view(Memory *m, View *view, const Tucker *at, const double *vector, double share, Tucker *out) {
    const Shape *shape = &view->shape;
    const double *change = vector + shape->core_size;
    int64_t size = 1;
    for (int64_t c = 0; c < shape->core_size; c++)
        out->core[c] = at->core[c] + share * (vector[c] - at->core[c]);
    if (shape->order == 0) return;
    for (int64_t k = 0; k < shape->order; k++) {
        int64_t own = away(shape, k);
        turn_back(m, view, k, change);
        widen(m, view, at->factors[k], own > 0 ? m->change : NULL, share, k);
        change += own;
        size *= view->wide[k];
    }
    memset(m->whole, 0, size * sizeof(double));
    add_term(m, view, out->core, -1);
    for (int64_t k = 0; k < shape->order; k++)
        if (is_free(shape, k)) add_term(m, view, NULL, k);
    for (int64_t k = 0; k < shape->order; k++) {
        int64_t rank = shape->ranks[k];
        if (view->wide[k] == rank) {
            memcpy(out->factors[k], at->factors[k], shape->sizes[k] * rank * sizeof(double));
            continue;
        }
        leading_vectors(m, view, k);
        for (int64_t i = 0; i < shape->sizes[k]; i++) {
            double *row = out->factors[k] + i * rank;
            memset(row, 0, rank * sizeof(double));
            for (int64_t b = 0; b < view->wide[k]; b++)
                add(row, view->bases[k][i * 2 * rank + b], m->axes + b * rank, rank);
        }
    }
}

/* Write a sum of rank-one tensors whose factors have changed, with lengths spread evenly over them; see retract. */
static void retract_components(Memory *m, View *view, const Tucker *at, const double *vector, double share, Tucker *out) {
    const Shape *shape = &view->shape;
    const double *change = vector + view->within, *turns = view->changes;
    int64_t count = shape->count, within = view->within;
    double *roots = m->step, *others = roots + count, *moved = others + count, longest = 0.0, power = 1.0 / shape->order;
    for (int64_t r = 0; r < count; r++) {
        roots[r] = pow(at->lengths[r], power), longest = fmax(longest, roots[r]);
        out->lengths[r] = 1.0;
    }
    if (!(longest > 0.0)) longest = 1.0;
    for (int64_t r = 0; r < count; r++) others[r] = pow(fmax(roots[r], pow(SMALLEST, power) * longest), shape->order - 1);
    memcpy(moved, vector, within * sizeof(double));
    for (int64_t c = 0; c < shape->core_size; c++) add(moved, -at->core[c], view->basis + c * within, within);
    for (int64_t a = 0; a < within; a++) moved[a] *= share;
    for (int64_t k = 0; k < shape->order; k++) {
        int64_t size = shape->sizes[k], rank = shape->ranks[k], own = away(shape, k);
        double *factor = m->factor;
        memset(factor, 0, size * count * sizeof(double));
        for (int64_t a = 0; a < rank; a++)
            for (int64_t r = 0; r < count; r++, turns += within) {
                double entry = at->inner[k][a * count + r] * roots[r] + dot(turns, moved, within) / others[r];
                for (int64_t i = 0; i < size; i++) factor[i * count + r] += at->factors[k][i * rank + a] * entry;
            }
        if (own > 0) {
            turn_back(m, view, k, change);
            for (int64_t i = 0; i < size; i++)
                for (int64_t r = 0; r < count; r++)
                    factor[i * count + r] +=
                        share * dot(m->change + i * rank, view->whitening[k] + r * count, count) / others[r];
        }
        write_factor(m, shape, k, factor, out);
        change += own;
    }
    sum_components(m, shape, out);
}

/* Write a weight of the same rank near the point of the tangent space that lies a share of the way to a vector. */
static void retract(Memory *m, const Weight *at, const double *vector, double share, Weight *out) {
    for (int64_t v = 0; v < m->n_views; v++) {
        View *view = m->views + v;
        if (view->shape.count > 0) retract_components(m, view, at->views + v, vector, share, out->views + v);
        else retract_view(m, view, at->views + v, vector, share, out->views + v);
        vector += m->views[v].width;
    }
}

/* ---- the sweep ---- */

/* Keep what a solve has found; returns whether it has failed. */
static int keep_answer(Weight *weight, int failed, const Answer *answer) {
    weight->intercept = answer->intercept, weight->primal = answer->primal;
    weight->dual = answer->dual, weight->scale = answer->scale;
    return failed;
}

/* Fit one factor of a sum of rank-one tensors, given the others. */
static int fit_factor(Memory *m, Weight *weight, const double *beta, int64_t mode) {
    View *view = m->views;
    const Shape *shape = &view->shape;
    Tucker *own = weight->views;
    Answer answer = NOT_SOLVED;
    int64_t size = shape->sizes[mode], count = shape->count;
    double *factor = m->factor, *solution = factor + size * count, *rows = solution + size * count;
    double *whitening = rows + shape->core_size * count, *gram = whitening + count * count;
    multiply_columns(shape, own, mode, m->products);
    whiten_columns(m->products, shape->core_size / shape->ranks[mode], count, VANISHING, gram, gram + count * count,
                   whitening, rows);
    columns_of_factor(m, view, own, mode, rows, count, m->cores, NULL);
    memmove(weight->beta, beta, m->task->n * sizeof(double));
    int failed = tensormargin_solve_block(m->task, size * count, m->cores, NULL, weight->beta, solution, &answer);
    for (int64_t i = 0; i < size; i++)
        for (int64_t r = 0; r < count; r++)
            factor[i * count + r] = dot(solution + i * count, whitening + r * count, count);
    for (int64_t r = 0; r < count; r++) own->lengths[r] = 1.0;
    write_factor(m, shape, mode, factor, own);
    sum_components(m, shape, own);
    return keep_answer(weight, failed, &answer);
}

/* Fit the core of a weight whose factors are given. */
static int fit_core(Memory *m, Weight *weight, const double *beta) {
    Answer answer = NOT_SOLVED;
    if (m->views->shape.count > 0) return fit_factor(m, weight, beta, m->views->shape.fitted);
    memmove(weight->beta, beta, m->task->n * sizeof(double));
    const double *design = m->cores;
    double *next = m->cores;
    for (int64_t v = 0; v < m->n_views; v++) {
        const double *columns = contract(m, m->views + v, weight->views[v].factors, -1);
        int64_t size = m->views[v].shape.core_size * m->task->n;
        if (m->n_views == 1) design = columns;
        else memcpy(next, columns, size * sizeof(double)), next += size;
    }
    int failed = tensormargin_solve_block(m->task, m->core_size, design, NULL, weight->beta, weight->core, &answer);
    return keep_answer(weight, failed, &answer);
}

static double gap_of(const Weight *weight) {
    Answer answer = {0.0, weight->primal, weight->dual, weight->scale};
    return relative_gap(&answer);
}

static void copy_weight(const Memory *m, Weight *to, const Weight *from) {
    memcpy(to->core, from->core, m->core_size * sizeof(double));
    for (int64_t v = 0; v < m->n_views; v++) {
        const Shape *shape = &m->views[v].shape;
        for (int64_t k = 0; k < shape->order; k++) {
            memcpy(to->views[v].factors[k], from->views[v].factors[k],
                   shape->sizes[k] * shape->ranks[k] * sizeof(double));
            memcpy(to->views[v].inner[k], from->views[v].inner[k], shape->ranks[k] * shape->count * sizeof(double));
        }
        memcpy(to->views[v].lengths, from->views[v].lengths, shape->count * sizeof(double));
    }
    memcpy(to->beta, from->beta, m->task->n * sizeof(double));
    to->intercept = from->intercept, to->primal = from->primal, to->dual = from->dual, to->scale = from->scale;
}

/* Return where a weight of one view lies as a dense tensor: its core, or one of the buffers for contracted samples. */
static const double *expand(Memory *m, const Shape *shape, const Tucker *weight) {
    const double *from = weight->core;
    double *to = m->here, *spare = m->there;
    int64_t inner = 1, outer = shape->core_size;
    for (int64_t k = shape->order - 1; k >= 0; k--) {
        outer /= shape->ranks[k];
        multiply_mode(from, outer, shape->ranks[k], inner, weight->factors[k], shape->sizes[k], 0, to);
        inner *= shape->sizes[k];
        from = to;
        to = spare;
        spare = (double *)from;
    }
    return from;
}

/* Double a step that gains no less than the tangent space promises, as long as the objective falls. */
static int go_further(Memory *m, const Weight *at, const double *beta, double gain, Weight *trial, Weight *other) {
    for (double share = 2.0; at->primal - trial->primal >= gain && share <= LONGEST_STEP; share *= 2.0) {
        retract(m, at, m->vector, share, other);
        int failed = fit_core(m, other, beta);
        if (failed) return failed;
        if (!(other->primal < trial->primal)) return 0;
        copy_weight(m, trial, other);
    }
    return 0;
}

/* Try steps of decreasing length to the solution of the tangent space's problem; leave the best weight in trial.
 *
 * A step that gains less than half of what the tangent space promises is too long: half of it is tried as well. One
 * that gains all of it may be too short.
 */
static int search_along(Memory *m, const Weight *at, const double *beta, double promised, const Rules *rules, Weight *trial,
                        Weight *other) {
    double gain = at->primal - promised;
    int failed = 0;
    for (double share = 1.0; share >= rules->shortest; share *= 0.25) { /* 1, 1/2; 1/8, 1/16; ... */
        retract(m, at, m->vector, share, trial);
        failed = fit_core(m, trial, beta);
        if (failed) return failed;
        if (at->primal - trial->primal >= rules->good * gain)
            return share < 1.0 ? 0 : go_further(m, at, beta, gain, trial, other);
        share *= 0.5;
        retract(m, at, m->vector, share, other);
        failed = fit_core(m, other, beta);
        if (failed) return failed;
        if (!(trial->primal <= other->primal)) copy_weight(m, trial, other);
        if (trial->primal <= at->primal) return 0;
    }
    return 0;
}

typedef struct { /* numbers that are handed out one after the other; without a start they are only counted */
    double *start;
    int64_t used;
} Pool;

static double *take(Pool *pool, int64_t size) {
    double *taken = pool->start == NULL ? NULL : pool->start + pool->used;
    pool->used += size;
    return taken;
}

/* Take the cores and factors of all views. */
static void lay_out_views(const Memory *m, double *core, Pool *factors, Weight *weight) {
    Pool cores = {core, 0};
    weight->core = core;
    for (int64_t v = 0; v < m->n_views; v++) {
        const Shape *shape = &m->views[v].shape;
        weight->views[v].core = take(&cores, shape->core_size);
        for (int64_t k = 0; k < shape->order; k++)
            weight->views[v].factors[k] = take(factors, shape->sizes[k] * shape->ranks[k]);
        for (int64_t k = 0; k < shape->order; k++)
            weight->views[v].inner[k] = take(factors, shape->ranks[k] * shape->count);
        weight->views[v].lengths = take(factors, shape->count);
    }
}

static void lay_out_weight(const Memory *m, Pool *pool, Weight *weight) {
    double *core = take(pool, m->core_size);
    lay_out_views(m, core, pool, weight);
    weight->beta = take(pool, m->task->n);
}

/* Most columns of the designs of a core that is a sum of rank-one tensors and of its factors, or none. */
static int64_t width_of_components(const Shape *shape) {
    int64_t most = shape->count > 0 ? shape->core_size : 0;
    for (int64_t k = 0; k < shape->order; k++) most = larger(most, shape->sizes[k] * shape->count);
    return most;
}

/* Take what only sums of rank-one tensors need; there is one such view at most. */
static void lay_out_components(Memory *m, View *view, Pool *pool) {
    const Shape *shape = &view->shape;
    int64_t count = shape->count, entries = 0, longest = 0;
    if (count == 0) return;
    for (int64_t k = 0; k < shape->order; k++) {
        entries += shape->ranks[k] * count, longest = larger(longest, shape->sizes[k]);
        view->whitening[k] = take(pool, count * count);
    }
    view->basis = take(pool, shape->core_size * shape->core_size);
    view->changes = take(pool, entries * shape->core_size);
    m->products = take(pool, shape->core_size * count);
    m->jacobian = take(pool, shape->core_size * entries + 3 * entries * entries + 4 * entries);
    m->factor = take(pool, 2 * longest * count + shape->core_size * count + 4 * count * count + 4 * count);
    m->step = take(pool, 2 * count + shape->core_size);
}

/* Number of doubles that a fit needs; lays them out if memory is given. */
static int64_t lay_out(Memory *m, double *memory) {
    int64_t n = m->task->n, contracted = 1, largest = 1, longest = 1, widest = 1;
    Pool pool = {memory, 0};
    lay_out_weight(m, &pool, &m->trial);
    lay_out_weight(m, &pool, &m->other);
    for (int64_t v = 0; v < m->n_views; v++) {
        View *view = m->views + v;
        const Shape *shape = &view->shape;
        int64_t whole = 1;
        if (shape->order > 0) {
            int64_t size = shape->sizes[shape->order - 1], rank = shape->ranks[shape->order - 1];
            contracted = larger(contracted, shape->entries * n);
            for (int64_t place = 0; place < KEPT; place++) {
                view->last[place] = take(&pool, shape->entries / size * rank * n);
                view->last_factor[place] = take(&pool, size * rank);
            }
        }
        for (int64_t k = 0; k < shape->order; k++) {
            whole *= 2 * shape->ranks[k];
            longest = larger(longest, larger(shape->sizes[k], shape->core_size));
            widest = larger(widest, 2 * shape->ranks[k]);
            view->rows[k] = take(&pool, shape->core_size);
            view->turns[k] = take(&pool, shape->sizes[k] * shape->ranks[k]);
            view->bases[k] = take(&pool, 2 * shape->sizes[k] * shape->ranks[k]);
            view->triangles[k] = take(&pool, 2 * shape->ranks[k] * shape->ranks[k]);
        }
        largest = larger(largest, whole);
        lay_out_components(m, view, &pool);
    }
    m->here = take(&pool, larger(contracted, widest * widest * n));
    m->there = take(&pool, larger(contracted, widest * widest * n));
    m->design = take(&pool, n * (larger(m->width, 1) + widest * widest / 4));
    m->vector = take(&pool, m->width);
    m->cores = take(&pool, m->n_views > 1 ? n * m->core_size : n * width_of_components(&m->views->shape));
    m->whole = take(&pool, largest);
    m->part = take(&pool, longest);
    m->gram = take(&pool, widest * widest);
    m->axes = take(&pool, 3 * widest * widest + 4 * widest);
    m->unfolded = take(&pool, 3 * longest * longest + 4 * longest);
    m->change = take(&pool, longest * widest + widest);
    m->dense = take(&pool, m->entries);
    return pool.used;
}

/* Write the dense tensors of all views, one after the other. */
static void keep_dense(Memory *m, const Weight *weight) {
    double *next = m->dense;
    for (int64_t v = 0; v < m->n_views; v++) {
        const Shape *shape = &m->views[v].shape;
        memcpy(next, expand(m, shape, weight->views + v), shape->entries * sizeof(double));
        next += shape->entries;
    }
}

/* Return the distance of a weight from the one that keep_dense has written. */
static double distance(Memory *m, const Weight *weight) {
    double sum = 0.0;
    const double *before = m->dense;
    for (int64_t v = 0; v < m->n_views; v++) {
        const Shape *shape = &m->views[v].shape;
        const double *now = expand(m, shape, weight->views + v);
        for (int64_t i = 0; i < shape->entries; i++) sum += (now[i] - before[i]) * (now[i] - before[i]);
        before += shape->entries;
    }
    return sqrt(sum);
}

/* Read the shapes of all views, whose samples lie one after the other. */
static void describe(Memory *m, const int64_t *orders, const int64_t *sizes, const int64_t *ranks,
                     const int64_t *components, const double *samples) {
    for (int64_t v = 0; v < m->n_views; v++) {
        View *view = m->views + v;
        int64_t modes = orders[v];
        view->shape = (Shape){modes, 1, 1, sizes, ranks, components[0], components[1], components + 2};
        view->samples = samples;
        view->width = 0;
        for (int64_t k = 0; k < modes; k++) {
            view->shape.entries *= sizes[k], view->shape.core_size *= ranks[k];
            view->width += away(&view->shape, k);
        }
        if (modes == 0) view->shape.entries = view->shape.core_size = sizes[0], modes = 1;
        view->within = view->shape.core_size;
        view->width += view->within;
        m->entries += view->shape.entries, m->core_size += view->shape.core_size, m->width += view->width;
        samples += view->shape.entries * m->task->n;
        sizes += modes, ranks += modes;
    }
}

/* Make one sweep, and write what is recorded of it. Returns 0, or what tensormargin_solve_block returns. */
static int sweep(Memory *m, Weight *at, const Rules *rules, double *record) {
    Weight *trial = &m->trial, *other = &m->other;
    Answer answer = NOT_SOLVED;
    int64_t n = m->task->n;
    double gap = 0.0, change = 0.0;
    if (!isfinite(at->primal)) {
        int failed = fit_core(m, at, at->beta);
        if (failed) return failed;
        gap = gap_of(at);
    }
    double before = at->primal, length = sqrt(dot(at->core, at->core, m->core_size));
    keep_dense(m, at);
    for (int64_t v = 0; v < m->n_views; v++) {
        if (m->views[v].shape.count > 0) bases_of_components(m, m->views + v, at->views + v);
        else bases_of_core(m, m->views + v, at->views + v);
    }
    tangent_design(m, at);
    memcpy(trial->beta, at->beta, n * sizeof(double));
    int failed = tensormargin_solve_block(m->task, m->width, m->design, NULL, trial->beta, m->vector, &answer);
    gap = fmax(gap, relative_gap(&answer));
    if (!failed && at->primal - answer.primal > rules->stationary * at->scale) {
        double *promise = m->design; /* the design is no longer needed */
        memcpy(promise, trial->beta, n * sizeof(double));
        failed = search_along(m, at, promise, answer.primal, rules, trial, other);
        if (!failed && trial->primal <= at->primal) {
            gap = fmax(gap, gap_of(trial));
            copy_weight(m, at, trial);
            change = length > 0.0 ? distance(m, at) / length : INFINITY;
        }
    }
    record[OBJECTIVE] = at->primal, record[GAP] = gap, record[CHANGE] = change;
    record[DECREASE] = at->scale > 0.0 ? (before - at->primal) / at->scale : 0.0;
    return failed;
}

/* Fit all factors in turn (Algorithm 1), and write what is recorded of it: steps leave out directions in which components
 * nearly depend on each other. */
static int pass_over_factors(Memory *m, Weight *at, double *record) {
    const Shape *shape = &m->views->shape;
    Weight *trial = &m->trial;
    double before = at->primal, length = sqrt(dot(at->core, at->core, m->core_size)), gap = 0.0;
    keep_dense(m, at);
    for (int64_t k = 0; k < shape->order; k++) {
        copy_weight(m, trial, at);
        int failed = fit_factor(m, trial, at->beta, shape->in_turn[k]);
        if (failed) return failed;
        gap = fmax(gap, gap_of(trial));
        if (trial->primal <= at->primal) copy_weight(m, at, trial);
    }
    record[OBJECTIVE] = at->primal, record[GAP] = gap;
    record[CHANGE] = length > 0.0 ? distance(m, at) / length : INFINITY;
    record[DECREASE] = at->scale > 0.0 ? (before - at->primal) / at->scale : 0.0;
    return 0;
}

/* ---- when to stop: as in alternation.py ---- */

/* Estimate how far the objective can still fall by continuing its last decreases as a geometric series. */
static double left_to_fall(const Run *run, double slowest) {
    const double *last = run->records + (run->done - 1) * RECORDED + DECREASE;
    if (run->done < 2) return INFINITY; /* the decrease of the first sweep is unknown */
    double ratio = slowest;
    if (run->done > 3) {
        double first = last[-2 * RECORDED], second = last[-RECORDED];
        if (first > 0.0 && second > 0.0 && *last > 0.0) ratio = fmax(second / first, *last / second);
    }
    return *last / (1.0 / fmin(ratio, slowest) - 1.0);
}

/* Return whether there is nothing left to gain, or rounding prevents it: the last two sweeps changed nothing. */
static int has_ended(const Run *run) {
    const double *last = run->records + (run->done - 1) * RECORDED + CHANGE;
    return run->converged || (run->done > 1 && last[0] == 0.0 && last[-RECORDED] == 0.0);
}

/* Sweep until convergence, or until so many sweeps have been made in all. */
static int sweep_until(Memory *m, Run *run, const Rules *rules, int64_t most) {
    while (run->done < most && !has_ended(run)) {
        double *record = run->records + run->done * RECORDED;
        int passed = run->passes_next, leaves_out = m->views->shape.count > 0;
        int failed = passed ? pass_over_factors(m, &run->at, record) : sweep(m, &run->at, rules, record);
        if (failed) return failed;
        if (!(record[GAP] <= rules->gap)) return NOT_EXACT;
        run->done++;
        int settled = record[CHANGE] <= rules->tol || left_to_fall(run, rules->slowest_decay) <= rules->rest;
        if (passed) settled = record[DECREASE] <= rules->rest;
        run->converged = settled && passed == leaves_out;
        run->passes_next = settled && leaves_out && !passed;
    }
    return 0;
}

/* Return whether the second run is ahead, by more than the solves differ. */
static int second_leads(const Run *runs, const Rules *rules) {
    return runs[0].at.primal - runs[1].at.primal > rules->gap * runs[0].at.scale;
}

/* Return whether half the last decrease, once more, would bring the objective below another's. */
static int may_pass(const Run *run, const Run *other) {
    double fall = 0.5 * run->records[(run->done - 1) * RECORDED + DECREASE] * run->at.scale;
    return !has_ended(run) && run->at.primal - fall < other->at.primal;
}

/* Sweep from two starts until one is ahead, and from that one to the end; leave its number in lead. */
static int race(Memory *m, Run *runs, const Rules *rules, int64_t *lead) {
    int failed = 0;
    for (int64_t most = rules->raced, both = 1; both && most <= rules->most; most++) {
        for (int64_t r = 0; r < 2 && !failed; r++) failed = sweep_until(m, runs + r, rules, most);
        *lead = second_leads(runs, rules);
        if (failed) return failed;
        both = may_pass(runs + !*lead, runs + *lead);
    }
    return sweep_until(m, runs + *lead, rules, rules->most);
}

/* ---- the second start: the solution over all tensors, truncated ---- */

/* Return whether a dense tensor is a symmetric matrix up to rounding: its start takes random numbers. */
static int is_symmetric(const Shape *shape, const double *dense) {
    double turned = 0.0, all = dot(dense, dense, shape->entries);
    if (shape->order != 2 || shape->sizes[0] != shape->sizes[1]) return 0;
    for (int64_t a = 0; a < shape->sizes[0]; a++)
        for (int64_t b = 0; b < shape->sizes[0]; b++) {
            double twist = dense[a * shape->sizes[0] + b] - dense[b * shape->sizes[0] + a];
            turned += twist * twist;
        }
    return !(turned > SYMMETRIC * SYMMETRIC * all);
}

/* Write the factor of one mode of a matrix that belongs to the leading vectors of the other: these times the matrix. */
static void follow(const Shape *shape, const double *matrix, int64_t mode, Tucker *out, double *memory) {
    int64_t rows = shape->sizes[0], columns = shape->sizes[1], rank = shape->ranks[0];
    if (mode == 0) {
        multiply_mode(matrix, rows, columns, 1, out->factors[1], rank, 1, out->factors[0]);
    } else {
        multiply_mode(matrix, 1, rows, columns, out->factors[0], rank, 1, memory);
        transpose(memory, rank, columns, out->factors[1]);
    }
    orthonormalise(out->factors[mode], shape->sizes[mode], rank, memory);
}

/* Write the leading vectors of the unfoldings of a dense tensor, which is scaled, as factors. */
FAST static void truncate(Memory *m, const Shape *shape, double *dense, Tucker *out) {
    int64_t lead = 1, trail = shape->entries, follows = -1;
    to_unit_range(dense, shape->entries);
    if (shape->order == 2 && shape->ranks[0] == shape->ranks[1]) follows = shape->sizes[0] <= shape->sizes[1];
    for (int64_t k = 0; k < shape->order; k++) {
        int64_t size = shape->sizes[k], rank = shape->ranks[k];
        double *gram = m->unfolded, *axes = gram + size * size;
        trail /= size;
        if (k == follows) {
            lead *= size;
            continue;
        }
        memset(gram, 0, size * size * sizeof(double));
        for (int64_t l = 0; l < lead; l++)
            for (int64_t a = 0; a < size; a++) {
                const double *part = dense + l * size * trail;
                if (trail == 1) add(gram + a * size, part[a], part, a + 1);
                else for (int64_t b = 0; b <= a; b++) gram[a * size + b] += dot(part + a * trail, part + b * trail, trail);
            }
        for (int64_t a = 0; a < size; a++)
            for (int64_t b = 0; b < a; b++) gram[b * size + a] = gram[a * size + b];
        eigenvectors(gram, size, axes, axes + size * size);
        for (int64_t a = 0; a < size; a++) memcpy(out->factors[k] + a * rank, axes + a * size, rank * sizeof(double));
        lead *= size;
    }
    if (follows >= 0) follow(shape, dense, follows, out, m->unfolded);
}

/* Write the start that follows from the solution over all tensors, and its dual point. */
static int relaxed_start(Memory *m, const Rules *rules, const double *samples, double *kept, Weight *start) {
    Answer answer = NOT_SOLVED;
    double *dense = m->dense;
    for (int64_t i = 0; i < m->task->n; i++) start->beta[i] = m->task->mu2 * m->task->weights[i];
    int failed = tensormargin_solve_block(m->task, m->entries, samples, kept, start->beta, dense, &answer);
    if (failed || !(relative_gap(&answer) <= rules->gap)) return failed ? failed : NOT_EXACT;
    for (int64_t v = 0; v < m->n_views; v++) {
        const Shape *shape = &m->views[v].shape;
        if (is_symmetric(shape, dense)) return NO_START;
        truncate(m, shape, dense, start->views + v);
        dense += shape->entries;
    }
    return 0;
}

/* Fit a weight.
 *
 * n, n_views, orders, sizes, ranks   of the samples and the weight; sizes and ranks of one view after the other. A full
 *            weight has order zero and one size and rank, both its number of entries
 * components number of rank-one tensors whose sum the weight of a single view is, the factor that is fitted after a step,
 *            and all factors in the order of a pass; 0, 0 for a weight with a core
 * samples    sizes x n, one view after the other
 * kept       memory of kept_size for the solution over all tensors, zero unless it has been left by an earlier fit to these
 *            samples with these signs, weights and bias
 * signs, weights, strengths (lam, mu1, mu2), bias, limits    as in tensormargin_solve_small
 * rules      those of the struct, in its order; then the starts: one, that one and the solution over all tensors (0),
 *            or two
 * core, factors, beta      two weights and dual points, one after the other, of which the first is overwritten by the
 *            solution; the cores of all views one after the other, and the factors; of a sum of rank-one tensors, also
 *            the factors of the core and the lengths of its components
 * state      objective, intercept, scale, number of sweeps, whether they converged: overwritten
 * records    twice the most sweeps x RECORDED numbers, of which the first are overwritten
 *
 * Returns 0, what tensormargin_solve_block returns, NOT_EXACT if rounding keeps a solve from its gap, or NO_START if the
 * caller has to make the second start. But for NO_START the solution is what was reached.
 */
int tensormargin_fit(int64_t n, int64_t n_views, const int64_t *orders, const int64_t *sizes, const int64_t *ranks,
                     const int64_t *components, const double *samples, double *kept, const double *signs,
                     const double *weights, const double *strengths, double bias, const double *limits,
                     const double *rules, double *core, double *factors, double *beta, double *state, double *records) {
    Task task = task_of(n, signs, weights, strengths, bias, limits);
    Rules own = {rules[0], rules[1], rules[2], rules[3], rules[4], rules[5], rules[6], (int64_t)rules[7], (int64_t)rules[8]};
    int64_t starts = (int64_t)rules[9], lead = 0;
    View *views = calloc(n_views, sizeof(View));
    Tucker *parts = calloc(4 * n_views, sizeof(Tucker));
    Memory m = {.task = &task, .n_views = n_views, .views = views};
    m.trial = (Weight){.views = parts, .primal = INFINITY};
    m.other = (Weight){.views = parts + n_views, .primal = INFINITY};
    double *memory = NULL;
    if (views != NULL && parts != NULL) {
        describe(&m, orders, sizes, ranks, components, samples);
        memory = malloc(lay_out(&m, NULL) * sizeof(double));
    }
    if (memory == NULL) {
        free(views), free(parts);
        return 1;
    }
    lay_out(&m, memory);
    Pool given = {factors, 0};
    Run runs[2] = {{.records = records}, {.records = records + own.most * RECORDED}};
    for (int64_t r = 0; r < 2; r++) {
        runs[r].at = (Weight){.views = parts + (2 + r) * n_views, .beta = beta + r * n, .primal = INFINITY};
        lay_out_views(&m, core + r * m.core_size, &given, &runs[r].at);
    }
    int failed = starts == 0 ? relaxed_start(&m, &own, samples, kept, &runs[1].at) : 0;
    if (failed != NO_START) {
        if (!failed) failed = starts == 1 ? sweep_until(&m, runs, &own, own.most) : race(&m, runs, &own, &lead);
        if (lead == 1) {
            memcpy(records, runs[1].records, runs[1].done * RECORDED * sizeof(double));
            copy_weight(&m, &runs[0].at, &runs[1].at);
        }
        const Weight *at = &runs[0].at;
        state[0] = at->primal, state[1] = at->intercept, state[2] = at->scale;
        state[3] = (double)runs[lead].done, state[4] = runs[lead].converged;
    }
    free(memory), free(views), free(parts);
    return failed;
}
