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
#define DEPENDENT 1e-12 /* share of a row's square that others leave of it, below which it depends on them */
#define ROUNDING_GAP 1e-9 /* below it, rounding may be all that is left */
#define NARROWEST 1e-10
#define MOST_STEPS 50
#define SHORTEST 1e-8
#define ROWS_IN_CACHE 32
#define COARSE 4e10 /* from here on, rounding of Q may change a gap by 1e-5: the general way has a form without squares */

typedef struct {
    int64_t n, k, padded;        /* rows and columns of A, whitened, and columns with those of zeros behind them */
    const double *rows;          /* A, n x padded: rows without a remainder are added up in half the time */
    const double *columns;       /* its columns, k x n: all margins at once take a third of the time by columns */
    const double *weights;       /* sum to one */
    double lam, mu2;
    const double *lower, *upper, *squares; /* bounds of the dual point; squared lengths of the rows */
} Problem;

typedef struct { /* a dual point with what follows from it */
    double *beta, *u, *margins;
    double gap, dual, scale;
} Point;

/* Return the weighted mean of what the margins lack of one, none of them less than nothing. */
static inline double mean_hinge(const Problem *p, const double *margins) {
    Four sum = {0.0, 0.0, 0.0, 0.0}, one = {1.0, 1.0, 1.0, 1.0};
    double rest = 0.0;
    int64_t i = 0;
    for (; i + 3 < p->n; i += 4) {
        LOAD(margin, margins + i);
        LOAD(weight, p->weights + i);
        Four missing = one - margin;
        sum += weight * (Four)((FourBits)missing & (FourBits)(margin < one));
    }
    for (; i < p->n; i++)
        if (margins[i] < 1.0) rest += p->weights[i] * (1.0 - margins[i]);
    return sum_of(sum) + rest;
}

/* Write u = A'beta. */
FAST static void combine_rows(const Problem *p, const double *beta, double *u) {
    int64_t j = 0;
    for (; j + 3 < p->k; j += 4) dot_four(p->columns + j * p->n, p->n, beta, p->n, u + j);
    for (; j < p->padded; j++) u[j] = j < p->k ? dot(p->columns + j * p->n, beta, p->n) : 0.0;
}

/* Write u = A'beta and the margins A u, and certify the point. */
FAST static void certify(const Problem *p, Point *at) {
    double total = 0.0;
    combine_rows(p, at->beta, at->u);
    combine_columns(p->columns, p->n, p->k, at->u, at->margins);
    for (int64_t i = 0; i < p->n; i++) total += at->beta[i] - p->lower[i];
    double mean = dot(p->weights, at->margins, p->n), hinge = mean_hinge(p, at->margins);
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
    memcpy(to->u, from->u, p->padded * sizeof(double));
    memcpy(to->margins, from->margins, p->n * sizeof(double));
    to->gap = from->gap, to->dual = from->dual, to->scale = from->scale;
}

/* a += factor b, for sizes that are multiples of four */
static inline void add_padded(double *a, double factor, const double *b, int64_t size) {
    for (int64_t i = 0; i < size; i += 4) {
        LOAD(to, a + i);
        LOAD(from, b + i);
        to += factor * from;
        memcpy(a + i, &to, sizeof(Four));
    }
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
FAST static void descend(const Problem *p, Point *at, int64_t *order, uint64_t *seed,
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
            const double *row = p->rows + i * p->padded;
            double gradient = dot(row, u, p->padded) - 1.0, old = beta[i];
            if (is_settled(p, beta, i, gradient, bars)) {
                order[place] = order[--active];
                continue;
            }
            place++;
            double distance = gradient < 0.0 ? p->upper[i] - old : old - p->lower[i];
            double pull = distance > 0.0 ? gradient : 0.0;
            gap += distance * fabs(gradient);
            lowest = lesser(lowest, pull), highest = greater(highest, pull);
            double moved;
            if (p->squares[i] > 0.0)
                moved = lesser(greater(old - gradient / p->squares[i], p->lower[i]), p->upper[i]);
            else
                moved = gradient < 0.0 ? p->upper[i] : p->lower[i];
            beta[i] = moved;
            add_padded(u, moved - old, row, p->padded);
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

typedef struct { /* coordinates whose rows are independent, with the Cholesky factor of their inner products */
    int64_t size, most;
    int64_t *which;
    double *factor; /* U with U'U = A_F A_F', most x most */
    double *image;  /* U'^-1 (1 - m_F): what the margins lack */
    double *step, *spare;
    double work; /* multiplications left */
} Face;

/* Most coordinates of a face: at the optimum there are about as many free ones as columns. */
static int64_t most_free(int64_t k) { return k + k / 2 + 24; }

static int64_t face_memory(int64_t most) { return most * most + 4 * most; }

static Face empty_face(int64_t most, double work, double *memory) {
    double *factor = memory, *image = factor + most * most, *step = image + most, *spare = step + most;
    return (Face){0, most, (int64_t *)(spare + most), factor, image, step, spare, work};
}

/* Write the x with U x = right. */
FAST static void back_substitute(const Face *face, const double *right, double *x) {
    for (int64_t a = face->size - 1; a >= 0; a--) {
        const double *row = face->factor + a * face->most;
        x[a] = (right[a] - dot(row + a + 1, x + a + 1, face->size - 1 - a)) / row[a];
    }
}

/* Replace right by the x with U'x = right. */
FAST static void forward_substitute(const Face *face, double *right) {
    for (int64_t a = 0; a < face->size; a++) {
        const double *row = face->factor + a * face->most;
        right[a] /= row[a];
        add(right + a + 1, -right[a], row + a + 1, face->size - 1 - a);
    }
}

/* Take a coordinate out, and turn the factor's rows until it is a triangle again. */
FAST static void leave_face(Face *face, int64_t place) {
    int64_t size = --face->size, most = face->most;
    for (int64_t a = place; a < size; a++) face->which[a] = face->which[a + 1];
    for (int64_t a = 0; a <= size; a++) {
        int64_t from = a > place + 1 ? a - 1 : place;
        double *row = face->factor + a * most;
        memmove(row + from, row + from + 1, (size - from) * sizeof(double));
    }
    for (int64_t a = place; a < size; a++) {
        double *upper = face->factor + a * most, *lower = upper + most;
        double length = sqrt(upper[a] * upper[a] + lower[a] * lower[a]);
        double cosine = upper[a] / length, sine = lower[a] / length;
        for (int64_t b = a; b < size; b++) {
            double above = upper[b], below = lower[b];
            upper[b] = cosine * above + sine * below, lower[b] = cosine * below - sine * above;
        }
        double above = face->image[a], below = face->image[a + 1];
        face->image[a] = cosine * above + sine * below, face->image[a + 1] = cosine * below - sine * above;
    }
    face->work -= 3.0 * size * size;
}

/* Return the share of a step, at most one, that stays within the bounds; place gets the coordinate that cuts it. */
static double share_within(const Problem *p, const Face *face, const double *beta, const double *step, int64_t *place) {
    double share = 1.0;
    *place = -1;
    for (int64_t a = 0; a < face->size; a++) {
        int64_t i = face->which[a];
        double room = step[a] > 0.0 ? p->upper[i] - beta[i] : beta[i] - p->lower[i];
        if (fabs(step[a]) * share > room) share = room / fabs(step[a]), *place = a;
    }
    return share;
}

static inline double at_bound(const Problem *p, int64_t i, double step) { return step > 0.0 ? p->upper[i] : p->lower[i]; }

/* Move a coordinate whose row depends on those of the face, with these, until one of them is at a bound.
 *
 * The weight does not change with them, and the dual rises. Returns whether the coordinate itself is at a bound.
 */
static int exchange(const Problem *p, Face *face, int64_t i, double missing, double *beta, double *u) {
    double *step = face->step, slope = missing, own = 1.0;
    int64_t size = face->size, place;
    back_substitute(face, face->spare, step);
    slope -= dot(face->spare, face->image, size);
    if (slope < 0.0) own = -1.0;
    for (int64_t a = 0; a < size; a++) step[a] *= -own;
    double farthest = own > 0.0 ? p->upper[i] - beta[i] : beta[i] - p->lower[i];
    for (int64_t a = 0; a < size; a++) step[a] *= farthest;
    double share = share_within(p, face, beta, step, &place);
    double moved = place < 0 ? at_bound(p, i, own) : beta[i] + share * own * farthest;
    add(u, moved - beta[i], p->rows + i * p->padded, p->padded);
    beta[i] = moved;
    for (int64_t a = 0; a < size; a++) {
        int64_t k = face->which[a];
        moved = a == place ? at_bound(p, k, step[a]) : beta[k] + share * step[a];
        moved = lesser(greater(moved, p->lower[k]), p->upper[k]);
        add(u, moved - beta[k], p->rows + k * p->padded, p->padded);
        beta[k] = moved;
    }
    if (place < 0) return 1;
    leave_face(face, place);
    return 0;
}

/* Let a coordinate join, or one that its row depends on go to a bound instead, or itself. */
FAST static void join_face(const Problem *p, Face *face, int64_t i, double *beta, double *u) {
    const double *own = p->rows + i * p->padded;
    while (face->size < face->most && face->work > 0.0) {
        int64_t size = face->size;
        for (int64_t a = 0; a < size; a++) face->spare[a] = dot(own, p->rows + face->which[a] * p->padded, p->padded);
        forward_substitute(face, face->spare);
        face->work -= (double)size * (p->padded + size);
        double missing = 1.0 - dot(own, u, p->padded), left = p->squares[i] - dot(face->spare, face->spare, size);
        if (left > DEPENDENT * p->squares[i]) {
            for (int64_t a = 0; a < size; a++) face->factor[a * face->most + size] = face->spare[a];
            face->factor[size * face->most + size] = sqrt(left);
            face->image[size] = (missing - dot(face->spare, face->image, size)) / sqrt(left);
            face->which[face->size++] = i;
            return;
        }
        if (exchange(p, face, i, missing, beta, u)) return;
    }
}

/* Minimise over the coordinates of a face with the others fixed, letting go those that reach a bound.
 *
 * At the optimum every free sample has margin 1: A_F A_F' step = 1 - m_F. A second pass corrects the first one's rounding.
 */
static void minimise_on_face(const Problem *p, Face *face, double *beta, double *u) {
    for (int64_t pass = 0; pass < 2; pass++) {
        if (pass > 0) {
            combine_rows(p, beta, u);
            for (int64_t a = 0; a < face->size; a++)
                face->image[a] = 1.0 - dot(p->rows + face->which[a] * p->padded, u, p->padded);
            forward_substitute(face, face->image);
        }
        for (int64_t place = 0; place >= 0 && face->size > 0 && face->work > 0.0;) {
            back_substitute(face, face->image, face->step);
            double share = share_within(p, face, beta, face->step, &place);
            for (int64_t a = 0; a < face->size; a++) {
                int64_t i = face->which[a];
                double moved = a == place ? at_bound(p, i, face->step[a]) : beta[i] + share * face->step[a];
                beta[i] = lesser(greater(moved, p->lower[i]), p->upper[i]);
                face->image[a] *= 1.0 - share;
            }
            face->work -= (double)face->size * face->size;
            if (place >= 0) leave_face(face, place);
        }
    }
}

/* Write the free coordinates of a dual point, and return their number. */
static int64_t free_coordinates(const Problem *p, const double *beta, int64_t *free_) {
    int64_t size = 0;
    for (int64_t i = 0; i < p->n; i++) free_[size] = i, size += (p->lower[i] < beta[i]) & (beta[i] < p->upper[i]);
    return size;
}

/* Certify a point, after the exact solve on its free coordinates, which raises the dual.
 *
 * At the optimum there are about as many free coordinates as columns; if there are far more, the point is not near it.
 */
static void finish(const Problem *p, Point *at, Point *spare, const Limits *limits, int64_t *free_, double *memory) {
    int64_t size = free_coordinates(p, at->beta, free_), most = most_free(p->k);
    if (size > 0 && size <= most) {
        Face face = empty_face(most, limits->work, memory);
        memcpy(spare->beta, at->beta, p->n * sizeof(double));
        memcpy(spare->u, at->u, p->padded * sizeof(double));
        for (int64_t a = 0; a < size; a++) join_face(p, &face, free_[a], spare->beta, spare->u);
        minimise_on_face(p, &face, spare->beta, spare->u);
        certify(p, spare);
        if (isfinite(spare->gap) && spare->dual >= at->dual) {
            copy_point(p, at, spare);
            return;
        }
    }
    certify(p, at);
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
    Face face = empty_face(most_free(p->k), limits->work, memory);
    copy_point(p, spare, at);
    int64_t size = free_coordinates(p, at->beta, free_);
    for (int64_t a = 0; a < size; a++) join_face(p, &face, free_[a], spare->beta, spare->u);
    for (int64_t count = 0; count < PIVOTS_PER_COLUMN * p->k + 20; count++) {
        double worst = 0.0;
        for (int64_t i = 0; i < p->n; i++) worst = greater(worst, violation(p, spare->beta, spare->margins, i));
        for (int64_t i = 0; i < p->n && worst > 0.0; i++)
            if (violation(p, spare->beta, spare->margins, i) >= FREED_TOGETHER * worst)
                join_face(p, &face, i, spare->beta, spare->u);
        face.work = limits->work;
        minimise_on_face(p, &face, spare->beta, spare->u);
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
            const double *row = p->rows + i * p->padded;
            margins[i] = dot(row, point, k);
            double missing = (1.0 - margins[i]) / width;
            beta[i] = p->weights[i] * (p->mu2 + p->lam * lesser(greater(missing, 0.0), 1.0));
            add(gradient, -beta[i], row, k);
            n_bent += is_bent(margins[i], width);
        }
        for (int64_t i = 0; i < n; i++) {
            if (!is_bent(margins[i], width)) continue;
            double root = sqrt(p->lam * p->weights[i] / width);
            for (int64_t a = 0; a < k; a++) bent[a * n_bent + place] = root * p->rows[i * p->padded + a];
            place++;
        }
        inner_products(bent, n_bent, k, curvature);
        for (int64_t a = 0; a < k; a++) curvature[a * k + a] += 1.0;
        if (dot(gradient, gradient, k) <= 1e-20 * (1.0 + dot(point, point, k)) || !factorise(curvature, k)) return;
        solve_factored(curvature, k, gradient, step);
        for (int64_t i = 0; i < n; i++) along[i] = dot(p->rows + i * p->padded, step, k);
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
        combine_rows(p, trial->beta, trial->u);
        trial->dual = -INFINITY;
        finish(p, trial, spare, limits, free_, memory);
        if (trial->gap < at->gap) copy_point(p, at, trial);
    }
}

static void optimise(const Problem *p, Point *at, Point *trial, Point *spare, const Limits *limits, int64_t *order,
                     double *point, double *memory) {
    uint64_t seed = 0x9E3779B97F4A7C15u;
    for (int64_t i = 0; i < p->n; i++) at->beta[i] = lesser(greater(at->beta[i], p->lower[i]), p->upper[i]);
    certify(p, at);
    for (int64_t round = 0; round < limits->rounds && at->gap > limits->goal && isfinite(at->gap); round++) {
        if (round > 0 && at->gap > limits->near) break;
        descend(p, at, order, &seed, 0.5 * limits->descent_gap * at->scale, limits->epochs);
        finish(p, at, spare, limits, order, memory);
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
FAST static int64_t gram_factor(const double *columns, int64_t n, int64_t width, double *out, int64_t *chosen,
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

static int64_t padded_size(int64_t k) { return (k + 3) / 4 * 4; }

/* Write the rows of a matrix given by its k columns, with zeros behind each, and their squared lengths. */
FAST static void rows_of_columns(const double *columns, int64_t n, int64_t k, int64_t padded, double *rows,
                                 double *squares) {
    for (int64_t a = 0; a < padded; a += 4) {
        if (a + 3 < k) {
            const double *c0 = columns + a * n, *c1 = c0 + n, *c2 = c1 + n, *c3 = c2 + n;
            int64_t i = 0;
            for (; i + 3 < n; i += 4) {
                LOAD(x0, c0 + i);
                LOAD(x1, c1 + i);
                LOAD(x2, c2 + i);
                LOAD(x3, c3 + i);
                for (int64_t b = 0; b < 4; b++) {
                    Four row = {x0[b], x1[b], x2[b], x3[b]};
                    memcpy(rows + (i + b) * padded + a, &row, sizeof(Four));
                }
            }
            for (; i < n; i++) {
                Four row = {c0[i], c1[i], c2[i], c3[i]};
                memcpy(rows + i * padded + a, &row, sizeof(Four));
            }
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t b = a; b < a + 4; b++) rows[i * padded + b] = b < k ? columns[b * n + i] : 0.0;
    }
    memset(squares, 0, n * sizeof(double));
    for (int64_t a = 0; a < k; a++)
        for (int64_t i = 0; i < n; i++) squares[i] += columns[a * n + i] * columns[a * n + i];
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
    combine_columns(columns, n, width, solution, margins);
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

int tensormargin_solve_block(const Task *task, int64_t d, const double *design, double *kept, double *beta,
                             double *vector, Answer *answer) {
    const double *weights = task->weights;
    double lam = task->lam, mu1 = task->mu1, mu2 = task->mu2;
    int64_t n = task->n, width = d + (task->bias > 0.0), wide = width > task->limits.wide * n, copied = wide || mu1 > 0.0;
    int64_t k = wide ? n : width, padded = padded_size(k);
    int64_t scratch = larger(face_memory(most_free(k)), k * k + 2 * k + n + n * k);
    if (wide) scratch = larger(scratch, n * n + larger(n * width, n * n + 2 * n));
    int64_t own = !wide ? n * width + d + 1 : kept == NULL ? kept_size(n, d) : 0; /* of what might have been kept */
    int64_t size = own + n * padded + k * k + 3 * n + 3 * (2 * n + padded) + k + width + scratch + (copied ? n * k : 0);
    double *memory = malloc(size * sizeof(double) + (n + 1) * sizeof(int64_t));
    if (memory == NULL) return 1;
    double *columns = own ? memory : kept, *mean = columns + n * width, *factored = mean + d;
    int64_t *chosen = (int64_t *)(factored + n * n), *rank = wide ? chosen + n : (int64_t *)factored;
    double *rows = memory + own, *factor = rows + n * padded;
    double *lower = factor + k * k, *upper = lower + n, *squares = upper + n, *next = squares + n;
    Point at = {beta, next, next + padded, 0.0, 0.0, 0.0};
    next = at.margins + n;
    Point trial = {next, next + n, next + n + padded, 0.0, 0.0, 0.0};
    next = trial.margins + n;
    Point spare = {next, next + n, next + n + padded, 0.0, 0.0, 0.0};
    double *point = spare.margins + n, *solution = point + k, *base = copied ? solution + width : columns;
    double *rest = solution + width + (copied ? n * k : 0);
    int64_t *order = (int64_t *)(memory + size); /* of the free ones, one more may be written */

    if (own) *rank = 0;
    if (*rank == 0) {
        sign_columns(task, d, design, columns, mean);
        *rank = wide ? gram_factor(columns, n, width, factored, chosen, rest) : k;
    }
    if (wide) {
        k = *rank;
        padded = padded_size(k);
        transpose(factored, n, k, base);
    } else if (copied) {
        memcpy(base, columns, n * width * sizeof(double));
    }
    if (mu1 > 0.0) {
        if (!factor_of_quadratic(base, weights, n, k, mu1, factor, rest)) {
            free(memory);
            return 2;
        }
        whiten(base, n, k, factor);
    }
    rows_of_columns(base, n, k, padded, rows, squares);
    for (int64_t i = 0; i < n; i++) lower[i] = mu2 * weights[i], upper[i] = (mu2 + lam) * weights[i];
    Problem problem = {n, k, padded, rows, base, weights, lam, mu2, lower, upper, squares};
    optimise(&problem, &at, &trial, &spare, &task->limits, order, point, rest);

    memcpy(point, at.u, k * sizeof(double)); /* back: L'^-1 u, and for few samples the vector in the span of their rows */
    if (mu1 > 0.0) undo_whitening(point, k, factor);
    if (wide) {
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
    int failed = tensormargin_solve_block(&task, d, columns, NULL, beta, vector, &answer);
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
