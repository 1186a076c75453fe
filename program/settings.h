/* What stands on the command line, one field per flag, in groups by who reads them; the rows of cli_flags (table.c)
 * fill it. Texts are borrowed from argv and NULL when the flag was not given. A flag with an optional value (--causal,
 * --rope) holds "" when it was given without one. */
#ifndef OTATTN_PROGRAM_SETTINGS_H
#define OTATTN_PROGRAM_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

enum { CLI_MAX_LIST = 8, CLI_THREADS_MAX = 4096 };

typedef struct cli_real {
    double value;
    bool given;
} cli_real;

typedef struct cli_whole {
    int64_t value;
    bool given;
} cli_whole;

typedef struct cli_list {
    const char *items[CLI_MAX_LIST];
    int count;
} cli_list;

/* Which transport problem: its rules, sides and temperature. */
typedef struct cli_method_settings {
    const char *name, *list, *rows, *axis, *start, *end, *temperature;
} cli_method_settings;

/* What the scores are made of. */
typedef struct cli_scores_settings {
    cli_real scale, softcap;
    bool cost;
    cli_list biases;
    const char *relative_bias, *rope, *alibi, *sink;
} cli_scores_settings;

/* Which pairs may carry weight. */
typedef struct cli_pairs_settings {
    const char *causal, *corner, *window, *block, *lengths;
    cli_whole strided;
    cli_list masks;
} cli_pairs_settings;

typedef struct cli_masses_settings {
    const char *row, *column, *entry_cap;
} cli_masses_settings;

typedef struct cli_solver_settings {
    const char *name, *anneal, *relaxation, *center, *precision;
    const char *elastic_lambda, *start_potential;
    cli_real tolerance, tolerance_scaling, epsilon, dropout;
    cli_whole max_rounds, rounds;
    bool prune, allow_partial, strict;
} cli_solver_settings;

typedef struct cli_machine_settings {
    cli_whole threads, memory, limit_memory, seed;
    const char *cpu, *backend, *shard;
} cli_machine_settings;

/* What is written, where and of which type. */
typedef struct cli_output_settings {
    const char *dtype, *out_dtype;
    const char *out, *coupling, *row_potential, *column_potential, *receiver, *compared;
    bool force, certify, per_head, json;
} cli_output_settings;

typedef struct cli_gradients_settings {
    const char *of, *out, *advantage, *backward;
    bool scores, parameters;
} cli_gradients_settings;

typedef struct cli_certify_settings {
    const char *scores, *perturbed, *values, *perturbed_values, *coupling;
} cli_certify_settings;

typedef struct cli_bench_settings {
    cli_whole random, first, repeat;
    const char *shapes, *masked;
    bool small, scaling, gradients;
} cli_bench_settings;

typedef struct cli_verify_settings {
    const char *only, *model;
    cli_whole repeat, size, samples, rounds;
    bool self_test;
} cli_verify_settings;

/* The text a model or tokenizer reads, and how it becomes ids. */
typedef struct cli_text_settings {
    const char *words, *prompt, *ids;
    bool no_special, plain;
} cli_text_settings;

typedef struct cli_tokenize_settings {
    bool decode, count, pieces;
} cli_tokenize_settings;

/* A run of a model: capture, perplexity, generate, analyze. */
typedef struct cli_model_settings {
    cli_list methods, edits;
    const char *points, *weights, *scores, *residual, *pixels, *exit;
    const char *clean, *corrupt, *answer, *other, *by; /* of patch */
    cli_whole start_layer, context, stride, tokens;
    bool sample, echo, allow_nonfinite, receiver;
} cli_model_settings;

typedef struct cli_analyze_settings {
    const char *windows, *sampling, *layers, *saturation, *store, *measure;
    const char *temperatures, *probe_temperatures;
    cli_whole bounds;
    bool resume;
} cli_analyze_settings;

typedef struct cli_help_settings {
    bool asked, man;
} cli_help_settings;

typedef struct cli_settings {
    cli_method_settings method;
    cli_scores_settings scores;
    cli_pairs_settings pairs;
    cli_masses_settings masses;
    cli_solver_settings solver;
    cli_machine_settings machine;
    cli_output_settings output;
    cli_gradients_settings gradients;
    cli_certify_settings certify;
    cli_bench_settings bench;
    cli_verify_settings verify;
    cli_text_settings text;
    cli_tokenize_settings tokenize;
    cli_model_settings model;
    cli_analyze_settings analyze;
    cli_help_settings help;
} cli_settings;

#endif
