/* Worker threads of a session, for its own loops and, as an ota_executor, for its plans. */
#ifndef OTATTN_MODELS_TEAM_H
#define OTATTN_MODELS_TEAM_H

#include "otattn.h"

typedef struct ota_team ota_team;

/* threads 0: the CPUs this process may use. Fewer threads where the system has no more; NULL without
 * memory. */
ota_team *ota_team_create(int threads);
void ota_team_free(ota_team *team);
int ota_team_threads(const ota_team *team);
/* body(context, index, worker) for every index in [0, count), in any order; returns when all are done. */
void ota_team_run(ota_team *team, int64_t count, void (*body)(void *, int64_t, int), void *context);
/* The same as what plans are given. */
ota_executor ota_team_executor(ota_team *team);

#endif
