/* One problem solved and judged: plan, forward, certificate, and what they look like as JSON and text.
 *
 * Outputs are dense, C-ordered, owned by the solution: out [batch,heads,n,w], coupling
 * [batch,heads,n,m], row potential {batch,heads,1,n}, column potential and receiver {batch,heads,1,m}; with --shard n counts the
 * process's own rows.
 *
 * The judge wants the plan in double precision before any rounding to the output type, so whatever it
 * looks at is asked for in f64; the writers round. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program/program.h"
#include "program/ranks/ranks.h"
#include "shard.h"

/* Above so many pairs the certificate costs more than the solution and is made only on request. */
static const int64_t CERTIFY_MOST = (int64_t)1 << 28;

static int allocate(cli_context *context, const char *label, ota_type type, int64_t batch,
                    int64_t heads, int64_t rows, int64_t columns, ota_array *array) {
    int64_t count, bytes;
    if (__builtin_mul_overflow(batch, heads, &count) ||
        __builtin_mul_overflow(count, rows, &count) ||
        __builtin_mul_overflow(count, columns, &count) ||
        __builtin_mul_overflow(count, (int64_t)ota_type_bytes(type), &bytes)) {
        return cli_fail(&context->error, CLI_EXIT_LIMIT,
                        "%s takes more bytes than an integer counts", label);
    }
    void *data = NULL;
    if (bytes > 0) {
        const int code = cli_memory(context, (size_t)bytes, label, &data);
        if (code != 0) return code;
    }
    *array = ota_array_of(data, type, batch, heads, rows, columns);
    return 0;
}

/* Is the number of pairs one that the judge looks at? */
static bool will_certify(const cli_problem *problem) {
    int64_t pairs;
    const bool overflow = __builtin_mul_overflow(problem->batch, problem->heads, &pairs) ||
                          __builtin_mul_overflow(pairs, problem->queries, &pairs) ||
                          __builtin_mul_overflow(pairs, problem->keys, &pairs);
    return problem->settings.output.certify || (!overflow && pairs <= CERTIFY_MOST);
}

bool cli_potentials_tell(const ota_problem *problem) {
    if (problem->regulariser == OTA_HARD || problem->columns == OTA_COLUMNS_PREFIX) return false;
    return problem->regulariser != OTA_ENTMAX ||
           (problem->order <= 2.0 && problem->columns == OTA_COLUMNS_FREE);
}

static int allocate_outputs(cli_context *context, const cli_problem *p, unsigned wanted,
                            ota_type out_type, cli_solution *s) {
    /* Potentials do not know which pairs were pruned. */
    const bool only_coupling_tells = !cli_potentials_tell(&p->problem) || p->options.prune != 0;
    /* Backward starts from the potentials as they are. */
    const bool gradients = (wanted & CLI_WANT_GRADIENTS) != 0;
    const ota_type vector_type =
        s->certified || gradients || out_type == OTA_F64 ? OTA_F64 : OTA_F32;
    const bool advantage = (wanted & CLI_WANT_ADVANTAGE) != 0;
    const int64_t n = cli_share_held(&context->share, p->queries);
    int code = 0;
    if ((wanted & CLI_WANT_OUT) != 0) {
        code = allocate(context, "out", out_type, p->batch, p->heads, n, p->values_width, &s->out);
    }
    if (code == 0 &&
        ((wanted & CLI_WANT_COUPLING) != 0 || advantage || (s->certified && only_coupling_tells))) {
        code = allocate(context, "coupling", s->certified || advantage ? OTA_F64 : out_type,
                        p->batch, p->heads, n, p->keys, &s->coupling);
        /* A coupling does not hold what the sink took. */
        if (code == 0 && s->certified)
            code = allocate(context, "sink", OTA_F64, p->batch, p->heads, 1, n, &s->sink);
    }
    if (code == 0 && advantage) {
        code =
            allocate(context, "advantage", OTA_F64, p->batch, p->heads, n, p->keys, &s->advantage);
    }
    if (code == 0 && (s->certified || gradients || (wanted & CLI_WANT_POTENTIALS) != 0)) {
        code = allocate(context, "row potential", vector_type, p->batch, p->heads, 1, n,
                        &s->row_potential);
        if (code == 0) {
            code = allocate(context, "column potential", vector_type, p->batch, p->heads, 1,
                            p->keys, &s->column_potential);
        }
    }
    if (code == 0 && (wanted & CLI_WANT_RECEIVER) != 0) {
        code = allocate(context, "receiver", vector_type, p->batch, p->heads, 1, p->keys,
                        &s->receiver);
    }
    const size_t heads = (size_t)(p->batch * p->heads) + 1;
    if (code == 0) {
        s->heads = calloc(heads, sizeof *s->heads);
        s->head_certificates = calloc(heads, sizeof *s->head_certificates);
        if (s->heads == NULL || s->head_certificates == NULL) {
            code = cli_fail(&context->error, CLI_EXIT_LIMIT, "there is no memory left");
        }
    }
    return code;
}

/* `problem`: that of p, or of the rows of --shard. */
static int run_forward(cli_context *context, const cli_problem *p, const ota_problem *problem,
                       const ota_options *options, const ota_arrays *arrays, cli_solution *s) {
    ota_error error = {.message = ""};
    ota_plan *plan;
    const int64_t begun = cli_now_ns();
    ota_status status = ota_plan_create(&plan, problem, p->values_width, options, &error);
    if (status < 0) return cli_fail_status(context, status, &error);
    s->result.size = sizeof s->result;
    status = ota_forward(plan, arrays, &s->result, &error);
    if (status >= 0 && s->gradients != NULL &&
        (status != OTA_PARTIAL || p->settings.solver.allow_partial)) {
        ota_result backward;
        const int code = cli_gradients_run(context, p, plan, arrays, s->gradients, &backward);
        if (code != 0) {
            ota_plan_free(plan);
            return code;
        }
        s->backward_residual = backward.backward_residual;
        if (s->advantage.data != NULL) cli_advantage(p, s->gradients, &s->coupling, &s->advantage);
    }
    s->seconds = (double)(cli_now_ns() - begun) / 1e9;
    const char *solver = s->result.solver != NULL ? s->result.solver : ota_plan_solver(plan);
    (void)snprintf(s->solver, sizeof s->solver, "%s", solver);
    (void)snprintf(s->kernel, sizeof s->kernel, "%s", ota_plan_kernel(plan));
    s->threads = ota_plan_threads(plan);
    s->bytes = ota_plan_bytes(plan);
    ota_plan_free(plan);
    s->status = status;
    if (status == OTA_PARTIAL && !p->settings.solver.allow_partial) s->status = OTA_NOT_CONVERGED;
    if (status >= 0) return 0;
    if (error.message[0] == '\0') {
        (void)snprintf(error.message, sizeof error.message, "%s", s->result.sentence);
    }
    return cli_fail_status(context, status, &error);
}

static int certify(cli_context *context, const cli_problem *p, const ota_problem *problem,
                   const ota_options *options, const ota_arrays *arrays, cli_solution *s) {
    ota_error error = {.message = ""};
    s->certificate.size = sizeof s->certificate;
    for (int64_t k = 0; k < p->batch * p->heads; k++) {
        s->head_certificates[k].size = sizeof s->head_certificates[k];
    }
    const ota_status status =
        ota_certify(problem, options, arrays, &s->certificate, s->head_certificates, &error);
    return status < 0 ? cli_fail_status(context, status, &error) : 0;
}

static double usual_tolerance(const cli_problem *p) { return p->type == OTA_F64 ? 1e-9 : 1e-5; }

double cli_tolerance(const cli_problem *problem) {
    return problem->options.tolerance > 0.0 ? problem->options.tolerance : usual_tolerance(problem);
}

/* The promise of ok, checked by the judge: a program that says ok and shows a certificate that denies it
 * would be worse than one that fails. The judge recomputes P, so its own rounding is allowed for. */
static int check_promise(cli_context *context, const cli_problem *p, double tolerance,
                         const cli_solution *s) {
    const ota_column_rule columns = p->problem.columns;
    const bool bound = columns == OTA_COLUMNS_EXACT || columns == OTA_COLUMNS_RELAXED ||
                       columns == OTA_COLUMNS_CAPPED || columns == OTA_COLUMNS_BOUNDED ||
                       columns == OTA_COLUMNS_ONLINE;
    if (!s->certified || s->status != OTA_OK || !bound) return 0;
    const double residual = fmax(s->certificate.row_error, s->certificate.column_error);
    /* Solved in one pass, not to a tolerance. */
    const bool direct = columns == OTA_COLUMNS_ONLINE || p->problem.regulariser == OTA_HARD;
    if (residual <= 4.0 * (direct ? fmax(tolerance, usual_tolerance(p)) : tolerance)) return 0;
    return cli_fail(
        &context->error, CLI_EXIT_INTERNAL,
        "%s was said to be solved to %.2g, but its certificate says %.2g: a defect of otattn",
        p->method, tolerance, residual);
}

int cli_solve(cli_context *context, cli_problem *problem, unsigned wanted, ota_type out_type,
              cli_solution *solution) {
    memset(solution, 0, sizeof *solution);
    solution->certified = will_certify(problem);
    int code = allocate_outputs(context, problem, wanted, out_type, solution);
    if (code == 0 && problem->settings.gradients.of != NULL)
        code = cli_gradients_prepare(context, problem, &solution->gradients);
    const bool shared = problem->settings.machine.shard != NULL;
    if (shared) code = cli_shard_together(code);
    if (code != 0) return code;
    ota_arrays arrays = {.size = sizeof arrays,
                         .values = problem->values,
                         .out = solution->out,
                         .coupling = solution->coupling,
                         .row_potential = solution->row_potential,
                         .column_potential = solution->column_potential,
                         .receiver = solution->receiver,
                         .sink = solution->sink,
                         .start_potential = problem->start_potential,
                         .heads = solution->heads};
    if ((wanted & CLI_WANT_OUT) == 0) arrays.values = (ota_array){.data = NULL};
    cli_progress progress;
    cli_progress_begin(&progress, context, problem->method);
    progress.tolerance = cli_tolerance(problem);
    ota_options options = problem->options;
    options.progress = cli_progress_solver;
    options.progress_user = &progress;
    cli_shard shard;
    const ota_problem *solved = shared ? &shard.problem : &problem->problem;
    if (shared) {
        code = cli_shard_together(cli_shard_open(context, problem, &shard));
        options.communicator = &shard.with;
        if (code == 0 && arrays.values.type != OTA_NO_TYPE) arrays.values = shard.values;
    }
    if (code == 0) code = run_forward(context, problem, solved, &options, &arrays, solution);
    cli_progress_end(&progress);
    options.progress = NULL;
    if (code == 0 && solution->certified)
        code = certify(context, problem, solved, &options, &arrays, solution);
    if (code == 0) code = check_promise(context, problem, progress.tolerance, solution);
    return code;
}

void cli_solution_free(cli_solution *solution) {
    free(solution->out.data);
    free(solution->coupling.data);
    free(solution->row_potential.data);
    free(solution->sink.data);
    free(solution->column_potential.data);
    free(solution->receiver.data);
    free(solution->advantage.data);
    cli_gradients_free(solution->gradients);
    free(solution->heads);
    free(solution->head_certificates);
    memset(solution, 0, sizeof *solution);
}

/* ---- as JSON ---- */

typedef struct certificate_row {
    const char *name;
    size_t offset;
} certificate_row;

static const certificate_row certificate_rows[] = {
    {"row_error", offsetof(ota_certificate, row_error)},
    {"column_error", offsetof(ota_certificate, column_error)},
    {"primal", offsetof(ota_certificate, primal)},
    {"dual", offsetof(ota_certificate, dual)},
    {"gap", offsetof(ota_certificate, gap)},
    {"value", offsetof(ota_certificate, value)},
    {"entropy", offsetof(ota_certificate, entropy)},
    {"support", offsetof(ota_certificate, support)},
    {"receiver_max", offsetof(ota_certificate, receiver_max)},
    {"receiver_min", offsetof(ota_certificate, receiver_min)},
    {"delta", offsetof(ota_certificate, delta)},
    {"minimum", offsetof(ota_certificate, minimum)},
    {"outside", offsetof(ota_certificate, outside)},
};

json_t *cli_certificate_json(const ota_certificate *certificate) {
    json_t *object = json_object();
    for (size_t k = 0; k < sizeof certificate_rows / sizeof certificate_rows[0]; k++) {
        double value;
        memcpy(&value, (const char *)certificate + certificate_rows[k].offset, sizeof value);
        (void)json_object_set_new(object, certificate_rows[k].name, cli_json_real(value));
    }
    (void)cli_json_put(object, "empty_rows:I nonfinite_rows:I", certificate->empty_rows,
                       certificate->nonfinite_rows);
    return object;
}

json_t *cli_problem_json(const cli_problem *problem) {
    json_t *object = cli_json_put(json_object(), "batch:I heads:I queries:I keys:I width:I dtype:s",
                                  problem->batch, problem->heads, problem->queries, problem->keys,
                                  problem->width, cli_type_name(problem->type));
    return object;
}

static void set_solution(json_t *object, const cli_problem *p, const cli_solution *s) {
    (void)cli_json_put(object, "method:s status:s rounds:I seconds:r problem:o", p->method,
                       ota_status_word(s->status), s->result.rounds, s->seconds,
                       cli_problem_json(p));
    json_t *how = cli_json_put(json_object(), "solver:s kernel:s threads:i bytes:I", s->solver,
                               s->kernel, s->threads, (int64_t)s->bytes);
    if (p->settings.machine.shard != NULL)
        (void)cli_json_put(how, "ranks:i messages:I message_bytes:I", cli_ranks_size(),
                           s->result.messages, s->result.message_bytes);
    (void)json_object_set_new(object, "how", how);
    if (s->gradients != NULL) {
        (void)json_object_set_new(object, "backward_residual", cli_json_real(s->backward_residual));
    }
    (void)cli_json_put(object, "value:o certificate:o",
                       s->certified ? cli_json_real(s->certificate.value) : json_null(),
                       s->certified ? cli_certificate_json(&s->certificate) : json_null());
    if (!p->settings.output.per_head) return;
    json_t *heads = json_array();
    for (int64_t k = 0; k < p->batch * p->heads; k++) {
        json_t *head =
            s->certified ? cli_certificate_json(&s->head_certificates[k]) : json_object();
        ota_status status = s->heads[k].status;
        if (status == OTA_PARTIAL && !p->settings.solver.allow_partial) status = OTA_NOT_CONVERGED;
        (void)cli_json_put(head, "status:s rounds:I", ota_status_word(status), s->heads[k].rounds);
        (void)json_array_append_new(heads, head);
    }
    (void)json_object_set_new(object, "heads", heads);
}

json_t *cli_solution_json(cli_context *context, const cli_problem *problem,
                          const cli_solution *solution) {
    json_t *object =
        cli_json_put(json_object(), "command:s version:s", context->command->name, ota_version());
    set_solution(object, problem, solution);
    (void)cli_json_put(object, "outputs:o warnings:o", json_object(),
                       json_incref(context->warnings));
    return object;
}

/* Of all mass: less than this on pairs that a mask takes far down is no plan's doing. */
static const double LEAST_MASKED_SHARE = 1.0e-6;

int cli_solution_verdict(cli_context *context, const cli_problem *problem,
                         const cli_solution *solution) {
    const ota_result *result = &solution->result;
    if (solution->status >= OTA_OK) {
        if (result->sentence[0] != '\0' && solution->status != OTA_FIXED_ITERS) {
            cli_warn(context, "%s", result->sentence);
        } else if (result->pruned_pairs > 0) {
            cli_warn(context, "%" PRId64 " allowed pairs are on no feasible plan and got weight 0",
                     result->pruned_pairs);
        }
        if (result->masked_share > LEAST_MASKED_SHARE)
            cli_warn(context,
                     "%.3g of the mass is on pairs to which a mask or bias adds -1e4 or less; "
                     "-inf, or half of "
                     "the type's least number, forbids them",
                     result->masked_share);
        return 0;
    }
    ota_error error = {.field = "tolerance",
                       .hint = "raise --max-rounds or --temperature, try --solver newton, or take "
                               "what there is with --allow-partial"};
    (void)snprintf(error.message, sizeof error.message,
                   "%s did not converge: row error %.2g and column error %.2g after %" PRId64
                   " rounds",
                   problem->method, result->row_error, result->column_error, result->rounds);
    context->failure = json_object();
    set_solution(context->failure, problem, solution);
    return cli_fail_status(context, solution->status, &error);
}

/* ---- as text ---- */

static const char *format_seconds(double seconds, char *text, size_t size) {
    if (seconds < 1e-3)
        (void)snprintf(text, size, "%.0f us", seconds * 1e6);
    else if (seconds < 1.0)
        (void)snprintf(text, size, "%.3g ms", seconds * 1e3);
    else
        (void)snprintf(text, size, "%.3g s", seconds);
    return text;
}

static const char *format_bytes(size_t bytes, char *text, size_t size) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double amount = (double)bytes;
    int unit = 0;
    for (; amount >= 1024.0 && unit < 4; unit++) amount /= 1024.0;
    (void)snprintf(text, size, unit == 0 ? "%.0f %s" : "%.1f %s", amount, units[unit]);
    return text;
}

void cli_certificate_print(FILE *stream, const ota_certificate *c) {
    (void)fprintf(stream, "errors      rows %.2g, columns %.2g", c->row_error, c->column_error);
    if (isfinite(c->gap)) (void)fprintf(stream, ", gap %.2g", c->gap);
    (void)fprintf(stream, "\nreceiver    most %.4g, least %.4g of a fair share, Delta %.3g\n",
                  c->receiver_max, c->receiver_min, c->delta);
    (void)fprintf(stream, "rows        entropy %.4g nats, support %.4g keys\n", c->entropy,
                  c->support);
}

void cli_solution_print(FILE *stream, const cli_problem *p, const cli_solution *s) {
    char time[40], bytes[40];
    (void)fprintf(stream, "method      %s\n", p->method);
    (void)fprintf(stream, "status      %s, %" PRId64 " round%s\n", ota_status_word(s->status),
                  s->result.rounds, s->result.rounds == 1 ? "" : "s");
    (void)fprintf(stream,
                  "problem     batch %" PRId64 ", heads %" PRId64 ", queries %" PRId64
                  ", keys %" PRId64 ", width %" PRId64 ", %s\n",
                  p->batch, p->heads, p->queries, p->keys, p->width, cli_type_name(p->type));
    const ota_certificate *c = &s->certificate;
    if (s->certified) {
        cli_certificate_print(stream, c);
    } else {
        (void)fprintf(stream, "errors      not judged above 2^28 pairs; --certify does it\n");
    }
    (void)fprintf(stream, "time        %s by %s on %s, %d thread%s, %s\n",
                  format_seconds(s->seconds, time, sizeof time), s->solver, s->kernel, s->threads,
                  s->threads == 1 ? "" : "s", format_bytes(s->bytes, bytes, sizeof bytes));
    if (!p->settings.output.per_head || !s->certified) return;
    (void)fprintf(stream, "\n%8s %8s %12s %12s %10s %10s %10s\n", "head", "rounds", "row error",
                  "column error", "receiver", "entropy", "support");
    for (int64_t k = 0; k < p->batch * p->heads; k++) {
        c = &s->head_certificates[k];
        (void)fprintf(stream, "%8" PRId64 " %8" PRId64 " %12.2g %12.2g %10.4g %10.4g %10.4g\n", k,
                      s->heads[k].rounds, c->row_error, c->column_error, c->receiver_max,
                      c->entropy, c->support);
    }
}
