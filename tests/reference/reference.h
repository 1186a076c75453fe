/* The judge's own solution of any problem, by plain double loops from the definitions: slow, small
 * sizes, every method. Shares no code with the solvers or kernels. */
#ifndef OTA_REFERENCE_H
#define OTA_REFERENCE_H

#include "otattn.h"

/* What ota_attend does, outputs and statuses alike (row and column errors, rounds, sentence too).
 * In tolerance mode it goes to the limit of f64 whatever max_rounds says; status OTA_OK still
 * means that the asked tolerance is met. Hard plans with entry caps are OTA_UNSUPPORTED. Allocates inside. */
ota_status ota_reference(const ota_problem *problem, const ota_options *options,
                         const ota_arrays *arrays, ota_result *result, ota_error *error);

#endif
