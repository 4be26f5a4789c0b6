/* The elementwise half of an LSTM step, in one pass over memory: the equations of elmokit/model/cell.py.

   Gates are packed i, f, o, j. A call computes `width` of the `total` cells of n rows, starting at `offset`. `gates` has
   their product with the recurrent matrix, (n, 4, width). The bias and the input's part are added here, row by row; the
   latter is row `rows[i]` of `inputs` (or row i if `rows` is null). `c` is updated in place, `out` receives
   o * tanh(c). `clip` <= 0 means no clipping. */

#include <stdint.h>
#include <string.h>

/* e^-x, with x clamped to |x| <= 28: a gate is then within 1e-12 of 0 or 1, and three of these values can be multiplied
   without overflow, so that a step needs two divisions instead of five. */
static inline float exp_minus(float x) {
    x = x > 28.0f ? 28.0f : (x < -28.0f ? -28.0f : x);
    float shifted = x * -1.44269504088896341f + 12582912.0f; /* rounds to the nearest integer n, in the low bits */
    int32_t n;
    memcpy(&n, &shifted, sizeof n);
    float whole = shifted - 12582912.0f;
    float r = (-x - whole * 0.693145751953125f) - whole * 1.42860682030941723e-6f; /* |r| <= ln(2) / 2 */
    float e = 1.0f / 5040.0f; /* the series of e^r, exact to float as far as the seventh power */
    e = e * r + 1.0f / 720.0f;
    e = e * r + 1.0f / 120.0f;
    e = e * r + 1.0f / 24.0f;
    e = e * r + 1.0f / 6.0f;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    int32_t bits = (n << 23) + (127 << 23);
    float power;
    memcpy(&power, &bits, sizeof power);
    return e * power;
}

void elmokit_cell(int64_t n, int64_t width, int64_t total, int64_t offset, const float *restrict gates, const float *restrict inputs,
                  const int64_t *restrict rows, const float *restrict bias, float *restrict c,
                  float *restrict out, float clip) {
    float limit = clip > 0.0f ? clip : 3.4e38f;
    for (int64_t row = 0; row < n; ++row) {
        const float *restrict g = gates + row * 4 * width;
        const float *restrict x = inputs + (rows ? rows[row] : row) * 4 * total + offset;
        const float *restrict b = bias + offset;
        float *restrict memory = c + row * total + offset;
        float *restrict result = out + row * total + offset;
#pragma GCC ivdep
        for (int64_t k = 0; k < width; ++k) {
            /* sigmoid(a) = 1 / (1 + e^-a), tanh(a) = (1 - e^-2a) / (1 + e^-2a) */
            float i = 1.0f + exp_minus(g[k] + x[k] + b[k]);
            float f = 1.0f + exp_minus(g[k + width] + x[k + total] + b[k + total]);
            float o = 1.0f + exp_minus(g[k + 2 * width] + x[k + 2 * total] + b[k + 2 * total]);
            float j = exp_minus(2.0f * (g[k + 3 * width] + x[k + 3 * total] + b[k + 3 * total]));
            float ij = i * (1.0f + j);
            float value = (memory[k] * ij + (1.0f - j) * f) / (f * ij);
            value = value > limit ? limit : (value < -limit ? -limit : value);
            memory[k] = value;
            float t = exp_minus(2.0f * value);
            result[k] = (1.0f - t) / (o * (1.0f + t));
        }
    }
}

/* result (m) += row (k) @ matrix (k, m), four rows of the matrix at a time. */
static void add_product(int64_t k, int64_t m, const float *restrict row, const float *restrict matrix,
                        float *restrict result) {
    int64_t i = 0;
    for (; i + 4 <= k; i += 4) {
        float r0 = row[i], r1 = row[i + 1], r2 = row[i + 2], r3 = row[i + 3];
        const float *restrict w0 = matrix + i * m;
        const float *restrict w1 = w0 + m;
        const float *restrict w2 = w1 + m;
        const float *restrict w3 = w2 + m;
#pragma GCC ivdep
        for (int64_t j = 0; j < m; ++j) result[j] += (r0 * w0[j] + r1 * w1[j]) + (r2 * w2[j] + r3 * w3[j]);
    }
    for (; i < k; ++i) {
        const float *restrict w = matrix + i * m;
#pragma GCC ivdep
        for (int64_t j = 0; j < m; ++j) result[j] += row[i] * w[j];
    }
}

/* Whole steps of a layer for a few rows, where calling a matrix product costs more than computing it. Tokens are packed
   as in elmokit/model/packing.py; `inputs` has the input's part of the gates of every token, `starts` (or null) says
   which tokens reset their row to `first_h`, `first_c`. `gates` (4 * width) and `memory` (width) are scratch memory.
   `projection` is null for a layer without one; then dim equals width. */
void elmokit_steps(int64_t steps, const int64_t *restrict sizes, int64_t width, int64_t dim, const float *restrict inputs,
                   const uint8_t *restrict starts, const float *restrict bias, const float *restrict recurrent,
                   const float *restrict projection, const float *restrict first_h, const float *restrict first_c,
                   float *restrict h, float *restrict c, float *restrict y,
                   float *restrict gates, float *restrict memory, float cell_clip, float projection_clip) {
    int64_t token = 0;
    for (int64_t step = 0; step < steps; ++step) {
        for (int64_t row = 0; row < sizes[step]; ++row, ++token) {
            float *restrict own_h = h + row * dim;
            float *restrict own_c = c + row * width;
            float *restrict result = y + token * dim;
            if (starts && starts[token]) {
                memcpy(own_h, first_h + row * dim, dim * sizeof(float));
                memcpy(own_c, first_c + row * width, width * sizeof(float));
            }
            memset(gates, 0, 4 * width * sizeof(float));
            add_product(dim, 4 * width, own_h, recurrent, gates);
            const float *input = inputs + token * 4 * width;
            elmokit_cell(1, width, width, 0, gates, input, 0, bias, own_c, projection ? memory : result, cell_clip);
            if (projection) {
                memset(result, 0, dim * sizeof(float));
                add_product(width, dim, memory, projection, result);
                if (projection_clip > 0.0f)
                    for (int64_t j = 0; j < dim; ++j)
                        result[j] = result[j] > projection_clip ? projection_clip
                                    : result[j] < -projection_clip ? -projection_clip : result[j];
            }
            memcpy(own_h, result, dim * sizeof(float));
        }
    }
}

/* The same step in training. `gates` (n, 4, width) are complete on input and become activations, `c` is updated, and
   tanh(c) is also kept, because the backward pass needs all of them. */
void elmokit_train_cell(int64_t n, int64_t width, float *restrict gates, float *restrict c, float *restrict tanh_c,
                        float *restrict out, float clip) {
    float limit = clip > 0.0f ? clip : 3.4e38f;
    for (int64_t row = 0; row < n; ++row) {
        float *restrict g = gates + row * 4 * width;
        float *restrict memory = c + row * width;
        float *restrict squashed = tanh_c + row * width;
        float *restrict result = out + row * width;
#pragma GCC ivdep
        for (int64_t k = 0; k < width; ++k) {
            float i = 1.0f / (1.0f + exp_minus(g[k]));
            float f = 1.0f / (1.0f + exp_minus(g[k + width]));
            float o = 1.0f / (1.0f + exp_minus(g[k + 2 * width]));
            float e = exp_minus(2.0f * g[k + 3 * width]);
            float j = (1.0f - e) / (1.0f + e);
            float value = f * memory[k] + i * j;
            value = value > limit ? limit : (value < -limit ? -limit : value);
            float t = exp_minus(2.0f * value);
            t = (1.0f - t) / (1.0f + t);
            g[k] = i;
            g[k + width] = f;
            g[k + 2 * width] = o;
            g[k + 3 * width] = j;
            memory[k] = value;
            squashed[k] = t;
            result[k] = o * t;
        }
    }
}

/* The backward pass: from the gradients of the output and of the memory after the step (`dc`) to those of the gates and
   of the memory before the step (again `dc`). No gradient flows where the memory was clipped. */
void elmokit_train_back(int64_t n, int64_t width, const float *restrict gates, const float *restrict before_c,
                        const float *restrict tanh_c, const float *restrict dout, float *restrict dc,
                        float *restrict dgates, float clip) {
    float limit = clip > 0.0f ? clip : 3.4e38f;
    for (int64_t row = 0; row < n; ++row) {
        const float *restrict g = gates + row * 4 * width;
        const float *restrict before = before_c + row * width;
        const float *restrict squashed = tanh_c + row * width;
        const float *restrict from = dout + row * width;
        float *restrict memory = dc + row * width;
        float *restrict d = dgates + row * 4 * width;
#pragma GCC ivdep
        for (int64_t k = 0; k < width; ++k) {
            float i = g[k], f = g[k + width], o = g[k + 2 * width], j = g[k + 3 * width];
            float t = squashed[k], value = f * before[k] + i * j;
            float flow = memory[k] + from[k] * o * (1.0f - t * t);
            flow = value > limit || value < -limit ? 0.0f : flow;
            d[k] = flow * j * i * (1.0f - i);
            d[k + width] = flow * before[k] * f * (1.0f - f);
            d[k + 2 * width] = from[k] * t * o * (1.0f - o);
            d[k + 3 * width] = flow * i * (1.0f - j * j);
            memory[k] = flow * f;
        }
    }
}
