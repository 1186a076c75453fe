/* Small facts of a resolved problem: temperature, sink and masses of one head, with their defaults. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "problem.h"

double ota_head_temperature(const ota_resolved *r, int64_t head) {
    const ota_problem *p = &r->problem;
    return ota_array_present(&p->temperatures) ? ota_array_get(&p->temperatures, 0, 0, 0, head)
                                               : p->temperature;
}

bool ota_f32_carries_temperatures(const ota_resolved *r) {
    bool carries = true;
    for (int64_t head = 0; head < r->heads; head++)
        carries = carries && ota_head_temperature(r, head) <= (double)FLT_MAX / 1.0e6;
    return carries;
}

double ota_head_sink(const ota_resolved *r, int64_t head) {
    if (!r->has_sink) return -INFINITY;
    return ota_array_present(&r->sink.array) ? ota_array_get(&r->sink.array, 0, 0, 0, head)
                                             : r->sink.value;
}

bool ota_some_sink(const ota_resolved *r) {
    for (int64_t h = 0; h < r->heads; h++) {
        if (ota_head_sink(r, h) > -INFINITY) return true;
    }
    return false;
}

double ota_row_mass(const ota_resolved *r, int64_t batch, int64_t head, int64_t query) {
    const ota_array *mass = &r->problem.row_mass;
    return ota_array_present(mass) ? ota_array_get(mass, batch, head, 0, query) : 1.0;
}

double ota_column_mass(const ota_resolved *r, int64_t batch, int64_t head, int64_t key,
                       double otherwise) {
    const ota_array *mass = &r->problem.column_mass;
    return ota_array_present(mass) ? ota_array_get(mass, batch, head, 0, key) : otherwise;
}

/* Masses in f32 were rounded one by one, and summed in it when they were normalised; those of two bytes may all have been
 * rounded to one side. */
static double tolerance_of(const ota_array *mass) {
    static const double tolerances[] = {
        [OTA_F64] = 1e-12, [OTA_F32] = 1e-6, [OTA_BF16] = 0x1p-7, [OTA_F16] = 0x1p-10};
    return ota_array_present(mass) ? tolerances[mass->type] : 0.0;
}

double ota_mass_tolerance(const ota_resolved *r) {
    const double given =
        fmax(tolerance_of(&r->problem.row_mass), tolerance_of(&r->problem.column_mass));
    return fmax(given, r->type != OTA_F64 ? 1e-6 : 1e-12);
}

double ota_key_lambda(const ota_resolved *r, int64_t key) {
    const ota_array *lambdas = &r->problem.lambdas;
    return ota_array_present(lambdas) ? ota_array_get(lambdas, 0, 0, 0, key) : r->problem.lambda;
}

void ota_resolved_copy(ota_resolved *to, const ota_resolved *from) {
    memcpy(to, from, sizeof *to);
    to->problem.terms = to->terms;
    to->problem.supports = to->supports;
}
