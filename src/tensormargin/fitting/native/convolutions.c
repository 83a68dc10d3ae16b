/* Convolutions of samples (channels x time) with short kernels, and what the representations count in their results.
 *
 * Samples are in single precision: the features are counts, and twice as many entries are handled at a time. */

#include "small.h"

#define LENGTH 9 /* entries of a kernel */

/* A kernel has one value at most of its places (the background) and others at a few (the taps). The sum over the
 * background is that of all nine places, which all kernels share, so that a convolution costs one addition and one per
 * tap. There are three taps, or nine, in their order. */
typedef struct {
    int64_t n_kernels, n_taps, n_dilations, n_channels, size;
    float background;
    const int64_t *taps;
    const float *values;
    const int64_t *dilations, *starts, *channels; /* channels of each kernel and dilation, and where they start */
} Loops;

typedef struct { /* a sample between zeros, and the convolution of each channel with nine equal entries */
    int64_t reach, wide;
    float *padded, *totals, *convolved;
} Work;

static int64_t largest(const int64_t *numbers, int64_t count) {
    int64_t most = 0;
    for (int64_t i = 0; i < count; i++) most = larger(most, numbers[i]);
    return most;
}

static int begin(const Loops *loops, Work *work) {
    work->reach = LENGTH / 2 * largest(loops->dilations, loops->n_dilations);
    work->wide = loops->size + 2 * work->reach;
    work->padded = calloc(loops->n_channels * work->wide, sizeof(float));
    work->totals = malloc((loops->n_channels + 1) * loops->size * sizeof(float));
    work->convolved = work->totals + loops->n_channels * loops->size;
    return work->padded != NULL && work->totals != NULL;
}

static void end(Work *work) {
    free(work->padded);
    free(work->totals);
}

static void pad(const Loops *loops, const float *sample, Work *work) {
    for (int64_t c = 0; c < loops->n_channels; c++)
        memcpy(work->padded + c * work->wide + work->reach, sample + c * loops->size, loops->size * sizeof(float));
}

INLINE void add_up(const Loops *loops, int64_t dilation, Work *work) {
    float background = loops->background;
    int64_t size = loops->size;
    for (int64_t c = 0; c < loops->n_channels; c++) {
        const float *row = work->padded + c * work->wide + work->reach - LENGTH / 2 * dilation;
        float *restrict total = work->totals + c * size;
        memset(total, 0, size * sizeof(float));
        for (int64_t j = 0; j < LENGTH; j++) {
            const float *restrict moved = row + j * dilation;
            for (int64_t t = 0; t < size; t++) total[t] += background * moved[t];
        }
    }
}

/* Write the sum of the convolutions of channels with the kernel of one place, of kernels x dilations. */
INLINE void convolve(const Loops *loops, const Work *work, int64_t place, float *restrict out) {
    int64_t dilation = loops->dilations[place % loops->n_dilations], size = loops->size;
    int64_t kernel = place / loops->n_dilations % loops->n_kernels;
    const int64_t *taps = loops->taps + kernel * loops->n_taps;
    const float *values = loops->values + kernel * loops->n_taps;
    memset(out, 0, size * sizeof(float));
    for (int64_t a = loops->starts[place]; a < loops->starts[place + 1]; a++) {
        const float *restrict total = work->totals + loops->channels[a] * size;
        const float *row = work->padded + loops->channels[a] * work->wide + work->reach - LENGTH / 2 * dilation;
        if (loops->n_taps == 3) { /* in one go */
            const float *restrict first = row + taps[0] * dilation, *restrict second = row + taps[1] * dilation;
            const float *restrict third = row + taps[2] * dilation;
            float x = values[0], y = values[1], z = values[2];
            for (int64_t t = 0; t < size; t++) out[t] += ((total[t] + x * first[t]) + y * second[t]) + z * third[t];
        } else {
            const float *restrict moved[LENGTH], *v = values;
            for (int64_t j = 0; j < LENGTH; j++) moved[j] = row + j * dilation;
            for (int64_t t = 0; t < size; t++) {
                float sum = out[t] + total[t];
                for (int64_t j = 0; j < LENGTH; j++) sum += v[j] * moved[j][t];
                out[t] = sum;
            }
        }
    }
}

#define LOOPS {shape[0], shape[1], shape[2], shape[3], shape[4], (float)background, taps, values, dilations, starts, channels}

/* Write one convolution to each row of out: of the sample, kernel, dilation and channels that belong to it. */
FAST int tensormargin_convolutions(const int64_t *shape, double background, const int64_t *taps, const float *values,
                                   const int64_t *dilations, const int64_t *starts, const int64_t *channels,
                                   const float *samples, int64_t count, const int64_t *rows, float *out) {
    Loops loops = LOOPS;
    Work work;
    int failed = !begin(&loops, &work);
    for (int64_t place = 0; place < count && !failed; place++) {
        pad(&loops, samples + rows[place] * loops.n_channels * loops.size, &work);
        add_up(&loops, dilations[place % loops.n_dilations], &work);
        convolve(&loops, &work, place, out + place * loops.size);
    }
    end(&work);
    return failed;
}

INLINE int32_t above(const float *values, int64_t size, float threshold) {
    int32_t count = 0;
    for (int64_t t = 0; t < size; t++) count += values[t] > threshold;
    return count;
}

/* Write the proportions of convolutions above each bias to out, n x places x thresholds.
 *
 * Every other combination of kernel and dilation leaves out the ends, where a kernel reaches beyond the sample. */
FAST int tensormargin_proportions(const int64_t *shape, double background, const int64_t *taps, const float *values,
                                  const int64_t *dilations, const int64_t *starts, const int64_t *channels,
                                  const float *samples, int64_t n, int64_t places, int64_t thresholds,
                                  const float *biases, float *out) {
    Loops loops = LOOPS;
    Work work;
    int failed = !begin(&loops, &work);
    for (int64_t i = 0; i < n && !failed; i++) {
        pad(&loops, samples + i * loops.n_channels * loops.size, &work);
        for (int64_t which = 0; which < loops.n_dilations; which++) {
            add_up(&loops, dilations[which], &work);
            for (int64_t place = which; place < places; place += loops.n_dilations) {
                convolve(&loops, &work, place, work.convolved);
                int64_t kernel = place / loops.n_dilations % loops.n_kernels;
                int64_t inside = (kernel + which) % 2 ? LENGTH / 2 * dilations[which] : 0, kept = loops.size - 2 * inside;
                for (int64_t b = 0; b < thresholds; b++)
                    out[(i * places + place) * thresholds + b] =
                        (float)above(work.convolved + inside, kept, biases[place * thresholds + b]) / (float)kept;
            }
        }
    }
    end(&work);
    return failed;
}

/* ---- competing kernels ---- */

typedef float Eight __attribute__((vector_size(32)));
typedef int32_t EightBits __attribute__((vector_size(32)));

#define CHOOSE(type, where, this, other) ((type)((where & (EightBits)(this)) | (~where & (EightBits)(other))))

#define CONVOLVE(x, w) \
    (((w)[0] * x[0] + (w)[1] * x[1] + (w)[2] * x[2]) + ((w)[3] * x[3] + (w)[4] * x[4] + (w)[5] * x[5])) + \
        ((w)[6] * x[6] + (w)[7] * x[7] + (w)[8] * x[8])

/* Convolve a series, between zeros, with every kernel, and add what the winners have to out: the largest result of every
 * point of time to that of its kernel, and one to the kernel of the smallest. Eight points of time are handled at once,
 * and reach beyond the end. */
INLINE void compete(const float *padded, int64_t dilation, const float *kernels, int64_t n_kernels, int64_t size,
                    float *out) {
    for (int64_t t = 0; t < size; t += 8) {
        Eight x[LENGTH];
        for (int64_t j = 0; j < LENGTH; j++) memcpy(x + j, padded + j * dilation + t, sizeof(Eight));
        Eight high = CONVOLVE(x, kernels), low = high;
        EightBits most = {0, 0, 0, 0, 0, 0, 0, 0}, least = most;
        for (int64_t k = 1; k < n_kernels; k++) {
            Eight result = CONVOLVE(x, kernels + k * LENGTH);
            EightBits own = {0, 0, 0, 0, 0, 0, 0, 0}, more = result > high, less = result < low;
            own += (int32_t)k;
            most = CHOOSE(EightBits, more, own, most), high = CHOOSE(Eight, more, result, high);
            least = CHOOSE(EightBits, less, own, least), low = CHOOSE(Eight, less, result, low);
        }
        for (int64_t a = 0; a < 8 && t + a < size; a++) out[2 * most[a]] += high[a], out[2 * least[a] + 1] += 1.0f;
    }
}

/* Add what the winners of each group have to out: n x signal x group x dilation x kernel x 2. The signals are the
 * samples and their differences. shape: samples, channels, points of time, groups, kernels of a group, dilations. */
FAST int tensormargin_winners(const int64_t *shape, const float *samples, const float *kernels, const int64_t *dilations,
                              const int64_t *starts, const int64_t *channels, float *out) {
    int64_t n = shape[0], n_channels = shape[1], size = shape[2], groups = shape[3], n_kernels = shape[4];
    int64_t n_dilations = shape[5], reach = LENGTH / 2 * largest(dilations, n_dilations), wide = size + 2 * reach + 8;
    float *series = malloc((n_channels * size + wide) * sizeof(float));
    int failed = series == NULL;
    for (int64_t i = 0; i < n && !failed; i++) {
        float *total = series + n_channels * size;
        memcpy(series, samples + i * n_channels * size, n_channels * size * sizeof(float));
        for (int64_t signal = 0; signal < 2; signal++) {
            int64_t length = size - signal;
            for (int64_t c = 0; c < n_channels * signal; c++)
                for (int64_t t = 0; t < length; t++) series[c * size + t] = series[c * size + t + 1] - series[c * size + t];
            for (int64_t place = signal * groups * n_dilations; place < (signal + 1) * groups * n_dilations; place++) {
                int64_t dilation = dilations[place % n_dilations];
                memset(total, 0, wide * sizeof(float));
                for (int64_t a = starts[place]; a < starts[place + 1]; a++) {
                    const float *restrict row = series + channels[a] * size;
                    for (int64_t t = 0; t < length; t++) total[reach + t] += row[t];
                }
                compete(total + reach - LENGTH / 2 * dilation, dilation,
                        kernels + place / n_dilations * n_kernels * LENGTH, n_kernels, length,
                        out + (i * 2 * groups * n_dilations + place) * n_kernels * 2);
            }
        }
    }
    free(series);
    return failed;
}
