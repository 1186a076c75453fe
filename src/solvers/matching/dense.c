/* dense.c: maximum-score matching over all pairs of a dense matrix, in the manner of Jonker and Volgenant [ELA-14,
 * LIT-06]: (1) column reduction (square matrices only: a long-side column that stays unmatched must keep v = 0), (2) two
 * sweeps in which an unmatched row bids for its cheapest column, lowering v by the margin to its second cheapest, (3)
 * for each row left, Dijkstra on the reduced costs to the nearest unmatched column. The passes are the backend's. */
#include "dense.h"

enum { BIDDING_SWEEPS = 2, BIDS_PER_ROW = 3 };

void ota_match_layout(ota_match *match, ota_arena *arena, int64_t rows, int64_t columns,
                      int64_t pairs) {
    const int64_t padded = ota_int_round_up(columns, OTA_MATCH_LANES);
    match->cost = ota_arena_take(arena, (size_t)pairs, sizeof(double));
    match->price = ota_arena_take(arena, (size_t)padded, sizeof(double));
    match->distance = ota_arena_take(arena, (size_t)padded, sizeof(double));
    match->row_of = ota_arena_take(arena, (size_t)padded, sizeof(int32_t));
    match->kept = ota_arena_take(arena, (size_t)rows, sizeof(double));
    match->final = ota_arena_take(arena, (size_t)rows, sizeof(double));
    match->offset = ota_arena_take(arena, (size_t)rows, sizeof(double));
    match->column_of = ota_arena_take(arena, (size_t)rows, sizeof(int32_t));
    match->waiting = ota_arena_take(arena, (size_t)rows, sizeof(int32_t));
    match->next = ota_arena_take(arena, (size_t)rows, sizeof(int32_t));
    match->reached = ota_arena_take(arena, (size_t)rows, sizeof(int32_t));
}

void ota_match_resize(ota_match *match, int64_t rows, int64_t columns, int64_t lanes) {
    match->rows = rows;
    match->columns = columns;
    match->padded = ota_int_round_up(columns, lanes);
}

ota_status ota_match_solve(ota_match *match, const ota_match_passes *passes,
                           const ota_watch *watch) {
    for (int64_t j = 0; j < match->padded; j++) {
        match->price[j] = 0.0;
        match->row_of[j] = -1;
    }
    for (int64_t i = 0; i < match->rows; i++) {
        match->column_of[i] = -1;
        match->next[i] = (int32_t)i;
    }
    int64_t left = match->rows;
    if (match->rows == match->columns) {
        left = passes->reduce(match);
        if (left < 0) return OTA_INFEASIBLE;
    }
    for (int sweep = 0; sweep < BIDDING_SWEEPS && left > 0; sweep++) {
        int32_t *swap = match->waiting;
        match->waiting = match->next;
        match->next = swap;
        left = passes->bid(match, left, left * BIDS_PER_ROW);
    }
    for (int64_t k = 0; k < left; k++) {
        const ota_status status = ota_watch_ask(watch);
        if (status != OTA_OK) return status;
        if (!passes->augment(match, match->next[k])) return OTA_INFEASIBLE;
    }
    return OTA_OK;
}
