/* The inside of backward, shared by its files: how the multipliers of a head are found and shared gradients are summed.
 * What passes of the backend do with them is in backend/gradient.h. */
#ifndef OTA_BACKWARD_H
#define OTA_BACKWARD_H

#include "backend/blocks/blocks.h"
#include "plan.h"
#include "solvers/coupled.h"
#include "solvers/derivatives/adjoint.h"

/* Fixed rounds of the head at work on their kernel, and the memory of rounds on scores. */
typedef struct ota_rounds_space {
    ota_head head;
    ota_kernel_rounds now;
    ota_step *steps;
    double *step_memory;
    /* vectors of lane: masses and targets, potentials, lambdas, and dL by those of the last update. On their kernel f_grad takes
       K^T x of a reversed round. */
    double *mu, *nu, *f, *g, *lambdas, *f_grad, *g_grad, *row_grad;
} ota_rounds_space;

/* One call of backward (`want`) or of jvp (`tangents`), once it is checked. */
typedef struct ota_derivative_call {
    ota_plan *plan;
    const ota_arrays *arrays;
    const ota_gradients *want;
    const ota_tangents *tangents;
    /* A driver's own way over the heads; NULL: that of this folder. */
    ota_status (*run)(const struct ota_derivative_call *call, ota_result *found);
    const void *context;
} ota_derivative_call;

/* derivative_entry.c: what both refuse, `arrays` in full; capacities that are not full, which comes after the checks of what is
 * wanted; the run and its last word. */
ota_status ota_derivative_check(const ota_plan *plan, const ota_arrays *given,
                                const ota_result *result, ota_arrays *arrays, ota_error *error);
ota_status ota_derivative_check_capacities(const ota_arrays *arrays, ota_error *error);
ota_status ota_derivative_run(const ota_derivative_call *call, ota_result *result,
                              ota_error *error);

/* backward.c: the job of the first head worker, without what is wanted; one run over all heads once all is checked. */
ota_backward_job ota_backward_job_of(ota_plan *plan, const ota_arrays *arrays);
ota_status ota_backward_run(ota_plan *plan, const ota_arrays *arrays, const ota_gradients *want,
                            ota_result *found);

/* The semi-dual system of the head at work on the arrays of its space, but for what the column rule adds. */
ota_adjoint ota_backward_system(const ota_backward_job *job);

/* The padding of the rows of space->matrix and space->gradient: forbidden pairs. */
void ota_backward_pad(const ota_backward_job *job);

/* backward_columns.c: columns of the solver that some row may use, as 0 or 1. A mask takes others away, or scores of -inf: then
 * forward closes the potential, or, where weights are exponentials, the sum is 0. */
void ota_backward_find_used(const ota_backward_job *job, const double *column_sum,
                            unsigned char *used);
/* What the columns' own rule adds to the system at these sums, and which columns do not answer, in `held`. `moved`: of the right
 * side taken off; NULL: nothing. */
void ota_backward_bind_columns(const ota_backward_job *job, const double *column_sum,
                               const double *moved, ota_adjoint *system);
/* backward_potentials.c: are keys the solver's rows, with edges? Finds those from the scores in space->matrix, which are spent;
 * `narrow`: the head is worked on in f32. And of the implicit way f and g of the head at work, with such edges. */
bool ota_backward_has_key_edges(const ota_backward_job *job);
void ota_backward_find_edges(const ota_backward_job *job, bool narrow);
void ota_backward_load_potentials(ota_backward_job *job);
/* Of keys that are steep rows, once their sums are known: what they yield where they are relaxed. */
void ota_backward_soften_keys(const ota_backward_job *job);
/* Once the system of a head is solved whose rows are steep: their multipliers, which were measured from U - b of the steepest. */
void ota_backward_place_multipliers(const ota_backward_job *job, const ota_adjoint *system);
/* backward_unrolled.c: mu, nu, rule and settings of the head at work, without scores; g is its start. */
ota_head ota_backward_head(const ota_backward_job *job);
/* nu from flags of reached keys to what the rounds aim at; mu, mass and flags of usable keys are known. */
void ota_backward_targets(const ota_backward_job *job, const ota_head *head, double *nu);
/* Fixed rounds as forward ran them on the scores in space->matrix, not yet replayed; masses and flags of usable
 * keys lie in the space. */
void ota_backward_rounds(ota_backward_job *job, ota_head *head, ota_unrolled *rounds);
/* Of rounds on their kernel, once it is formed: usable keys and the targets. */
void ota_backward_find_targets(ota_backward_job *job, ota_kernel_rounds *rounds);
/* After their first column sums: which keys without one do rows with mass reach? All ranks know the sums. */
void ota_backward_finish_idle(ota_backward_job *job, const ota_kernel_rounds *rounds);

/* backward_layout.c: how many heads are walked side by side; reserves the workspace (measuring or placed). */
int ota_backward_head_workers(const ota_plan *plan);
void ota_backward_lay_out(ota_plan *plan);
ota_backward_mode ota_backward_mode_of(const ota_plan *plan);
/* How, in a few words for describe. */
const char *ota_backward_describe(const ota_plan *plan);
/* What is summed of a term, without its memory. */
ota_term_sum ota_backward_term_sum(const ota_resolved *r, const ota_term *term);

/* backward_check.c: the checks. `full` becomes a full-size copy. */
ota_status ota_gradients_check(const ota_plan *plan, const ota_arrays *arrays,
                               const ota_gradients *given, ota_gradients *full, ota_error *error);
/* Does every output of `g` overlap nothing that is read, and no other? */
ota_status ota_gradients_apart(const ota_plan *plan, const ota_arrays *arrays,
                               const ota_gradients *g, ota_error *error);
/* The array of row `which` of ota_derivatives in gradients, or in tangents (`along`): whether it exists, its shape, type and
 * strides. */
ota_status ota_check_derivative(const ota_plan *plan, const ota_arrays *arrays, const ota_array *a,
                                int which, bool along, ota_error *error);
/* Likewise of sorted term t (the sink: t = term_count). */
ota_status ota_check_of_term(const ota_plan *plan, const ota_array *a, const char *noun, int t,
                             bool input, ota_error *error);
/* The field of the problem or of forward's arrays that `out` overlaps, or NULL. */
const char *ota_overlapped_input(const ota_plan *plan, const ota_arrays *arrays,
                                 const ota_array *out);
/* What the implicit way reads of forward's outputs. */
ota_status ota_check_potentials(const ota_plan *plan, const ota_arrays *arrays, ota_error *error);
/* Quiet NaN into an array, if it is present. */
void ota_poison(const ota_plan *plan, const ota_array *a);
/* Quiet NaN into every gradient that is wanted. */
void ota_gradients_poison(const ota_plan *plan, const ota_gradients *want);
/* backward_sums.c: shared gradients. */
void ota_sums_clear(ota_plan *plan);
/* After the rows of a head: chunk and row sums in order. */
void ota_sums_of_head(const ota_backward_job *job);
/* Rounds everything shared into the caller's arrays. */
void ota_sums_write(ota_plan *plan, const ota_gradients *want);

/* backward_sums.c: what the multipliers say about masses and parameters of the column rule, in the orientation of
 * the solver; a [rows], b [columns]. */
typedef struct ota_mass_rule {
    const double *a, *b, *f, *g;
    const double *row_sum, *column_sum; /* r and c of the plan */
    const unsigned char *used;          /* [columns] some row may use the key */
    bool finished; /* a, b are already derivatives by mu and the target (fixed rounds) */
} ota_mass_rule;
/* Of the rows that are not empty; of a column: given, 1, or its share. */
double ota_mass_of_rows(const ota_backward_job *job, const double *row_sum);
double ota_mass_of_column(const ota_backward_job *job, int64_t j, double share);
/* Adds what fixed rounds found of the parameters of the column rule. */
void ota_sums_of_parameters(ota_backward_space *s, const ota_unrolled_sums *sums);
void ota_sums_of_masses(const ota_backward_job *job, const ota_mass_rule *rule);
/* How far the plan made of potentials misses the sums that it must have, over all of them, where that is known: where scores or
 * potentials are large beside the differences that tell, as those of keys that are filled from -1e30, it is another plan. */
double ota_sums_missed(const ota_backward_job *job, const ota_mass_rule *rule);
/* Is it still the plan that forward found if job->residual is what it misses? */
bool ota_sums_stand(const ota_backward_job *job);

/* backward_prefix.c: dL/dS of all leading blocks into space->gradient, P stays in the seat's plan. */
ota_status ota_backward_prefix(ota_backward_job *job);

/* Vectors of one block's system, as in solvers/derivatives/adjoint.h, and the masses of all rows. */
typedef struct ota_block_parts {
    double *mu, *den, *right_of_rows, *right, *terms, *extra, *upstream;
} ota_block_parts;
/* Solves every leading block of the scores in space->matrix; `visit` gets the job. */
ota_status ota_backward_blocks(ota_backward_job *job, ota_block_visit *visit);
/* A row of a leading block, whose P and U (NULL: 0) have a place of their own; no sums yet; its P and f; w into space->slopes and what
 * it adds to the block's system, `moved` tau dR. */
ota_block ota_prefix_row(const ota_backward_job *job, const ota_head *block, int64_t row);
void ota_prefix_begin(const ota_backward_job *job, const ota_head *block);
void ota_prefix_solve(const ota_block *row, const ota_head *block, int64_t at);
void ota_prefix_add(const ota_backward_job *job, const ota_head *block, const ota_block *row,
                    double moved);
/* The block's system; `scale`: of the right side's terms, what rows did not add; a and b into the space. */
ota_status ota_prefix_system(ota_backward_job *job, const ota_head *block, double scale);

#endif
