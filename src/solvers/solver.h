/* What a solver is. Two kinds share one table (solver.c):
 *
 *   row solvers      columns free, or known column potentials g as a bias: every row is solved alone
 *                    (its backend does); nothing of size queries x keys is kept.
 *   coupled solvers  see all scores of one head at once (ota_head) and find g (and f), or the plan itself.
 *
 * After a coupled solver the backend makes the final row update, the weights and the outputs, so that every plan ends
 * on a row update [DER-26].
 *
 * This folder: loops over a backend's passes, begin with sinkhorn.c; matchings and transport (matching/); the
 * linear algebra of backward and jvp (derivatives/). May call: the headers of backend/ and everything below; no
 * folder of a backend. */
#ifndef OTA_SOLVER_H
#define OTA_SOLVER_H

#include "backend/backend.h"

typedef struct ota_solver {
    const char *name;
    const char *purpose; /* one line for doctor */
    /* NULL: applies; else the reason why not, one sentence. */
    const char *(*refuses)(const ota_resolved *r);
    /* Bytes for one head of rows x columns; SIZE_MAX on overflow. NULL: none. */
    size_t (*workspace)(const ota_head_shape *shape);
    bool needs_plan;   /* wants dense->plan */
    bool wide;         /* always works in f64 */
    bool reads_narrow; /* though scores that f32 holds may stay f32 */
    /* NULL for row solvers. */
    ota_status (*solve)(ota_head *head);
} ota_solver;

extern const ota_solver ota_solver_softmax, ota_solver_entmax, ota_solver_argmax, ota_solver_online;
extern const ota_solver ota_solver_custom;
extern const ota_solver ota_solver_sinkhorn, ota_solver_log, ota_solver_anderson, ota_solver_newton;
extern const ota_solver ota_solver_coupled; /* "auto" of coupled columns: picks among the four */
extern const ota_solver ota_solver_assignment, ota_solver_transport, ota_solver_prefix;

/* The row of the table that will run, by name or automatically. */
ota_status ota_solver_choose(const ota_resolved *r, const ota_solver **solver, ota_error *error);

#endif
