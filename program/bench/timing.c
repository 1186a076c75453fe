/* What every `otattn bench` shares: the loop of timed calls, the table of rows. */
#include "bench.h"

#include <stdlib.h>

/* ---- the loop ---- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static cli_bench_seconds summary_of(double *samples, int64_t count) {
    if (count > 1) samples++, count--;
    qsort(samples, (size_t)count, sizeof *samples, ascending);
    return (cli_bench_seconds){samples[0], 0.5 * (samples[(count - 1) / 2] + samples[count / 2])};
}

ota_status cli_bench_time(const cli_bench_loop *loop, cli_bench_seconds *seconds,
                          ota_error *error) {
    const int64_t most = loop->rounds + 1;
    const double limit = loop->most_seconds > 0.0 ? loop->most_seconds : HUGE_VAL;
    double *samples = malloc((size_t)(most * loop->variants) * sizeof *samples), total = 0.0;
    if (samples == NULL) return OTA_ENOMEM;
    ota_status status = OTA_OK;
    int64_t done = 0;
    while (done < most && total < limit) {
        for (int v = 0; v < loop->variants && status >= 0; v++) {
            int64_t begun = cli_now_ns();
            status = loop->call(loop->context, v, &begun, error);
            samples[v * most + done] = (double)(cli_now_ns() - begun) * 1e-9;
            total += samples[v * most + done];
        }
        if (status < 0) break;
        done++;
    }
    for (int v = 0; v < loop->variants && done > 0; v++)
        seconds[v] = summary_of(samples + v * most, done);
    free(samples);
    return status;
}

/* ---- the table ---- */

void cli_bench_heading(const cli_bench_column *columns, int count) {
    for (int k = 0; k < count; k++)
        (void)printf("%*s%s", columns[k].width, columns[k].title, k + 1 < count ? " " : "\n");
}

static void print_value(const cli_bench_column *column, const json_t *value) {
    char text[200] = "-";
    if (json_is_string(value)) {
        (void)snprintf(text, sizeof text, "%s", json_string_value(value));
    } else if (json_is_boolean(value)) {
        (void)snprintf(text, sizeof text, "%s", json_is_true(value) ? "same" : "DIFFER");
    } else if (json_is_number(value)) {
        const double number = json_number_value(value) * column->factor;
        const char *suffix = column->suffix != NULL ? column->suffix : "";
        if (column->fixed)
            (void)snprintf(text, sizeof text, "%.*f%s", column->digits, number, suffix);
        else
            (void)snprintf(text, sizeof text, "%.*g%s", column->digits, number, suffix);
    }
    (void)printf("%*s", column->width, text);
}

void cli_bench_line(const cli_bench_column *columns, int count, const json_t *row) {
    const char *error = json_string_value(json_object_get(row, "error"));
    for (int k = 0; k < count; k++) {
        const json_t *value = json_object_get(row, columns[k].key);
        if (error != NULL && !json_is_string(value)) break;
        print_value(&columns[k], value);
        (void)printf("%s", k + 1 < count ? " " : "\n");
    }
    if (error != NULL)
        (void)printf("%s: %s\n", json_string_value(json_object_get(row, "status")), error);
    (void)fflush(stdout);
}

int cli_bench_finish(cli_context *context, json_t *rows) {
    if (!context->settings.output.json) {
        json_decref(rows);
        return 0;
    }
    const ota_status status = context->interrupted ? OTA_CANCELLED : OTA_OK;
    return cli_print_json(stdout,
                          json_pack("{sssssssoso}", "command", "bench", "version", ota_version(),
                                    "status", ota_status_word(status), "rows", rows, "warnings",
                                    json_incref(context->warnings)));
}
