/* The tables of checks, about in the order of the requirements: a file of checks is a row here. */
#include "check.h"

extern const statement_group statement_checks_rows, statement_checks_conventions,
    statement_checks_plans, statement_checks_scaling, statement_checks_rates,
    statement_checks_blocked, statement_checks_blocked_rules, statement_checks_cold,
    statement_checks_custom, statement_checks_hamming, statement_checks_geometry,
    statement_checks_gradients, statement_checks_certificates, statement_checks_hull,
    statement_checks_bounds, statement_checks_saturation, statement_checks_alignment,
    statement_checks_masks, statement_checks_layers, statement_checks_layernorm,
    statement_checks_metrics, statement_checks_evolution, statement_checks_numerics,
    statement_checks_examples, statement_checks_models, statement_checks_gpt2,
    statement_checks_exits, statement_checks_model_attention, statement_checks_model_text,
    statement_checks_layers_of_model, statement_checks_training, statement_checks_entry_caps;

const statement_group *const statement_groups[] = {
    &statement_checks_rows,          &statement_checks_conventions,
    &statement_checks_plans,         &statement_checks_scaling,
    &statement_checks_rates,         &statement_checks_blocked,
    &statement_checks_blocked_rules, &statement_checks_cold,
    &statement_checks_custom,        &statement_checks_hamming,
    &statement_checks_geometry,      &statement_checks_gradients,
    &statement_checks_certificates,  &statement_checks_hull,
    &statement_checks_bounds,        &statement_checks_saturation,
    &statement_checks_alignment,     &statement_checks_masks,
    &statement_checks_layers,        &statement_checks_layernorm,
    &statement_checks_metrics,       &statement_checks_evolution,
    &statement_checks_numerics,      &statement_checks_examples,
    &statement_checks_models,        &statement_checks_gpt2,
    &statement_checks_exits,         &statement_checks_model_attention,
    &statement_checks_model_text,    &statement_checks_layers_of_model,
    &statement_checks_training,      &statement_checks_entry_caps};
const int statement_group_count = (int)(sizeof statement_groups / sizeof statement_groups[0]);
