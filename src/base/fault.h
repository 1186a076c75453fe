/* Faults planted in the product for `otattn verify --self-test`, in builds with -DOTATTN_FAULTS=ON only, which are never
 * installed. Elsewhere OTA_FAULT(name, right, wrong) is `right` and nothing else: no variable, no branch.
 *
 * In a build with faults it is `wrong` while `name` is the planted one. Code compiled for both types of numbers writes
 * OTA_FAULT_OF(real, name, right, wrong), where name_F32 and name_F64 are two faults. */
#ifndef OTATTN_BASE_FAULT_H
#define OTATTN_BASE_FAULT_H

#ifdef OTATTN_FAULTS

/* Name, and what goes wrong. */
#define OTA_FAULT_ROWS(ROW)                                                                        \
    ROW(TILE_TAIL_F32, "fused tile, f32: lanes past the last full vector do not join a row's sum") \
    ROW(TILE_TAIL_F64, "fused tile, f64: lanes past the last full vector do not join a row's sum") \
    ROW(ROW_TAIL_F32, "stored row, f32: lanes past the last full vector do not join a row's sum")  \
    ROW(ROW_TAIL_F64, "stored row, f64: lanes past the last full vector do not join a row's sum")  \
    ROW(WIDTH_TAIL_F32, "products, f32: the last of a head width not a multiple of 8 is left out") \
    ROW(WIDTH_TAIL_F64, "products, f64: the last of a head width not a multiple of 8 is left out") \
    ROW(KEY_RUNS_F32, "P V, f32: keys past the first 64 of a tile replace the sum before them")    \
    ROW(KEY_RUNS_F64, "P V, f64: keys past the first 64 of a tile replace the sum before them")    \
    ROW(GRADIENT_ROWS_F32, "backward, f32: the last row of a block is left out of dK and dV")      \
    ROW(GRADIENT_ROWS_F64, "backward, f64: the last row of a block is left out of dK and dV")      \
    ROW(KERNEL_ROUND, "rounds on a kernel: row sums leave out keys past the first 8 vectors")      \
    ROW(ALIBI_PIECE, "alibi: distances begin again at key 128")                                    \
    ROW(CAUSAL_EDGE, "causal: the last query of 64 sees one key more")                             \
    ROW(LOG_TEMPERATURE, "rows: the log-sum-exp leaves the maximum undivided by the temperature")  \
    ROW(COLUMN_UPDATE, "rounds on scores: the last column keeps its potential")                    \
    ROW(CERTIFICATE_ROWS, "certificate: the last row is left out of the column sums")

#define OTA_FAULT_NAME(name, text) OTA_FAULT_##name,
enum { OTA_FAULT_NONE, OTA_FAULT_ROWS(OTA_FAULT_NAME) OTA_FAULT_END };

extern int ota_fault_planted;

/* What goes wrong. */
const char *ota_fault_text(int fault);

#define OTA_FAULT(name, right, wrong) (ota_fault_planted == OTA_FAULT_##name ? (wrong) : (right))
#define OTA_FAULT_OF(type, name, right, wrong)                                                     \
    (ota_fault_planted ==                                                                          \
             (sizeof(type) == sizeof(double) ? OTA_FAULT_##name##_F64 : OTA_FAULT_##name##_F32)    \
         ? (wrong)                                                                                 \
         : (right))

#else
#define OTA_FAULT(name, right, wrong) (right)
#define OTA_FAULT_OF(type, name, right, wrong) (right)
#endif

#endif
