/* The tables of checks, in the order of the requirements: a file of checks is a row here. */
#include "check.h"

extern const tool_check_group tool_checks_rows;
extern const tool_check_group tool_checks_plans;
extern const tool_check_group tool_checks_scaling;
extern const tool_check_group tool_checks_hamming;
extern const tool_check_group tool_checks_alignment;
extern const tool_check_group tool_checks_geometry;
extern const tool_check_group tool_checks_gradients;
extern const tool_check_group tool_checks_certificates;
extern const tool_check_group tool_checks_masks;
extern const tool_check_group tool_checks_numerics;

const tool_check_group *const tool_check_groups[] = {
    &tool_checks_rows,     &tool_checks_plans,     &tool_checks_scaling,   &tool_checks_hamming,
    &tool_checks_geometry, &tool_checks_gradients, &tool_checks_certificates, &tool_checks_alignment, &tool_checks_masks,
    &tool_checks_numerics,
};
const int tool_check_group_count = (int)(sizeof tool_check_groups / sizeof tool_check_groups[0]);
