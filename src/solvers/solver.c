/* The table of solvers and the one rule that chooses among them. */
#include "solver.h"

#include <stdio.h>
#include <string.h>

/* In order of preference: "auto" takes the first that applies. */
static const ota_solver *const table[] = {
    &ota_solver_softmax,   &ota_solver_entmax,   &ota_solver_custom,  &ota_solver_argmax,
    &ota_solver_online,    &ota_solver_prefix,   &ota_solver_coupled, &ota_solver_sinkhorn,
    &ota_solver_log,       &ota_solver_anderson, &ota_solver_newton,  &ota_solver_assignment,
    &ota_solver_transport,
};
enum { SOLVERS = (int)(sizeof table / sizeof table[0]) };

const char *ota_solver_name(int index) {
    return index >= 0 && index < SOLVERS ? table[index]->name : NULL;
}

ota_status ota_solver_choose(const ota_resolved *r, const ota_solver **solver, ota_error *error) {
    const char *wanted = r->settings.solver;
    const bool automatic = wanted[0] == '\0' || strcmp(wanted, "auto") == 0;
    for (int k = 0; k < SOLVERS; k++) {
        if (!automatic && strcmp(wanted, table[k]->name) != 0) continue;
        const char *why = table[k]->refuses(r);
        if (why == NULL) {
            *solver = table[k];
            return OTA_OK;
        }
        if (!automatic) {
            char method[160];
            (void)ota_method_name(&r->problem, method, sizeof method);
            return ota_fail(error, OTA_UNSUPPORTED, "solver", "use auto",
                            "solver '%s' does not apply to %s: %s", wanted, method, why);
        }
    }
    if (!automatic)
        return ota_fail(error, OTA_EINVAL, "solver", "doctor lists the solvers",
                        "solver is '%s', an unknown name", wanted);
    char method[160];
    (void)ota_method_name(&r->problem, method, sizeof method);
    return ota_fail(error, OTA_UNSUPPORTED, "method", "see 'help methods'",
                    "no solver applies to %s with these options", method);
}
