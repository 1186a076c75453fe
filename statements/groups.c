/* The tables of checks, about in the order of the requirements: a file of checks is a row here. */
#include "check.h"

extern const tool_check_group tool_checks_rows;
extern const tool_check_group tool_checks_conventions;
extern const tool_check_group tool_checks_plans;
extern const tool_check_group tool_checks_scaling;
extern const tool_check_group tool_checks_custom;
extern const tool_check_group tool_checks_hamming;
extern const tool_check_group tool_checks_alignment;
extern const tool_check_group tool_checks_geometry;
extern const tool_check_group tool_checks_gradients;
extern const tool_check_group tool_checks_certificates;
extern const tool_check_group tool_checks_bounds;
extern const tool_check_group tool_checks_saturation;
extern const tool_check_group tool_checks_masks;
extern const tool_check_group tool_checks_layers;
extern const tool_check_group tool_checks_layernorm;
extern const tool_check_group tool_checks_metrics;
extern const tool_check_group tool_checks_evolution;
extern const tool_check_group tool_checks_models;
extern const tool_check_group tool_checks_gpt2;
extern const tool_check_group tool_checks_exits;
extern const tool_check_group tool_checks_model_attention;
extern const tool_check_group tool_checks_model_text;
extern const tool_check_group tool_checks_layers_of_model;
extern const tool_check_group tool_checks_training;
extern const tool_check_group tool_checks_numerics;
extern const tool_check_group tool_checks_examples;

const tool_check_group *const tool_check_groups[] = {
    &tool_checks_rows,
    &tool_checks_conventions,
    &tool_checks_plans,
    &tool_checks_scaling,
    &tool_checks_custom,
    &tool_checks_hamming,
    &tool_checks_geometry,
    &tool_checks_gradients,
    &tool_checks_certificates,
    &tool_checks_bounds,
    &tool_checks_saturation,
    &tool_checks_alignment,
    &tool_checks_masks,
    &tool_checks_layers,
    &tool_checks_layernorm,
    &tool_checks_metrics,
    &tool_checks_evolution,
    &tool_checks_numerics,
    &tool_checks_examples,
    &tool_checks_models,
    &tool_checks_gpt2,
    &tool_checks_exits,
    &tool_checks_model_attention,
    &tool_checks_model_text,
    &tool_checks_layers_of_model,
    &tool_checks_training,
};
const int tool_check_group_count = (int)(sizeof tool_check_groups / sizeof tool_check_groups[0]);
