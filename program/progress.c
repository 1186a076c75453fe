/* Progress on stderr: how far, how fast, how long still. Short runs stay clean, and so does what --json writes. */

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "src/base/program/system_program.h"
#include "program/ranks/ranks.h"

static const int64_t SECOND = 1000000000;

int64_t cli_now_ns(void) { return ota_now_ns(); }

static bool is_set(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0';
}

bool cli_colour(FILE *stream) {
    const char *force = getenv("CLICOLOR_FORCE");
    if (is_set("NO_COLOR")) return false;
    if (force != NULL && force[0] != '\0' && strcmp(force, "0") != 0) return true;
    const char *kind = getenv("TERM");
    return ota_is_terminal(stream) && kind != NULL && strcmp(kind, "dumb") != 0;
}

void cli_progress_begin(cli_progress *progress, const cli_context *context, const char *label) {
    memset(progress, 0, sizeof *progress);
    const char *kind = getenv("TERM");
    const bool told = cli_ranks_rank() == 0, terminal = ota_is_terminal(stderr);
    progress->terminal = told && terminal && (kind == NULL || strcmp(kind, "dumb") != 0);
    progress->log = told && !terminal && !context->settings.output.json;
    progress->label = label;
    progress->begun_ns = progress->last_ns = cli_now_ns();
}

/* Is a line due? The first one is after a second. */
static bool due(cli_progress *progress, int64_t now) {
    const int64_t run = now - progress->begun_ns, pause = now - progress->last_ns;
    if (run < SECOND) return false;
    if (progress->terminal) {
        if (progress->shown && pause < SECOND / 5) return false;
    } else if (progress->log) {
        /* As long again as half of the run so far, 5 seconds to a minute. */
        const int64_t half = (run - pause) / 2;
        const int64_t least = half < 5 * SECOND    ? 5 * SECOND
                              : half < 60 * SECOND ? half
                                                   : 60 * SECOND;
        if (progress->shown && pause < least) return false;
    } else {
        return false;
    }
    progress->last_ns = now;
    progress->shown = true;
    return true;
}

/* What goes before a line, and behind it. */
static const char *line_start(const cli_progress *progress) {
    return progress->terminal ? "\r\033[K" : "";
}

static void end_line(const cli_progress *progress) {
    if (progress->log) (void)fputc('\n', stderr);
    (void)fflush(stderr);
}

/* Whole seconds or minutes, rounded up before they are taken apart: no minute has 60 seconds. */
static void format_time(double seconds, char *text, size_t size) {
    const double whole = ceil(seconds), minutes = ceil(seconds / 60.0);
    if (!(seconds < 360000.0))
        (void)snprintf(text, size, "?");
    else if (whole < 60.0)
        (void)snprintf(text, size, "%.0f s", whole);
    else if (whole < 3600.0)
        (void)snprintf(text, size, "%.0f min %02.0f s", floor(whole / 60.0), fmod(whole, 60.0));
    else
        (void)snprintf(text, size, "%.0f h %02.0f min", floor(minutes / 60.0), fmod(minutes, 60.0));
}

void cli_progress_update(cli_progress *progress, double done, double total, const char *unit) {
    const int64_t now = cli_now_ns();
    if (!due(progress, now)) return;
    const double seconds = (double)(now - progress->begun_ns) * 1e-9;
    const double rate = done / seconds;
    char left[40];
    format_time((total - done) / rate, left, sizeof left);
    (void)fprintf(stderr, "%s%s: %.0f of %.0f %s, %.3g a second, %s left", line_start(progress),
                  progress->label, floor(done), total, unit, rate, left);
    end_line(progress);
}

void cli_progress_solver(void *user, const ota_progress *report) {
    cli_progress *progress = user;
    const int64_t now = cli_now_ns();
    if (report->heads > 1 && report->heads_done > 0) {
        cli_progress_update(progress, (double)report->heads_done, (double)report->heads, "heads");
        return;
    }
    if (!(progress->first_residual > 0.0) && report->residual > 0.0) {
        progress->first_residual = report->residual;
        progress->first_round = report->round;
        progress->first_ns = now;
    }
    if (!due(progress, now)) return;
    /* The residual falls by about the same factor every second: extrapolate its logarithm. */
    const double seconds = (double)(now - progress->first_ns) * 1e-9;
    const double slope = log(progress->first_residual / report->residual) / seconds;
    char left[40];
    format_time(slope > 0.0 ? log(report->residual / progress->tolerance) / slope : HUGE_VAL, left,
                sizeof left);
    (void)fprintf(
        stderr, "%s%s: round %" PRId64 ", residual %.2g (to %.2g), %.3g rounds a second, %s left",
        line_start(progress), progress->label, report->round, report->residual, progress->tolerance,
        (double)(report->round - progress->first_round) / seconds, left);
    end_line(progress);
}

void cli_progress_end(cli_progress *progress) {
    if (progress->shown && progress->terminal) (void)fputs("\r\033[K", stderr);
    progress->shown = false;
}
