/* Runs a test on another backend: linked with --wrap=ota_resolve, sets the backend that OTATTN_TEST_BACKEND names where
 * the caller has named none. */
#include <stdio.h>
#include <stdlib.h>

#include "problem/problem.h"
#include "validation/validation.h"

ota_status __real_ota_resolve(const ota_problem *problem, const ota_options *options,
                              ota_resolved *resolved, ota_error *error);
ota_status __wrap_ota_resolve(const ota_problem *problem, const ota_options *options,
                              ota_resolved *resolved, ota_error *error);

ota_status __wrap_ota_resolve(const ota_problem *problem, const ota_options *options,
                              ota_resolved *resolved, ota_error *error) {
    const ota_status status = __real_ota_resolve(problem, options, resolved, error);
    const char *name = getenv("OTATTN_TEST_BACKEND");
    if (status < OTA_OK || name == NULL) return status;
    ota_settings *settings = &resolved->settings;
    if (settings->backend[0] == '\0')
        (void)snprintf(settings->backend, sizeof settings->backend, "%s", name);
    return status;
}
