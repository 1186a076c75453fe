/* transport_lists.c: the cheapest pairs of every row (transport_paths.c). */
#include "transport_paths.h"

/* Columns a group where there are many; groups at least, so that few pairs beside the wanted ones are below the threshold, but for
 * problems of few pairs, whose rows are listed whole and do not bid; lanes. */
enum { GROUP = 8, GROUPS_AT_LEAST = 32, FEW_PAIRS = 1 << 12, ABREAST = 4 };

/* One of the lowest group minima such that at least OTA_LISTED_FIRST pairs lie at or below it; +inf: there are not so many. */
static double threshold_of_groups(const double *lowest, int64_t groups) {
    double kept[OTA_LISTED_FIRST];
    for (int place = 0; place < OTA_LISTED_FIRST; place++) kept[place] = INFINITY;
    for (int64_t k = 0; k < groups; k++) {
        const double one = lowest[k];
        if (!(one < kept[OTA_LISTED_FIRST - 1])) continue;
        for (int place = OTA_LISTED_FIRST - 1; place > 0; place--) {
            const double before = kept[place - 1] > one ? kept[place - 1] : one;
            kept[place] = before < kept[place] ? before : kept[place];
        }
        kept[0] = one < kept[0] ? one : kept[0];
    }
    return kept[OTA_LISTED_FIRST - 1];
}

static int64_t groups_of(const ota_transport_paths *paths) {
    const int64_t columns = paths->tree->columns, groups = (columns + GROUP - 1) / GROUP;
    if (columns <= OTA_LISTED_FIRST || columns * paths->tree->rows < FEW_PAIRS) return groups;
    return ota_int_max(groups, ota_int_min(columns, GROUPS_AT_LEAST));
}

/* Lists the pairs of row i, whose groups `lowest` is of, of reduced cost at most `threshold`; false: they have no room. */
static bool list_to(ota_transport_paths *paths, int32_t i, double threshold) {
    const ota_score_row row = ota_path_row(paths, i);
    const ota_cost_groups groups = {paths->price, paths->lists.lowest, groups_of(paths)};
    ota_pair_list list = {.column = paths->lists.column + (int64_t)i * paths->lists.stride,
                          .cost = paths->lists.cost + (int64_t)i * paths->lists.stride,
                          .room = paths->lists.stride};
    /* Where many tie, rows begin at different columns and so list different ones. */
    const bool whole = paths->read->pick(&row, &groups, i, threshold, &list);
    paths->lists.count[i] = list.count;
    paths->lists.bound[i] = whole ? list.next : threshold;
    return whole;
}

static void list_cheapest(ota_transport_paths *paths, int32_t i) {
    const int64_t groups = groups_of(paths);
    const ota_score_row row = ota_path_row(paths, i);
    const double lowest = paths->read->groups(&row, paths->price, groups, paths->lists.lowest);
    const double threshold = threshold_of_groups(paths->lists.lowest, groups);
    if (!list_to(paths, i, threshold)) paths->lists.bound[i] = lowest;
    paths->lists.reach[i] = threshold - lowest;
}

void ota_transport_paths_list(ota_transport_paths *paths, int32_t i) {
    ota_full_hide(paths, i, paths->price);
    list_cheapest(paths, i);
    ota_full_show(paths, i, paths->price);
}

bool ota_transport_paths_list_more(ota_transport_paths *paths, int32_t i) {
    const ota_score_row row = ota_path_row(paths, i);
    double threshold = paths->lists.bound[i] + paths->lists.reach[i];
    if (!(threshold > paths->lists.bound[i])) threshold = INFINITY;
    paths->lists.reach[i] *= 2.0;
    ota_full_hide(paths, i, paths->price);
    (void)paths->read->groups(&row, paths->price, groups_of(paths), paths->lists.lowest);
    const bool room = list_to(paths, i, threshold);
    if (!room) list_cheapest(paths, i);
    ota_full_show(paths, i, paths->price);
    return room;
}

static inline double lesser(double a, double b) { return a < b ? a : b; }
static inline double larger(double a, double b) { return a > b ? a : b; }

/* Without a branch that depends on a number: those are as often wrong as not. */
ota_two_cheapest ota_transport_paths_two(const ota_transport_paths *paths, int32_t i) {
    const int32_t *column = paths->lists.column + (int64_t)i * paths->lists.stride;
    const double *cost = paths->lists.cost + (int64_t)i * paths->lists.stride;
    const double *price = paths->price;
    const int32_t count = paths->lists.count[i];
    double first[ABREAST], second[ABREAST];
    for (int l = 0; l < ABREAST; l++) first[l] = second[l] = INFINITY;
    int32_t k = 0;
    for (; k + ABREAST <= count; k += ABREAST) {
        for (int l = 0; l < ABREAST; l++) {
            const double reduced = cost[k + l] - price[column[k + l]];
            second[l] = lesser(larger(reduced, first[l]), second[l]);
            first[l] = lesser(reduced, first[l]);
        }
    }
    for (; k < count; k++) {
        const double reduced = cost[k] - price[column[k]];
        second[0] = lesser(larger(reduced, first[0]), second[0]);
        first[0] = lesser(reduced, first[0]);
    }
    ota_two_cheapest found = {first[0], second[0], OTA_NO_NODE};
    for (int l = 1; l < ABREAST; l++) {
        found.second = lesser(larger(first[l], found.first), lesser(second[l], found.second));
        found.first = lesser(first[l], found.first);
    }
    if (!(found.first < INFINITY)) return found;
    int32_t place = 0, met = 0;
    for (k = 0; k < count; k++) {
        met |= cost[k] - price[column[k]] <= found.first;
        place += 1 - met;
    }
    found.best = column[place];
    return found;
}

double ota_transport_paths_least(ota_transport_paths *paths, int32_t i) {
    if (i == paths->tree->spare_row) {
        const ota_score_row row = ota_path_row(paths, i);
        ota_full_hide(paths, i, paths->price);
        const double least = paths->read->groups(&row, paths->price, 1, paths->lists.lowest);
        ota_full_show(paths, i, paths->price);
        return least;
    }
    for (int attempt = 0;; attempt++) {
        const double least = ota_transport_paths_two(paths, i).first;
        if (least <= paths->lists.bound[i] || attempt > 0) return least;
        (void)ota_watch_spend(&paths->watch, paths->tree->padded);
        ota_transport_paths_list(paths, i);
    }
}
