/* One small block problem from its design to a certified solution (Eq. 12-14 of the paper).
 *
 * The same algorithm as tensormargin/blocks and tensormargin/solvers/dual_cd.py have for large problems, in one call
 * without the GIL: if samples are few, a Python call for each step takes ten times as long as the arithmetic.
 * tests/test_small_fits.py compares both with each other and with a general QP solver. All matrices are row-major.
 */

#include "small.h"

#define FIRST_WIDTH 0.1 /* of the rounded corner of the hinge */
#define SHRINK 0.3 /* the factor by which it gets narrower */
#define FREED_TOGETHER 0.5 /* share of the largest violation */
#define PIVOTS_PER_COLUMN 2
#define ROUNDING_GAP 1e-9 /* below it, rounding may be all that is left */
#define NARROWEST 1e-10
#define MOST_STEPS 50
#define SHORTEST 1e-8
#define ROWS_IN_CACHE 32
#define COARSE 4e10 /* from here on, rounding of Q may change a gap by 1e-5: the general way has a form without squares */

typedef struct {
    int64_t n, k;           /* rows and columns of A */
    const double *rows;     /* A, whitened */
    const double *weights;  /* sum to one */
    double lam, mu2;
    double *lower, *upper;
} Problem;

typedef struct { /* a dual point with what follows from it */
    double *beta, *u, *margins;
    double gap, dual, scale;
} Point;

/* Write u = A'beta and the margins A u, and certify the point. */
FAST static void certify(const Problem *p, Point *at) {
    double total = 0.0, mean = 0.0, hinge = 0.0;
    memset(at->u, 0, p->k * sizeof(double));
    for (int64_t i = 0; i < p->n; i++) {
        total += at->beta[i] - p->lower[i];
        if (at->beta[i] != 0.0) add(at->u, at->beta[i], p->rows + i * p->k, p->k);
    }
    for (int64_t i = 0; i < p->n; i++) {
        double margin = dot(p->rows + i * p->k, at->u, p->k);
        at->margins[i] = margin;
        mean += p->weights[i] * margin;
        if (margin < 1.0) hinge += p->weights[i] * (1.0 - margin);
    }
    double half_square = 0.5 * dot(at->u, at->u, p->k);
    at->scale = half_square + fabs(p->mu2 * mean) + p->lam * hinge;
    at->dual = total - half_square;
    double gap = half_square - p->mu2 * mean + p->lam * hinge - at->dual;
    if (!isfinite(gap))
        at->gap = INFINITY;
    else
        at->gap = at->scale > 0.0 ? fabs(gap) / at->scale : 0.0;
}

static void copy_point(const Problem *p, Point *to, const Point *from) {
    memcpy(to->beta, from->beta, p->n * sizeof(double));
    memcpy(to->u, from->u, p->k * sizeof(double));
    memcpy(to->margins, from->margins, p->n * sizeof(double));
    to->gap = from->gap, to->dual = from->dual, to->scale = from->scale;
}

/* ---- coordinate descent: tensormargin/_kernels.py, descend ---- */

static void shuffle(int64_t *order, int64_t size, uint64_t *seed) {
    uint64_t state = *seed;
    for (int64_t last = size - 1; last > 0; last--) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        int64_t other = (int64_t)((state >> 32) * (uint64_t)(last + 1) >> 32), kept = order[last];
        order[last] = order[other], order[other] = kept;
    }
    *seed = state;
}

/* Whether a coordinate is at a bound, and pushed against it harder than any other is pulled away. */
static inline int is_settled(const Problem *p, const double *beta, int64_t i, double gradient, const double *bars) {
    return (beta[i] <= p->lower[i] && gradient > bars[1]) || (beta[i] >= p->upper[i] && gradient < bars[0]);
}

/* Descend from a point whose margins are known, until the gap over the coordinates that are not settled is small. */
FAST static void descend(const Problem *p, const double *squares, Point *at, int64_t *order, uint64_t *seed,
                         double target, int64_t epochs) {
    double *beta = at->beta, *u = at->u, lowest = 0.0, highest = 0.0;
    int64_t active = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double gradient = at->margins[i] - 1.0;
        if ((gradient < 0.0 ? p->upper[i] - beta[i] : beta[i] - p->lower[i]) > 0.0)
            lowest = lesser(lowest, gradient), highest = greater(highest, gradient);
    }
    double bars[2] = {lowest < 0.0 ? lowest : -INFINITY, highest > 0.0 ? highest : INFINITY};
    for (int64_t i = 0; i < p->n; i++)
        if (!is_settled(p, beta, i, at->margins[i] - 1.0, bars)) order[active++] = i;
    for (int64_t epoch = 0; epoch < epochs; epoch++) {
        double gap = 0.0;
        lowest = highest = 0.0;
        shuffle(order, active, seed);
        for (int64_t place = 0; place < active;) {
            int64_t i = order[place];
            const double *row = p->rows + i * p->k;
            double gradient = dot(row, u, p->k) - 1.0, old = beta[i];
            if (is_settled(p, beta, i, gradient, bars)) {
                order[place] = order[--active];
                continue;
            }
            place++;
            double distance = gradient < 0.0 ? p->upper[i] - old : old - p->lower[i];
            gap += distance * fabs(gradient);
            if (distance > 0.0) {
                lowest = lesser(lowest, gradient);
                highest = greater(highest, gradient);
            }
            double moved;
            if (squares[i] > 0.0)
                moved = lesser(greater(old - gradient / squares[i], p->lower[i]), p->upper[i]);
            else
                moved = gradient < 0.0 ? p->upper[i] : p->lower[i];
            if (moved != old) {
                beta[i] = moved;
                add(u, moved - old, row, p->k);
            }
        }
        if (gap <= target) return;
        bars[0] = lowest < 0.0 ? lowest : -INFINITY;
        bars[1] = highest > 0.0 ? highest : INFINITY;
    }
}

/* ---- small systems ---- */

/* Replace the lower triangle of a symmetric matrix by its Cholesky factor; return whether it is definite. */
FAST static int factorise(double *matrix, int64_t size) {
    for (int64_t a = 0; a < size; a++) {
        double *row = matrix + a * size;
        for (int64_t b = 0; b < a; b++)
            row[b] = (row[b] - dot(row, matrix + b * size, b)) / matrix[b * size + b];
        double square = row[a] - dot(row, row, a);
        if (!(square > 0.0)) return 0;
        row[a] = sqrt(square);
    }
    return 1;
}

FAST static void solve_factored(const double *factor, int64_t size, const double *right, double *out) {
    for (int64_t a = 0; a < size; a++) out[a] = (right[a] - dot(factor + a * size, out, a)) / factor[a * size + a];
    for (int64_t a = size - 1; a >= 0; a--) {
        out[a] /= factor[a * size + a];
        add(out, -out[a], factor + a * size, a);
    }
}

/* ---- the exact solve on the free coordinates ---- */

/* Write the Gram matrix of the first rows without those that are not kept; kept[a] is the old place of row a. */
static void keep_in_gram(double *gram, int64_t size, const int64_t *kept, int64_t count) {
    for (int64_t a = 0; a < count; a++)
        for (int64_t b = 0; b <= a; b++) gram[a * count + b] = gram[kept[a] * size + kept[b]];
}

/* Return x'Gx for the lower triangle of G. */
static double quadratic(const double *gram, int64_t size, const double *x) {
    double sum = 0.0;
    for (int64_t a = 0; a < size; a++)
        sum += x[a] * (2.0 * dot(gram + a * size, x, a) + gram[a * size + a] * x[a]);
    return sum;
}

/* Cut a step from beta at the bounds: each coordinate by itself, or all by one share, whichever raises the dual more.
 *
 * right is the gradient of the dual, G step. Writes the cut step to cut; returns whether anything was cut.
 */
static int cut_at_bounds(const Problem *p, const double *beta, const int64_t *free_, int64_t size, const double *gram,
                         const double *right, const double *step, double *cut) {
    double share = 1.0;
    for (int64_t a = 0; a < size; a++) {
        int64_t i = free_[a];
        double room = step[a] > 0.0 ? p->upper[i] - beta[i] : beta[i] - p->lower[i];
        cut[a] = step[a];
        if (fabs(step[a]) * share > room) share = room / fabs(step[a]);
        if (fabs(step[a]) > room) cut[a] = step[a] > 0.0 ? room : -room;
    }
    if (share >= 1.0) return 0;
    double together = share * (1.0 - 0.5 * share) * dot(right, step, size);
    if (!(dot(right, cut, size) - 0.5 * quadratic(gram, size, cut) > together))
        for (int64_t a = 0; a < size; a++) cut[a] = share * step[a];
    return 1;
}

/* Minimise over the free coordinates with the others fixed, fixing those that reach a bound.
 *
 * At the optimum every free sample has margin 1: A_F A_F' step = 1 - m_F. A tiny ridge makes equal rows share the step.
 */
FAST static void minimise_on_face(const Problem *p, double *beta, double *u, int64_t *free_, int64_t size, double work,
                                  double *memory) {
    double *gram = memory, *factor = gram + size * size, *right = factor + size * size, *step = right + size;
    double *cut = step + size, *more = cut + size, *image = more + size, *faces = image + p->k;
    int64_t *kept = (int64_t *)(faces + size * p->k);
    for (int64_t a = 0; a < size; a++) memcpy(faces + a * p->k, p->rows + free_[a] * p->k, p->k * sizeof(double));
    inner_products(faces, p->k, size, gram);
    work -= (double)size * size * p->k;
    while (size > 0 && work > 0.0) {
        work -= (double)size * size * size;
        double trace = 0.0;
        for (int64_t a = 0; a < size; a++) right[a] = 1.0 - dot(p->rows + free_[a] * p->k, u, p->k);
        memcpy(factor, gram, size * size * sizeof(double));
        for (int64_t a = 0; a < size; a++) trace += gram[a * size + a];
        for (int64_t a = 0; a < size; a++) factor[a * size + a] += 1e-13 * trace + TINY;
        if (!factorise(factor, size)) return;
        solve_factored(factor, size, right, step);
        memset(image, 0, p->k * sizeof(double)); /* correct the solution once */
        for (int64_t a = 0; a < size; a++) add(image, step[a], p->rows + free_[a] * p->k, p->k);
        for (int64_t a = 0; a < size; a++) cut[a] = right[a] - dot(p->rows + free_[a] * p->k, image, p->k);
        solve_factored(factor, size, cut, more);
        for (int64_t a = 0; a < size; a++) step[a] += more[a];
        int is_cut = cut_at_bounds(p, beta, free_, size, gram, right, step, cut);
        int64_t count = 0;
        for (int64_t a = 0; a < size; a++) {
            int64_t i = free_[a];
            double old = beta[i], room = step[a] > 0.0 ? p->upper[i] - old : old - p->lower[i];
            if (is_cut && fabs(cut[a]) >= room * (1.0 - 1e-12)) {
                beta[i] = step[a] > 0.0 ? p->upper[i] : p->lower[i];
            } else {
                beta[i] = lesser(greater(old + cut[a], p->lower[i]), p->upper[i]);
                kept[count++] = a;
            }
            add(u, beta[i] - old, p->rows + i * p->k, p->k);
        }
        if (!is_cut || count == size) return;
        keep_in_gram(gram, size, kept, count);
        for (int64_t a = 0; a < count; a++) free_[a] = free_[kept[a]];
        size = count;
    }
}

/* Certify a point, after the exact solve on its free coordinates if that lowers the gap.
 *
 * At the optimum there are about as many free coordinates as columns; if there are far more, the point is not near it.
 */
static void finish(const Problem *p, Point *at, Point *spare, int64_t *free_, const Limits *limits, double *memory) {
    int64_t size = 0, most = p->k + p->k / 2 + 8;
    for (int64_t i = 0; i < p->n && size <= most; i++)
        if (p->lower[i] < at->beta[i] && at->beta[i] < p->upper[i]) free_[size++] = i;
    if (size > 0 && size <= most) {
        memcpy(spare->beta, at->beta, p->n * sizeof(double));
        memcpy(spare->u, at->u, p->k * sizeof(double));
        minimise_on_face(p, spare->beta, spare->u, free_, size, limits->work, memory);
        certify(p, spare);
        if (spare->gap <= limits->goal) {
            copy_point(p, at, spare);
            return;
        }
    }
    certify(p, at);
    if (size > 0 && size <= most && spare->gap < at->gap) copy_point(p, at, spare);
}

/* Return how far a coordinate at a bound is from its optimality condition; zero for a free one. */
static double violation(const Problem *p, const double *beta, const double *margins, int64_t i) {
    if (beta[i] <= p->lower[i]) return greater(1.0 - margins[i], 0.0);
    if (beta[i] >= p->upper[i]) return greater(margins[i] - 1.0, 0.0);
    return 0.0;
}

/* An active-set method: free the coordinates that violate their condition most, solve exactly, and so on.
 *
 * The dual objective rises with every step, so that none is made twice. Descent crawls if lambda is large and there are
 * no margin terms: the optimum then lies on a face with many free coordinates.
 */
static void pivot(const Problem *p, Point *at, Point *spare, const Limits *limits, int64_t *free_, double *memory) {
    int64_t most = p->k + p->k / 2 + 8;
    copy_point(p, spare, at);
    for (int64_t count = 0; count < PIVOTS_PER_COLUMN * p->k + 20; count++) {
        double worst = 0.0;
        int64_t size = 0;
        for (int64_t i = 0; i < p->n; i++) worst = greater(worst, violation(p, spare->beta, spare->margins, i));
        for (int64_t i = 0; i < p->n; i++) {
            int is_free = p->lower[i] < spare->beta[i] && spare->beta[i] < p->upper[i];
            if (!is_free && !(worst > 0.0 && violation(p, spare->beta, spare->margins, i) >= FREED_TOGETHER * worst))
                continue;
            if (size == most) break;
            free_[size++] = i;
        }
        minimise_on_face(p, spare->beta, spare->u, free_, size, limits->work, memory);
        certify(p, spare);
        int stuck = at->gap <= ROUNDING_GAP && !(spare->gap < 0.5 * at->gap);
        if (spare->gap < at->gap) copy_point(p, at, spare);
        if (at->gap <= limits->goal || stuck || !isfinite(spare->gap)) return;
    }
}

/* ---- Newton's method ---- */

/* Return the objective with the corner of the hinge rounded off, after a part of a step. */
FAST static double rounded(const Problem *p, double width, const double *point, const double *margins, const double *along,
                      const double *step, double length) {
    double total = 0.0;
    for (int64_t j = 0; j < p->k; j++) {
        double moved = point[j] - length * step[j];
        total += 0.5 * moved * moved;
    }
    for (int64_t i = 0; i < p->n; i++) {
        double margin = margins[i] - length * along[i], missing = 1.0 - margin, loss = 0.0;
        if (missing >= width)
            loss = missing - 0.5 * width;
        else if (missing > 0.0)
            loss = 0.5 * missing * missing / width;
        total += p->weights[i] * (p->lam * loss - p->mu2 * margin);
    }
    return total;
}

static inline int is_bent(double margin, double width) { return margin < 1.0 && margin > 1.0 - width; }

/* Make Newton steps for one width of the rounded corner; leave the dual point that follows from the margins. */
FAST static void newton_steps(const Problem *p, double width, double *point, double *beta, double *margins, double *memory) {
    int64_t n = p->n, k = p->k;
    double *curvature = memory, *gradient = curvature + k * k, *step = gradient + k, *along = step + k, *bent = along + n;
    for (int64_t count = 0; count < MOST_STEPS; count++) {
        int64_t n_bent = 0, place = 0; /* samples on the rounded corner */
        memcpy(gradient, point, k * sizeof(double));
        for (int64_t i = 0; i < n; i++) {
            const double *row = p->rows + i * k;
            margins[i] = dot(row, point, k);
            double missing = (1.0 - margins[i]) / width;
            beta[i] = p->weights[i] * (p->mu2 + p->lam * lesser(greater(missing, 0.0), 1.0));
            add(gradient, -beta[i], row, k);
            n_bent += is_bent(margins[i], width);
        }
        for (int64_t i = 0; i < n; i++) {
            if (!is_bent(margins[i], width)) continue;
            double root = sqrt(p->lam * p->weights[i] / width);
            for (int64_t a = 0; a < k; a++) bent[a * n_bent + place] = root * p->rows[i * k + a];
            place++;
        }
        inner_products(bent, n_bent, k, curvature);
        for (int64_t a = 0; a < k; a++) curvature[a * k + a] += 1.0;
        if (dot(gradient, gradient, k) <= 1e-20 * (1.0 + dot(point, point, k)) || !factorise(curvature, k)) return;
        solve_factored(curvature, k, gradient, step);
        for (int64_t i = 0; i < n; i++) along[i] = dot(p->rows + i * k, step, k);
        double slope = dot(gradient, step, k), value = rounded(p, width, point, margins, along, step, 0.0), length = 1.0;
        while (length > SHORTEST &&
               !(rounded(p, width, point, margins, along, step, length) <= value - 1e-4 * length * slope))
            length *= 0.5;
        if (length <= SHORTEST) return;
        add(point, -length, step, k);
    }
}

/* Minimise by a semismooth Newton method on a hinge whose corner is rounded off less and less.
 *
 * Descent crawls if lambda is large and there are no margin terms; this does not.
 */
static void newton(const Problem *p, Point *at, Point *trial, Point *spare, const Limits *limits, int64_t *free_,
                   double *point, double *memory) {
    memcpy(point, at->u, p->k * sizeof(double));
    for (double width = FIRST_WIDTH; at->gap > greater(limits->goal, ROUNDING_GAP) && width > NARROWEST; width *= SHRINK) {
        newton_steps(p, width, point, trial->beta, trial->margins, memory);
        for (int64_t i = 0; i < p->n; i++) trial->beta[i] = lesser(greater(trial->beta[i], p->lower[i]), p->upper[i]);
        memset(trial->u, 0, p->k * sizeof(double));
        for (int64_t i = 0; i < p->n; i++) add(trial->u, trial->beta[i], p->rows + i * p->k, p->k);
        finish(p, trial, spare, free_, limits, memory);
        if (trial->gap < at->gap) copy_point(p, at, trial);
    }
}

static void optimise(const Problem *p, Point *at, Point *trial, Point *spare, const Limits *limits, double *squares,
                     int64_t *order, double *point, double *memory) {
    uint64_t seed = 0x9E3779B97F4A7C15u;
    for (int64_t i = 0; i < p->n; i++) {
        at->beta[i] = lesser(greater(at->beta[i], p->lower[i]), p->upper[i]);
        squares[i] = dot(p->rows + i * p->k, p->rows + i * p->k, p->k);
    }
    certify(p, at);
    for (int64_t round = 0; round < limits->rounds && at->gap > limits->goal && isfinite(at->gap); round++) {
        if (round > 0 && at->gap > limits->near) break;
        descend(p, squares, at, order, &seed, 0.5 * limits->descent_gap * at->scale, limits->epochs);
        finish(p, at, spare, order, limits, memory);
    }
    if (at->gap > limits->goal && isfinite(at->gap)) pivot(p, at, spare, limits, order, memory);
    if (at->gap > greater(limits->goal, ROUNDING_GAP) && isfinite(at->gap)) newton(p, at, trial, spare, limits, order, point, memory);
}

/* ---- from the design to the whitened rows, and back ---- */

/* Return F with FF' = gram in out (n x rank), and the rows that form a lower triangle: pivoted Cholesky of the scaled
 * Gram matrix (tensormargin/fitting/blocks.py). memory has n * (n + 2) numbers. Returns the rank. */
FAST int64_t tensormargin_factor_gram(const double *gram, int64_t n, double *out, int64_t *chosen, double *memory) {
    double *lengths = memory, *left = lengths + n, *factor = left + n;
    for (int64_t a = 0; a < n; a++) {
        lengths[a] = gram[a * n + a] > 0.0 ? sqrt(gram[a * n + a]) : 1.0;
        left[a] = gram[a * n + a] / (lengths[a] * lengths[a]);
    }
    memset(factor, 0, n * n * sizeof(double));
    int64_t rank = 0;
    for (; rank < n; rank++) {
        int64_t pivot = 0;
        for (int64_t a = 1; a < n; a++)
            if (left[a] > left[pivot]) pivot = a;
        if (!(left[pivot] > n * EPSILON)) break;
        double root = sqrt(left[pivot]);
        const double *own = factor + pivot * n;
        chosen[rank] = pivot;
        left[pivot] = -1.0; /* done */
        for (int64_t a = 0; a < n; a++) {
            if (left[a] < 0.0) continue;
            double *row = factor + a * n;
            row[rank] = (gram[a * n + pivot] / (lengths[a] * lengths[pivot]) - dot(row, own, rank)) / root;
            left[a] = greater(left[a] - row[rank] * row[rank], 0.0);
        }
        factor[pivot * n + rank] = root;
    }
    if (rank == 0) {
        rank = 1, chosen[0] = 0, factor[0] = TINY; /* all samples are zero: keep the triangle invertible */
    }
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b < rank; b++) out[a * rank + b] = factor[a * n + b] * lengths[a];
    return rank;
}

/* Write the combination of n samples that is a vector in the coordinates of their span, by the triangle of the chosen
 * ones, transposed; the vector is overwritten. */
void tensormargin_combine(const double *factored, const int64_t *chosen, int64_t n, int64_t rank, double *vector,
                          double *coefficients) {
    memset(coefficients, 0, n * sizeof(double));
    for (int64_t a = rank - 1; a >= 0; a--) {
        const double *row = factored + chosen[a] * rank;
        vector[a] /= row[a];
        add(vector, -vector[a], row, a);
        coefficients[chosen[a]] = vector[a];
    }
}

/* tensormargin_factor_gram for the inner products of the rows of Y, given by its columns. */
static int64_t gram_factor(const double *columns, int64_t n, int64_t width, double *out, int64_t *chosen,
                           double *memory) {
    double *gram = memory, *rows = gram + n * n;
    transpose(columns, width, n, rows);
    inner_products(rows, width, n, gram);
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b < a; b++) gram[b * n + a] = gram[a * n + b];
    return tensormargin_factor_gram(gram, n, out, chosen, rows);
}

/* Write L with LL' = Q = I + 2 mu1 Y'(diag(p) - pp')Y into the lower triangle of factor; return whether Q is definite
 * and not too coarse. */
FAST static int factor_of_quadratic(const double *columns, const double *weights, int64_t n, int64_t k, double mu1,
                               double *factor, double *memory) {
    double *roots = memory, *centred = roots + n;
    for (int64_t i = 0; i < n; i++) roots[i] = sqrt(2.0 * mu1 * weights[i]);
    for (int64_t a = 0; a < k; a++) {
        const double *column = columns + a * n;
        double mean = dot(weights, column, n);
        for (int64_t i = 0; i < n; i++) centred[a * n + i] = roots[i] * (column[i] - mean);
    }
    inner_products(centred, n, k, factor);
    for (int64_t a = 0; a < k; a++)
        if (!((factor[a * k + a] += 1.0) < COARSE)) return 0;
    return factorise(factor, k);
}

/* Subtract combinations of four columns from four others: coefficients has one row of k numbers for each of these. */
static void subtract_four(double *restrict to, const double *restrict from, int64_t step, int64_t size,
                          const double *restrict coefficients, int64_t k) {
    const double *c0 = coefficients, *c1 = c0 + k, *c2 = c1 + k, *c3 = c2 + k;
    for (int64_t i = 0; i < size; i++) {
        double f0 = from[i], f1 = from[step + i], f2 = from[2 * step + i], f3 = from[3 * step + i];
        to[i] -= (c0[0] * f0 + c0[1] * f1) + (c0[2] * f2 + c0[3] * f3);
        to[step + i] -= (c1[0] * f0 + c1[1] * f1) + (c1[2] * f2 + c1[3] * f3);
        to[2 * step + i] -= (c2[0] * f0 + c2[1] * f1) + (c2[2] * f2 + c2[3] * f3);
        to[3 * step + i] -= (c3[0] * f0 + c3[1] * f1) + (c3[2] * f2 + c3[3] * f3);
    }
}

/* Replace the columns of Y by those of Y L'^-1, by forward substitution: a few rows at a time, which stay in the cache,
 * and four columns at a time, so that each number loaded is used four times. */
FAST static void whiten(double *columns, int64_t n, int64_t k, const double *factor) {
    for (int64_t start = 0; start < n; start += ROWS_IN_CACHE) {
        int64_t size = n - start < ROWS_IN_CACHE ? n - start : ROWS_IN_CACHE;
        for (int64_t a = 0; a < k; a++) {
            double *column = columns + a * n + start, scale = 1.0 / factor[a * k + a];
            int64_t done = a - a % 4; /* columns before it are subtracted for four columns together, or singly at the end */
            if (a == done && a + 3 < k)
                for (int64_t b = 0; b < done; b += 4)
                    subtract_four(column, columns + b * n + start, n, size, factor + a * k + b, k);
            for (int64_t b = done + 3 < k ? done : 0; b < a; b++)
                add(column, -factor[a * k + b], columns + b * n + start, size);
            for (int64_t i = 0; i < size; i++) column[i] *= scale;
        }
    }
}

/* Replace u by the x with L'x = u. */
static void undo_whitening(double *u, int64_t k, const double *factor) {
    for (int64_t a = k - 1; a >= 0; a--) {
        u[a] /= factor[a * k + a];
        add(u, -u[a], factor + a * k, a);
    }
}

/* Write the columns of the centred and signed design with the intercept's column; mean gets the weighted means. */
FAST static void sign_columns(const Task *task, int64_t d, const double *design, double *columns, double *mean) {
    int64_t n = task->n;
    for (int64_t j = 0; j < d; j++) {
        mean[j] = task->bias > 0.0 ? dot(task->weights, design + j * n, n) : 0.0;
        for (int64_t i = 0; i < n; i++) columns[j * n + i] = task->signs[i] * (design[j * n + i] - mean[j]);
    }
    if (task->bias > 0.0)
        for (int64_t i = 0; i < n; i++) columns[d * n + i] = task->signs[i] * task->bias;
}

/* Write intercept and objective (Eq. 7) of a solution. */
FAST static void evaluate(const Task *task, int64_t d, const double *columns, const double *mean, const double *solution,
                     double *margins, Answer *answer) {
    int64_t n = task->n, width = d + (task->bias > 0.0);
    double average = 0.0, variance = 0.0, hinge = 0.0;
    memset(margins, 0, n * sizeof(double));
    for (int64_t j = 0; j < width; j++) add(margins, solution[j], columns + j * n, n);
    for (int64_t i = 0; i < n; i++) {
        average += task->weights[i] * margins[i];
        if (margins[i] < 1.0) hinge += task->weights[i] * (1.0 - margins[i]);
    }
    for (int64_t i = 0; i < n; i++) variance += task->weights[i] * (margins[i] - average) * (margins[i] - average);
    double half_square = 0.5 * dot(solution, solution, width) + task->mu1 * variance;
    answer->intercept = task->bias > 0.0 ? task->bias * solution[d] - dot(mean, solution, d) : 0.0;
    answer->primal = half_square - task->mu2 * average + task->lam * hinge;
    answer->scale = half_square + fabs(task->mu2 * average) + task->lam * hinge;
}

int tensormargin_solve_block(const Task *task, int64_t d, const double *design, double *beta, double *vector,
                             Answer *answer) {
    const double *weights = task->weights;
    double lam = task->lam, mu1 = task->mu1, mu2 = task->mu2;
    int64_t n = task->n, width = d + (task->bias > 0.0), wide = width > task->limits.wide * n;
    int64_t k = wide ? n : width, most = k + k / 2 + 8;
    int64_t scratch = larger(2 * most * most + 5 * most + k + most * k, k * k + 2 * k + n + n * k);
    scratch = larger(scratch, n + n * k);
    if (wide) scratch = larger(scratch, n * n + larger(n * width, n * n + 2 * n));
    int64_t size = n * width + d + 2 * n * k + k * k + 3 * n + 2 * (2 * n + k) + n + 2 * k + width + scratch;
    if (wide) size += n * k;
    double *memory = malloc(size * sizeof(double) + (n + k) * sizeof(int64_t));
    if (memory == NULL) return 1;
    double *columns = memory, *mean = columns + n * width, *rows = mean + d, *base = rows + n * k;
    double *factored = base + n * k, *factor = factored + (wide ? n * k : 0), *lower = factor + k * k;
    double *upper = lower + n, *squares = upper + n;
    Point at = {beta, squares + n, squares + n + k, 0.0, 0.0, 0.0};
    double *next = at.margins + n;
    Point trial = {next, next + n, next + n + k, 0.0, 0.0, 0.0};
    next = trial.margins + n;
    Point spare = {next, next + n, next + n + k, 0.0, 0.0, 0.0};
    double *point = spare.margins + n, *solution = point + k, *rest = solution + width;
    int64_t *order = (int64_t *)(memory + size), *chosen = order + n;

    sign_columns(task, d, design, columns, mean);
    if (wide) {
        k = gram_factor(columns, n, width, factored, chosen, rest);
        transpose(factored, n, k, base);
    } else {
        memcpy(base, columns, n * width * sizeof(double));
    }
    if (mu1 > 0.0) {
        if (!factor_of_quadratic(base, weights, n, k, mu1, factor, rest)) {
            free(memory);
            return 2;
        }
        whiten(base, n, k, factor);
    }
    transpose(base, k, n, rows);
    for (int64_t i = 0; i < n; i++) lower[i] = mu2 * weights[i], upper[i] = (mu2 + lam) * weights[i];
    Problem problem = {n, k, rows, weights, lam, mu2, lower, upper};
    optimise(&problem, &at, &trial, &spare, &task->limits, squares, order, point, rest);

    memcpy(point, at.u, k * sizeof(double)); /* back: L'^-1 u, and for few samples the vector in the span of their rows */
    if (mu1 > 0.0) undo_whitening(point, k, factor);
    if (wide) {
        memset(solution, 0, width * sizeof(double));
        tensormargin_combine(factored, chosen, n, k, point, spare.margins);
        for (int64_t j = 0; j < width; j++) solution[j] = dot(columns + j * n, spare.margins, n);
    } else {
        memcpy(solution, point, k * sizeof(double));
    }
    evaluate(task, d, columns, mean, solution, at.margins, answer);
    answer->dual = at.dual;
    memcpy(vector, solution, d * sizeof(double));
    free(memory);
    return 0;
}

/* Solve Eq. 12 for one n x d design: tensormargin_solve_block with arrays of plain numbers.
 *
 * strengths, limits  see task_of
 * numbers    intercept, primal, dual, scale: overwritten
 */
int tensormargin_solve_small(int64_t n, int64_t d, const double *design, const double *signs, const double *weights,
                             const double *strengths, double bias, const double *limits, double *beta, double *vector,
                             double *numbers) {
    Task task = task_of(n, signs, weights, strengths, bias, limits);
    Answer answer = NOT_SOLVED;
    double *columns = malloc(n * d * sizeof(double));
    if (columns == NULL) return 1;
    transpose(design, n, d, columns);
    int failed = tensormargin_solve_block(&task, d, columns, beta, vector, &answer);
    numbers[0] = answer.intercept, numbers[1] = answer.primal, numbers[2] = answer.dual, numbers[3] = answer.scale;
    free(columns);
    return failed;
}

int tensormargin_abi(void) { return ABI; }

#ifdef __clang__
#define COMPILER __VERSION__ /* begins with its name */
#else
#define COMPILER "GCC " __VERSION__
#endif
const char *tensormargin_compiler(void) { return COMPILER; }
