/* The faults of src/base/fault.h planted one after another: which ids notice each. A check takes part when it is
 * corrected, comes out right without a fault and takes at most `slowest`; it has noticed a fault when it fails with it,
 * holds again without it and fails with it once more, so that a chance reading of a time or of memory hardly counts. */
#include <stdlib.h>
#include <string.h>

#include "verify.h"
#include "src/base/fault.h"

#ifdef OTATTN_FAULTS

static const double slowest = 0.1; /* seconds: all faults together then take about a minute */

static bool holds_with(verification *v, const outcome *o, int fault) {
    ota_fault_planted = fault;
    const double value = cli_check_measure(v, o->check, 0, 0.0);
    ota_fault_planted = OTA_FAULT_NONE;
    return cli_check_holds(o->check, value);
}

int cli_faults_run(verification *v) {
    enum { COUNT = OTA_FAULT_END - 1 };
    v->fault_count = COUNT;
    v->fault_noticed = calloc((size_t)COUNT * (size_t)v->count, sizeof *v->fault_noticed);
    bool *fit = calloc((size_t)v->count, sizeof *fit);
    if (v->fault_noticed == NULL || fit == NULL) {
        free(fit);
        return cli_fail_status(v->context, OTA_ENOMEM, &(ota_error){.message = "out of memory"});
    }
    for (int k = 0; k < v->count && *v->context->cancel == 0; k++) {
        const int64_t begun = cli_now_ns();
        fit[k] = !v->outcomes[k].check->printed && holds_with(v, &v->outcomes[k], OTA_FAULT_NONE) &&
                 (double)(cli_now_ns() - begun) * 1e-9 <= slowest;
        v->fault_checks += fit[k];
    }
    cli_progress progress;
    cli_progress_begin(&progress, v->context, "faults");
    for (int fault = 1; fault <= COUNT && *v->context->cancel == 0; fault++) {
        bool *noticed = v->fault_noticed + (ptrdiff_t)(fault - 1) * v->count, any = false;
        for (int k = 0; k < v->count && *v->context->cancel == 0; k++) {
            const outcome *o = &v->outcomes[k];
            noticed[k] = fit[k] && !holds_with(v, o, fault) && holds_with(v, o, OTA_FAULT_NONE) &&
                         !holds_with(v, o, fault);
            any |= noticed[k];
        }
        v->faults_missed += !any;
        cli_progress_update(&progress, fault, COUNT, "faults");
    }
    cli_progress_end(&progress);
    v->context->interrupted |= *v->context->cancel != 0;
    free(fit);
    return 0;
}

/* Is it the first outcome of its id that noticed the fault? */
static bool first_of_id(const verification *v, const bool *noticed, int k) {
    if (!noticed[k]) return false;
    for (int before = 0; before < k; before++) {
        if (noticed[before] && strcmp(v->outcomes[before].check->id, v->outcomes[k].check->id) == 0)
            return false;
    }
    return true;
}

void cli_faults_print(const verification *v) {
    if (v->context->interrupted) return;
    for (int fault = 1; fault <= v->fault_count; fault++) {
        const bool *noticed = v->fault_noticed + (ptrdiff_t)(fault - 1) * v->count;
        int ids = 0;
        for (int k = 0; k < v->count; k++) ids += first_of_id(v, noticed, k);
        (void)printf("%s\n  %d id%s:", ota_fault_text(fault), ids, cli_s(ids));
        for (int k = 0; k < v->count; k++) {
            if (first_of_id(v, noticed, k)) (void)printf(" %s", v->outcomes[k].check->id);
        }
        (void)printf("\n");
    }
    (void)printf("%d of %d faults planted in the product are noticed, by %d checks\n",
                 v->fault_count - v->faults_missed, v->fault_count, v->fault_checks);
}

void cli_faults_json(const verification *v, json_t *object) {
    json_t *rows = json_array();
    for (int fault = 1; fault <= v->fault_count && !v->context->interrupted; fault++) {
        const bool *noticed = v->fault_noticed + (ptrdiff_t)(fault - 1) * v->count;
        json_t *ids = json_array();
        for (int k = 0; k < v->count; k++) {
            if (first_of_id(v, noticed, k))
                (void)json_array_append_new(ids, json_string(v->outcomes[k].check->id));
        }
        (void)json_array_append_new(
            rows, cli_json_put(json_object(), "fault:s ids:o", ota_fault_text(fault), ids));
    }
    (void)cli_json_put(object, "faults:o", rows);
}

#else

int cli_faults_run(verification *v) {
    (void)v;
    return 0;
}

void cli_faults_print(const verification *v) { (void)v; }

void cli_faults_json(const verification *v, json_t *object) {
    (void)v;
    (void)object;
}

#endif

void cli_faults_free(verification *v) { free(v->fault_noticed); }
