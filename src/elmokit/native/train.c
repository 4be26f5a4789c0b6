/* The elementwise half of an LSTM step in training, forward and back: the equations of elmokit/model/cell.py.

   Gates are (n, 4, width), packed i, f, o, j. A `limit` of infinity does not clamp. */

#include "vectors.h"

/* `gates` are complete on input and become activations, `c` (n, width) is updated, and tanh(c) is also kept, because
   the backward pass needs all of them. */
void NAME(train_cell)(int64_t n, int64_t width, float *gates, float *c, float *tanh_c, float *out, float limit) {
    MODES_BEGIN;
    for (int64_t row = 0; row < n; ++row)
        for (int64_t k = 0; k < width; k += LANES) {
            int64_t lanes = width - k, place = row * width + k;
            float *g = gates + row * 4 * width + k;
            vec i = sigmoid(load_some(g, lanes));
            vec f = sigmoid(load_some(g + width, lanes));
            vec o = sigmoid(load_some(g + 2 * width, lanes));
            vec j = tanh_of(load_some(g + 3 * width, lanes));
            vec value = clamp(FMA(f, load_some(c + place, lanes), i * j), limit);
            vec t = tanh_of(value);
            store_some(g, i, lanes);
            store_some(g + width, f, lanes);
            store_some(g + 2 * width, o, lanes);
            store_some(g + 3 * width, j, lanes);
            store_some(c + place, value, lanes);
            store_some(tanh_c + place, t, lanes);
            store_some(out + place, o * t, lanes);
        }
    MODES_END;
}

/* The backward pass: from the gradients of the output and of the memory after the step (`dc`) to those of the gates and
   of the memory before the step (again `dc`). No gradient flows where the memory was clamped. */
void NAME(train_back)(int64_t n, int64_t width, const float *gates, const float *before_c, const float *tanh_c,
                      const float *dout, float *dc, float *dgates, float limit) {
    MODES_BEGIN;
    const vec one = splat(1.0f);
    for (int64_t row = 0; row < n; ++row)
        for (int64_t k = 0; k < width; k += LANES) {
            int64_t lanes = width - k, place = row * width + k;
            const float *g = gates + row * 4 * width + k;
            float *d = dgates + row * 4 * width + k;
            vec i = load_some(g, lanes), f = load_some(g + width, lanes);
            vec o = load_some(g + 2 * width, lanes), j = load_some(g + 3 * width, lanes);
            vec t = load_some(tanh_c + place, lanes), before = load_some(before_c + place, lanes);
            vec from = load_some(dout + place, lanes), value = FMA(f, before, i * j);
            vec flow = FMA(from * o, FMA(-t, t, one), load_some(dc + place, lanes));
            flow = choose((value > splat(limit)) | (value < splat(-limit)), (vec){0}, flow);
            store_some(d, flow * j * i * (one - i), lanes);
            store_some(d + width, flow * before * f * (one - f), lanes);
            store_some(d + 2 * width, from * t * o * (one - o), lanes);
            store_some(d + 3 * width, flow * i * FMA(-j, j, one), lanes);
            store_some(dc + place, flow * f, lanes);
        }
    MODES_END;
}
