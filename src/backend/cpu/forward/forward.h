/* forward.h: what the strategies of forward share, whatever their type. Work is cut by rows into chunks that depend on
 * shapes alone, and sums over chunks are added in order, so that bits do not depend on threads.
 *
 * This folder: the strategies of forward, each a body that is compiled for f32 and for f64; begin with free_rows.
 * May call: backend/cpu/ and its kernels. */
#ifndef OTA_CPU_FORWARD_H
#define OTA_CPU_FORWARD_H

#include "backend/cpu/device.h"

/* Temperatures and factors outside [this, 1 / this] are left to the careful forms. */
static const double RAW_LEAST = 1.0e-30;

/* Rows [first, last) of a chunk; a multiple of the fused block so that blocks never straddle chunks. */
static inline int64_t rows_of_chunk(int64_t rows) {
    return ota_int_round_up(ota_int_ceil_div(rows, OTA_CHUNKS), OTA_ROW_BLOCK);
}

static inline void chunk_rows(int64_t rows, int64_t chunk, int64_t *first, int64_t *last) {
    const int64_t step = rows_of_chunk(rows);
    *first = ota_int_min(chunk * step, rows);
    *last = ota_int_min(*first + step, rows);
}

/* Chunks that have rows come first. */
static inline int64_t live_chunks(int64_t rows) {
    return rows == 0 ? 0 : ota_int_ceil_div(rows, rows_of_chunk(rows));
}

/* head_parts.c: sums of the chunks of one head, in order, into receiver and status. */
void ota_gather_chunks(cpu_run *w, int64_t part, int64_t batch, int64_t head);

/* Are the head's keys and values, and the queries that meet them, multiplied as bf16? */
bool ota_wants_pairs(const cpu_run *w, int64_t batch, int64_t key_head);
void ota_pack_pairs(const cpu_run *w, ota_packed_kv *packed, int64_t batch, int64_t key_head);
/* `block`: of f32, the only type whose heads are paired. */
void ota_attend_pairs(const ota_cpu_device *device, const ota_packed_kv *packed, const void *block);

/* Column masses of a head for a row mass of `total`; on entry nu is positive where some row may use the key. */
void ota_allot_columns(ota_head_place *place, double total);

/* Rounds in f32 before those in f64 are not worth a kernel of their own where scores lie within so many temperatures,
 * since the rounds are few; and lead nowhere where f32's floor is as high as this. */
#define OTA_WARM_START_RANGE 12.0
#define OTA_WARM_START_WORST 0.01

/* The strategies, one function a type each; see the bodies. */
void ota_run_rows_f32(ota_run *run);
void ota_run_rows_f64(ota_run *run);
void ota_run_small_f32(ota_run *run, int64_t group, int64_t place, bool *left);
void ota_run_small_f64(ota_run *run, int64_t group, int64_t place, bool *left);
void ota_load_scores_f32(ota_head *head, bool *finite);
void ota_load_scores_f64(ota_head *head, bool *finite);
void ota_emit_scores_f32(ota_head *head);
void ota_emit_scores_f64(ota_head *head);
void ota_pack_head_f32(ota_head *head);
void ota_pack_head_f64(ota_head *head);
void ota_kernel_round_f32(ota_head *head, bool form);
void ota_kernel_round_f64(ota_head *head, bool form);
double ota_kernel_floor_f32(const ota_head *head);
double ota_kernel_floor_f64(const ota_head *head);
bool ota_kernel_emit_f32(ota_head *head);
bool ota_kernel_emit_f64(ota_head *head);
bool ota_pays_warm_start_f32(const ota_head *head);
bool ota_pays_warm_start_f64(const ota_head *head);

#endif
