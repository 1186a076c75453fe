/* Tangents of a block (blocks.h): of scores by way of products and terms, and of weights by the numbers of a head. */
#include "blocks.h"

#include "regularisers/tsallis.h"
#include "terms/terms.h"

/* ---- terms ---------------------------------------------------------------------------------------- */

const ota_array *ota_tangent_of_term(const ota_resolved *r, const ota_tangents *tangents, int t) {
    if (tangents->terms == NULL) return NULL;
    const ota_array *a = &tangents->terms[t == r->term_count ? r->sink_place : r->term_places[t]];
    return ota_array_present(a) ? a : NULL;
}

double ota_tangent_number(const ota_array *a, int64_t head) {
    if (a == NULL || !ota_array_present(a)) return 0.0;
    return ota_array_get(a, 0, 0, 0, a->size[3] == 1 ? 0 : head);
}

/* dZ -> dB of a row; z: the raw products. */
static void add_softcap_tangents(const ota_tangent_row_keys *row, const double *z,
                                 double *tangents) {
    const ota_resolved *r = row->resolved;
    const int64_t head = row->head,
                  diagonal = ota_row_number(r, row->query) + r->keys - 1 - row->first;
    const ota_term *inside = NULL, *softcap = NULL;
    const ota_array *inside_tangents = NULL;
    double cap_tangent = 0.0;
    for (int t = 0; t < r->term_count; t++) {
        if (ota_term_form_of(&r->terms[t]) == OTA_FORM_SOFTCAP) {
            softcap = &r->terms[t];
            cap_tangent = ota_tangent_number(ota_tangent_of_term(r, row->tangents, t), 0);
        }
        if (!ota_term_is_inside(&r->terms[t])) continue;
        inside = &r->terms[t];
        inside_tangents = ota_tangent_of_term(r, row->tangents, t);
    }
    for (int64_t j = 0; inside_tangents != NULL && j < row->count; j++)
        tangents[j] += ota_array_get(inside_tangents, 0, head, 0, diagonal - j);
    for (int64_t j = 0; j < row->count; j++) tangents[j] *= r->scale;
    for (int64_t j = 0; softcap != NULL && j < row->count; j++) {
        double y = z[j];
        if (inside != NULL) y += ota_array_get(&inside->array, 0, head, 0, diagonal - j);
        y *= r->scale / softcap->value;
        const double tanh_y = tanh(y), slope = (1.0 - tanh_y) * (1.0 + tanh_y);
        tangents[j] = tangents[j] * slope + cap_tangent * (tanh_y - y * slope);
    }
}

/* Tangents of what is added after the softcap. */
static void add_terms(const ota_tangent_row_keys *row, double *tangents) {
    const ota_resolved *r = row->resolved;
    const int64_t head = row->head, query = row->query, first = row->first;
    for (int t = 0; t < r->term_count; t++) {
        const ota_array *a = ota_tangent_of_term(r, row->tangents, t);
        if (a == NULL || ota_term_is_inside(&r->terms[t])) continue;
        const ota_term_form form = ota_term_form_of(&r->terms[t]);
        const double slope = form == OTA_FORM_LINEAR_DISTANCE ? ota_tangent_number(a, head) : 0.0;
        for (int64_t j = 0; j < row->count; j++) {
            if (form == OTA_FORM_LINEAR_DISTANCE)
                tangents[j] -= slope * fabs((double)(ota_row_position(r, query) - first - j));
            else if (form == OTA_FORM_ADDS_DIFFERENCES)
                tangents[j] += ota_array_get(a, 0, head, 0,
                                             ota_row_number(r, query) + r->keys - 1 - first - j);
            else if (form == OTA_FORM_ADDS_PAIRS)
                tangents[j] += ota_array_get(a, row->batch, head, query, first + j);
        }
    }
}

void ota_tangents_of_terms(const ota_tangent_row_keys *row, const double *z, double *tangents) {
    add_softcap_tangents(row, z, tangents);
    add_terms(row, tangents);
}

/* ---- numbers of a head ---------------------------------------------------------------------------- */

static bool is_moved(double x) { return x < 0.0 || x > 0.0; }

double ota_number_tangent(const ota_row_parameters *rule, const ota_number_tangents *moves,
                          double s, double f, double p) {
    const bool cools = is_moved(moves->temperature), order_moves = is_moved(moves->order);
    if (!cools && !order_moves) return 0.0;
    if (rule->custom != NULL) return -ota_custom_argument(s, f, rule->tau) * moves->temperature;
    const double moved =
        order_moves ? rule->tau * ota_tsallis_order_slope(p, rule->order) * moves->order : 0.0;
    return moved - (cools ? ota_tsallis_level(p, rule->order) * moves->temperature : 0.0);
}

void ota_complete_tangents(const ota_row_parameters *rule, const ota_number_tangents *moves,
                           const double *s, double f, const double *p, int64_t count, double *u) {
    const bool moved = is_moved(moves->temperature) || is_moved(moves->order);
    /* As if 0 were added: -0 becomes 0. */
    for (int64_t j = 0; j < count && !moved; j++) u[j] += 0.0;
    for (int64_t j = 0; j < count && moved; j++) {
        if (p[j] > 0.0) u[j] += ota_number_tangent(rule, moves, s[j], f, p[j]);
    }
}
