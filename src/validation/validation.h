/* validation.h: the caller's problem and options become an ota_resolved, or are refused in one sentence that names the
 * field, its value and the remedy; below here ranges are only asserted. Each folder of rules checks what its own fields
 * say; this one asks them in order, and reads and writes the words of methods (method.c).
 *
 * This folder: a problem and its options (resolve.c), the share of a problem that one process of many holds
 * (shards.c), the words of methods (method.c), the problem of a block of keys (key_block_problem.c). May call:
 * base/, problem/ and the folders of rules. */
#ifndef OTA_VALIDATION_H
#define OTA_VALIDATION_H

#include "problem/key_block.h"
#include "problem/problem.h"

/* Ranges, shapes, types, strides, combinations. Touches no array contents but masses, temperatures, slopes, lengths
 * and block sizes (small vectors). */
ota_status ota_resolve(const ota_problem *problem, const ota_options *options,
                       ota_resolved *resolved, ota_error *error);
/* The same of a share of the rows of a problem, with all its keys; NULL: all rows. */
ota_status ota_resolve_share(const ota_problem *problem, const ota_options *options,
                             const ota_share *share, ota_resolved *resolved, ota_error *error);
/* The next problem of a plan that is there, with the settings of which it goes on. */
ota_status ota_resolve_next(const ota_problem *problem, const ota_settings *settings,
                            const ota_share *share, ota_resolved *resolved, ota_error *error);
/* Does `next` have the shapes, types and rules of `old`? (rebind) */
ota_status ota_resolved_same(const ota_resolved *old, const ota_resolved *next, ota_error *error);
/* The problem of a block of keys; `to` borrows the arrays of both. */
void ota_key_block_resolve(const ota_resolved *whole, const ota_key_block *block, ota_resolved *to);

#endif
