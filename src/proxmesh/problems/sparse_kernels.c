/* Products of sparse rows with dense weights, for sparse_ops.py.

   Weights of agent i are w + i * w_stride, [outputs, features]. A sample is a row of the
   table: its entries are offsets[row] .. offsets[row + 1].

   Where the rows touch most columns several times, the weights are turned once, so that
   the outputs of one column lie together; where they touch few of very many columns, the
   weights stay as they are and are read only where they are touched. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TILE 8 /* rows and columns that are turned at once */

/* Vectors that need not be aligned; four of them are a block of outputs. */
typedef float vector_float32 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double vector_float64 __attribute__((vector_size(32), aligned(8), may_alias));

#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define SHUFFLES 1
#endif
#endif

#ifdef SHUFFLES
/* An 8 x 8 tile in three rounds of exchanges, in the order of AVX's instructions. */
static inline void tile_float32(const float *from, int64_t width, float *to,
                                int64_t height) {
    vector_float32 r[8], s[8];
    for (int i = 0; i < 8; i++) r[i] = *(const vector_float32 *)(from + i * width);
    for (int i = 0; i < 8; i += 2) {
        s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            vector_float32 a = s[i + j], b = s[i + j + 2];
            r[i + 2 * j] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + 2 * j + 1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        vector_float32 a = r[i], b = r[i + 4];
        *(vector_float32 *)(to + i * height) =
            __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
        *(vector_float32 *)(to + (i + 4) * height) =
            __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
#else
static inline void tile_float32(const float *from, int64_t width, float *to,
                                int64_t height) {
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) to[j * height + i] = from[i * width + j];
}
#endif

static inline void tile_float64(const double *from, int64_t width, double *to,
                                int64_t height) {
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) to[j * height + i] = from[i * width + j];
}

#define KERNELS(NAME, REAL)                                                              \
    static void turn_##NAME(const REAL *restrict from, REAL *restrict to, int64_t rows,  \
                            int64_t columns) {                                           \
        int64_t r = 0;                                                                   \
        for (; r + TILE <= rows; r += TILE) {                                            \
            int64_t c = 0;                                                               \
            for (; c + TILE <= columns; c += TILE)                                       \
                tile_##NAME(from + r * columns + c, columns, to + c * rows + r, rows);   \
            for (; c < columns; c++)                                                     \
                for (int i = 0; i < TILE; i++)                                           \
                    to[c * rows + r + i] = from[(r + i) * columns + c];                  \
        }                                                                                \
        for (; r < rows; r++)                                                            \
            for (int64_t c = 0; c < columns; c++)                                        \
                to[c * rows + r] = from[r * columns + c];                                \
    }                                                                                    \
                                                                                         \
    /* out[i, s, :] = sum over the entries of sample s: value * w[i, :, column] */       \
    int NAME##_forward(const REAL *w, int64_t w_stride, const int64_t *rows,             \
                       const int64_t *offsets, const int32_t *columns,                   \
                       const REAL *values, REAL *out, int64_t agents, int64_t samples,   \
                       int64_t outputs, int64_t features, int turned) {                  \
        const int64_t lanes = sizeof(vector_##NAME) / sizeof(REAL);                      \
        REAL *t = NULL;                                                                  \
        if (turned && !(t = malloc((size_t)(outputs * features) * sizeof(REAL))))        \
            return 1;                                                                    \
        for (int64_t i = 0; i < agents; i++) {                                           \
            const REAL *wi = w + i * w_stride;                                           \
            if (turned) turn_##NAME(wi, t, outputs, features);                           \
            for (int64_t s = 0; s < samples; s++) {                                      \
                int64_t row = rows[i * samples + s];                                     \
                REAL *restrict y = out + (i * samples + s) * outputs;                    \
                int64_t begin = offsets[row], end = offsets[row + 1], j = 0;             \
                for (; turned && j + 4 * lanes <= outputs; j += 4 * lanes) {             \
                    vector_##NAME a = {0}, b = {0}, c = {0}, d = {0};                    \
                    for (int64_t e = begin; e < end; e++) {                              \
                        const vector_##NAME *column =                                    \
                            (const vector_##NAME *)(t + columns[e] * outputs + j);       \
                        REAL v = values[e];                                              \
                        a += v * column[0], b += v * column[1];                          \
                        c += v * column[2], d += v * column[3];                          \
                    }                                                                    \
                    vector_##NAME *to = (vector_##NAME *)(y + j);                        \
                    to[0] = a, to[1] = b, to[2] = c, to[3] = d;                          \
                }                                                                        \
                for (; !turned && j + 2 <= outputs; j += 2) {                            \
                    const REAL *first = wi + j * features, *second = first + features;   \
                    REAL a = 0, b = 0;                                                   \
                    for (int64_t e = begin; e < end; e++) {                              \
                        a += values[e] * first[columns[e]];                              \
                        b += values[e] * second[columns[e]];                             \
                    }                                                                    \
                    y[j] = a, y[j + 1] = b;                                              \
                }                                                                        \
                const REAL *base = turned ? t : wi;                                      \
                int64_t of_column = turned ? outputs : 1, of_output = turned ? 1 : features; \
                for (; j < outputs; j++) {                                               \
                    const REAL *restrict from = base + j * of_output;                    \
                    REAL sum = 0;                                                        \
                    for (int64_t e = begin; e < end; e++)                                \
                        sum += values[e] * from[columns[e] * of_column];                 \
                    y[j] = sum;                                                          \
                }                                                                        \
            }                                                                            \
        }                                                                                \
        free(t);                                                                         \
        return 0;                                                                        \
    }                                                                                    \
                                                                                         \
    /* out[i, :, column] += value * g[i, s, :] for all entries. Turned, out is written;  \
       otherwise it is added to, and must be zero before. */                             \
    int NAME##_backward(const REAL *g, const int64_t *rows, const int64_t *offsets,      \
                        const int32_t *columns, const REAL *values, REAL *out,           \
                        int64_t agents, int64_t samples, int64_t outputs,                \
                        int64_t features, int turned) {                                  \
        size_t size = (size_t)(outputs * features) * sizeof(REAL);                       \
        const int64_t lanes = sizeof(vector_##NAME) / sizeof(REAL);                      \
        REAL *t = NULL;                                                                  \
        if (turned && !(t = malloc(size))) return 1;                                     \
        for (int64_t i = 0; i < agents; i++) {                                           \
            REAL *oi = out + i * outputs * features;                                     \
            if (turned) memset(t, 0, size);                                              \
            for (int64_t s = 0; s < samples; s++) {                                      \
                int64_t row = rows[i * samples + s];                                     \
                const REAL *restrict gs = g + (i * samples + s) * outputs;               \
                int64_t begin = offsets[row], end = offsets[row + 1], j = 0;             \
                for (; turned && j + 4 * lanes <= outputs; j += 4 * lanes) {             \
                    const vector_##NAME *slope = (const vector_##NAME *)(gs + j);        \
                    vector_##NAME a = slope[0], b = slope[1], c = slope[2], d = slope[3]; \
                    for (int64_t e = begin; e < end; e++) {                              \
                        vector_##NAME *column =                                          \
                            (vector_##NAME *)(t + columns[e] * outputs + j);             \
                        REAL v = values[e];                                              \
                        column[0] += v * a, column[1] += v * b;                          \
                        column[2] += v * c, column[3] += v * d;                          \
                    }                                                                    \
                }                                                                        \
                for (; !turned && j + 2 <= outputs; j += 2) {                            \
                    REAL *restrict first = oi + j * features;                            \
                    REAL *restrict second = first + features;                            \
                    for (int64_t e = begin; e < end; e++) {                              \
                        first[columns[e]] += values[e] * gs[j];                          \
                        second[columns[e]] += values[e] * gs[j + 1];                     \
                    }                                                                    \
                }                                                                        \
                REAL *base = turned ? t : oi;                                            \
                int64_t of_column = turned ? outputs : 1, of_output = turned ? 1 : features; \
                for (; j < outputs; j++) {                                               \
                    REAL *restrict to = base + j * of_output;                            \
                    REAL slope = gs[j];                                                  \
                    for (int64_t e = begin; e < end; e++)                                \
                        to[columns[e] * of_column] += values[e] * slope;                 \
                }                                                                        \
            }                                                                            \
            if (turned) turn_##NAME(t, oi, features, outputs);                           \
        }                                                                                \
        free(t);                                                                         \
        return 0;                                                                        \
    }

KERNELS(float32, float)
KERNELS(float64, double)
