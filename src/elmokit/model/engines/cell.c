/* The elementwise half of an LSTM step, in one pass over memory: the equations of elmokit/model/cell.py.

   Gates are packed i, f, o, j. A call covers `width` of the `total` cells of n rows, from `offset` on. `gates` holds
   what the recurrent matrix gave for them, (n, 4, width); the part of the input is added here, row by row, from `inputs` at the row that `rows` names (or at the row's own place if `rows` is null), and so is the
   bias. `c` is updated in place, `out` receives o * tanh(c). `clip` <= 0 means no clip. */

#include <stdint.h>
#include <string.h>

/* e^-x for |x| <= 28, and the value at the nearer end beyond: a gate is then within 1e-12 of 0 or 1, and three of these
   can be multiplied without overflow, so that a step needs two divisions instead of five. */
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
