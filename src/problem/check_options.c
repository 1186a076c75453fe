/* The checks of options: every default filled in, every number in its range. */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "problem/check.h"

/* Whether a number was given: 0 stands for the default. */
static bool is_given(double number) { return number < 0.0 || number > 0.0 || isnan(number); }

/* When a solve stops: by its residual, or after a number of rounds. */
static ota_status resolve_stop(ota_resolved *r, const ota_options *o, ota_error *error) {
    ota_settings *s = &r->settings;
    const double usual = r->type != OTA_F64 ? 1e-5 : 1e-9;
    s->tolerance = is_given(o->tolerance) ? o->tolerance : usual;
    TRY(ota_check_number(s->tolerance, "tolerance", 0.0, true, DBL_MAX, false, error));
    if (o->max_rounds < 0) {
        return ota_fail(error, OTA_EINVAL, "max_rounds", "use 1 or more", "max_rounds is %" PRId64,
                        o->max_rounds);
    }
    s->max_rounds = o->max_rounds == 0 ? 1000 : o->max_rounds;
    if (o->rounds < OTA_NO_ROUNDS) {
        return ota_fail(error, OTA_EINVAL, "rounds", "use 0 or more", "rounds is %" PRId64,
                        o->rounds);
    }
    s->fixed = o->rounds != 0;
    s->rounds = o->rounds == OTA_NO_ROUNDS ? 0 : o->rounds;
    if (r->rule_rounds >= 0) {
        s->fixed = true;
        s->rounds = r->rule_rounds;
    }
    return OTA_OK;
}

static ota_status resolve_annealing(ota_resolved *r, const ota_options *o, ota_error *error) {
    ota_settings *s = &r->settings;
    if (!is_given(o->anneal_start)) return OTA_OK;
    TRY(ota_check_number(o->anneal_start, "anneal_start", 0.0, true, DBL_MAX, false, error));
    s->anneal_start = o->anneal_start;
    s->anneal_factor = is_given(o->anneal_factor) ? o->anneal_factor : 0.5;
    TRY(ota_check_number(s->anneal_factor, "anneal_factor", 0.0, true, 1.0, true, error));
    if (o->anneal_rounds < 0) {
        return ota_fail(error, OTA_EINVAL, "anneal_rounds", "use 1 or more",
                        "anneal_rounds is %" PRId64, o->anneal_rounds);
    }
    s->anneal_rounds = o->anneal_rounds > 0 ? o->anneal_rounds : r->rule_rounds >= 0 ? 1 : 5;
    s->anneal_keep_scaling = o->anneal_keep_scaling != 0;
    return OTA_OK;
}

/* What a round does besides its updates. */
static ota_status resolve_rounds(ota_settings *s, const ota_options *o, ota_error *error) {
    s->relaxation = is_given(o->relaxation) ? o->relaxation : 1.0;
    TRY(ota_check_number(s->relaxation, "relaxation", 0.0, true, 2.0, true, error));
    s->relaxation_auto = o->relaxation_auto != 0;
    if ((int)o->center < 0 || o->center > OTA_CENTER_MIDRANGE) {
        return ota_fail(error, OTA_EINVAL, "center", "use none, mean or midrange", "center is %d",
                        (int)o->center);
    }
    s->center = o->center;
    if ((int)o->precision < 0 || o->precision > OTA_PRECISION_F64) {
        return ota_fail(error, OTA_EINVAL, "precision", "use auto, f32 or f64", "precision is %d",
                        (int)o->precision);
    }
    s->precision = o->precision;
    if (o->tolerance_scaling < 0.0 || isnan(o->tolerance_scaling)) {
        return ota_fail(error, OTA_EINVAL, "tolerance_scaling", "use 0 (off) or more",
                        "tolerance_scaling is %g", o->tolerance_scaling);
    }
    s->tolerance_scaling = o->tolerance_scaling;
    s->prune = o->prune != 0;
    s->allow_partial = o->allow_partial != 0;
    s->strict = o->strict != 0;
    return OTA_OK;
}

static ota_status resolve_threads(ota_settings *s, const ota_options *o, ota_error *error) {
    if (o->threads < 0 || o->threads > OTA_THREADS_MAX) {
        return ota_fail(error, OTA_EINVAL, "threads", "use 0 (all) to 4096", "threads is %d",
                        o->threads);
    }
    s->threads = o->threads;
    s->executor = o->executor;
    if (o->executor != NULL && (o->executor->run == NULL || o->executor->threads < 1)) {
        return ota_fail(error, OTA_EINVAL, "executor", "give run and at least 1 thread",
                        "executor has %s and %d threads",
                        o->executor->run == NULL ? "no run" : "run", o->executor->threads);
    }
    return OTA_OK;
}

/* What the caller asks for by name; whether there is a backend or solver of that name, the plan finds out. */
static ota_status resolve_names(ota_settings *s, const ota_options *o, ota_error *error) {
    const char *cpu = o->cpu == NULL ? "" : o->cpu;
    if (strlen(cpu) >= sizeof s->cpu || (cpu[0] != '\0' && ota_cpu_level(cpu) < 0)) {
        return ota_fail(error, OTA_EINVAL, "cpu", "doctor lists the levels of this machine",
                        "cpu is '%.32s', an unknown level", cpu);
    }
    (void)ota_snprintf(s->cpu, sizeof s->cpu, "%s", cpu);
    const char *backend = o->backend == NULL ? "" : o->backend;
    if (strlen(backend) >= sizeof s->backend) {
        return ota_fail(error, OTA_EINVAL, "backend", "doctor lists the backends",
                        "backend is '%.32s', an unknown name", backend);
    }
    (void)ota_snprintf(s->backend, sizeof s->backend, "%s", backend);
    const char *solver = o->solver == NULL ? "auto" : o->solver;
    if (strlen(solver) >= sizeof s->solver) {
        return ota_fail(error, OTA_EINVAL, "solver", "doctor lists the solvers",
                        "solver is '%.40s', an unknown name", solver);
    }
    (void)ota_snprintf(s->solver, sizeof s->solver, "%s", solver);
    return OTA_OK;
}

ota_status ota_resolve_options(ota_resolved *r, const ota_options *given, ota_error *error) {
    ota_options o;
    if (given != NULL)
        TRY(ota_check_sized(&o, sizeof o, given, given->size, "options.size", error));
    else
        memset(&o, 0, sizeof o);
    ota_settings *s = &r->settings;
    TRY(resolve_stop(r, &o, error));
    TRY(resolve_annealing(r, &o, error));
    TRY(resolve_rounds(s, &o, error));
    TRY(resolve_threads(s, &o, error));
    TRY(resolve_names(s, &o, error));
    s->gradients = o.gradients != 0;
    if (o.backward < 0 || o.backward > 2) {
        return ota_fail(error, OTA_EINVAL, "backward", "use 0 (auto), 1 (implicit) or 2 (unrolled)",
                        "backward is %d", o.backward);
    }
    s->backward = o.backward;
    s->workspace_limit = o.workspace_limit;
    s->cancel = o.cancel;
    s->deadline_ns = o.deadline_ns;
    s->progress = o.progress;
    s->progress_user = o.progress_user;
    return OTA_OK;
}
