/* Flat weights of many binary problems, given by inner products of all samples: a problem's are a block of them. */

#include "small.h"

typedef struct { /* what all problems share */
    int64_t n_samples, n_views;
    const double *grams;  /* n_views times n_samples x n_samples */
    const double *scales; /* factors of the views; NaN for a mean squared norm of one */
    const double *ranges; /* of each view: smallest mean squared norm, largest sum of them, largest offset */
    int centred, relative;
} Shared;

/* Add a view's block of the inner products, relative to the weighted mean if centred, to gram; return the factor of the
 * view, squared. at_mean gets the products of the samples with the mean, and square_of_mean that of the mean with itself;
 * mean_square is added to: NaN if this view is out of range. */
static double add_view(const Shared *all, int64_t view, int64_t n, const int64_t *rows, const double *weights, double *gram,
                       double *at_mean, double *square_of_mean, double *mean_square) {
    const double *from = all->grams + view * all->n_samples * all->n_samples;
    double square = 0.0, of_mean = 0.0;
    *square_of_mean = 0.0;
    if (all->scales[view] == 0.0) { /* left out */
        memset(at_mean, 0, n * sizeof(double));
        return 0.0;
    }
    for (int64_t a = 0; a < n; a++) {
        const double *row = from + rows[a] * all->n_samples;
        at_mean[a] = 0.0;
        if (all->centred)
            for (int64_t b = 0; b < n; b++) at_mean[a] += weights[b] * row[rows[b]];
        square += weights[a] * row[rows[a]];
        of_mean += weights[a] * at_mean[a];
    }
    square = fmax(square - of_mean, 0.0);
    const double *range = all->ranges + 3 * view;
    if (!(square >= range[0] && square <= range[1] / n && of_mean <= range[2] * square)) {
        *mean_square = NAN;
        return 0.0;
    }
    double factor = all->scales[view] * all->scales[view];
    if (isnan(factor)) factor = square > 0.0 ? 1.0 / square : 1.0;
    for (int64_t a = 0; a < n; a++) {
        const double *row = from + rows[a] * all->n_samples;
        for (int64_t b = 0; b < n; b++) gram[a * n + b] += factor * (row[rows[b]] - at_mean[a] - at_mean[b] + of_mean);
    }
    *square_of_mean = of_mean;
    *mean_square += factor * square;
    return factor;
}

/* Solve Eq. 7 for each of several binary problems over all weights on n_views tensors per sample.
 *
 * ends             where the rows, signs and weights of each problem end
 * ranges           n_views x 3: the smallest mean squared norm, the largest sum of squared norms, and the largest
 *                  squared norm of the mean, relative to the mean squared norm; a problem outside is not solved
 * kind             centred (weights have an intercept), and whether strengths are relative to a mean squared norm of one
 * coefficients     of the samples in each weight, one per row: overwritten
 * factors          n_problems x n_views, what they are multiplied by: overwritten
 * answers          n_problems x 4, intercept, primal, dual and scale of each problem: overwritten. A problem that could
 *                  not be solved has a primal value of infinity.
 *
 * Returns 0, or 1 if memory is missing.
 */
int tensormargin_solve_flat(int64_t n_samples, int64_t n_views, const double *grams, const double *scales,
                            const double *ranges, int64_t n_problems, const int64_t *ends, const int64_t *rows,
                            const double *signs, const double *weights, const double *strengths, const int64_t *kind,
                            const double *limits, double *coefficients, double *factors, double *answers) {
    Shared all = {n_samples, n_views, grams, scales, ranges, (int)kind[0], (int)kind[1]};
    int64_t most = 1;
    for (int64_t p = 0; p < n_problems; p++) most = larger(most, ends[p] - (p ? ends[p - 1] : 0));
    double *memory = malloc((4 * most * most + (6 + n_views) * most + n_views) * sizeof(double) + most * sizeof(int64_t));
    if (memory == NULL) return 1;
    double *gram = memory, *factored = gram + most * most, *columns = factored + most * most;
    double *scratch = columns + most * most, *vector = scratch + most * (most + 2), *beta = vector + most;
    double *at_means = beta + most, *of_means = at_means + n_views * most;
    int64_t *chosen = (int64_t *)(of_means + n_views);
    for (int64_t p = 0; p < n_problems; p++) {
        int64_t from = p ? ends[p - 1] : 0, n = ends[p] - from;
        double *own = coefficients + from, *own_factors = factors + p * n_views, mean_square = 0.0;
        memset(gram, 0, n * n * sizeof(double));
        for (int64_t v = 0; v < n_views; v++)
            own_factors[v] = add_view(&all, v, n, rows + from, weights + from, gram, at_means + v * n, of_means + v, &mean_square);
        if (isnan(mean_square)) memset(gram, 0, n * n * sizeof(double));
        for (int64_t a = 0; a < n; a++) gram[a * n + a] = fmax(gram[a * n + a], 0.0); /* rounding may leave less */
        int64_t rank = tensormargin_factor_gram(gram, n, factored, chosen, scratch);
        transpose(factored, n, rank, columns);

        double unit = all.relative && mean_square > 0.0 ? mean_square : 1.0;
        double own_strengths[3] = {strengths[0] / unit, strengths[1] / unit, strengths[2] / unit};
        double bias = all.centred ? (mean_square > 0.0 ? sqrt(mean_square) : 1.0) : 0.0;
        Task task = task_of(n, signs + from, weights + from, own_strengths, bias, limits);
        Answer answer = NOT_SOLVED;
        for (int64_t a = 0; a < n; a++) beta[a] = own_strengths[2] * weights[from + a];
        int failed = isnan(mean_square) || !isfinite(own_strengths[0] + own_strengths[1] + own_strengths[2]) ||
                     own_strengths[0] + own_strengths[2] < DBL_MIN ||
                     tensormargin_solve_block(&task, rank, columns, NULL, beta, vector, &answer);
        if (failed) {
            answer.primal = INFINITY, answer.dual = -INFINITY;
            memset(vector, 0, rank * sizeof(double));
        }
        tensormargin_combine(factored, chosen, n, rank, vector, own);
        double total = 0.0;
        for (int64_t a = 0; a < n; a++) total += own[a];
        for (int64_t v = 0; v < n_views; v++)
            answer.intercept -= own_factors[v] * (dot(at_means + v * n, own, n) - total * of_means[v]);
        if (all.centred) add(own, -total, weights + from, n);
        double *out = answers + 4 * p;
        out[0] = answer.intercept, out[1] = answer.primal, out[2] = answer.dual, out[3] = answer.scale;
    }
    free(memory);
    return 0;
}
