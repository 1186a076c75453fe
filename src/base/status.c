/* status.c: the word and the sentence of every status, one table row each, and the version. */
#include "base.h"

typedef struct status_row {
    ota_status status;
    const char *word; /* what the program's JSON says; several statuses share one */
    const char *text;
} status_row;

static const status_row ROWS[] = {
    {OTA_OK, "ok", "Solved: every promise was kept."},
    {OTA_FIXED_ITERS, "fixed_iters",
     "The asked number of rounds was run; nothing is promised about the columns."},
    {OTA_PARTIAL, "partial", "Not converged; the partial plan was written because it was allowed."},
    {OTA_NONFINITE_ROWS, "nonfinite_rows",
     "Some rows met NaN or infinity and are NaN; the other rows are right."},
    {OTA_EINVAL, "invalid", "An argument is out of its range or does not fit another."},
    {OTA_ENOMEM, "no_memory", "The memory could not be had."},
    {OTA_EOVERFLOW, "limit", "A size leaves the range of this machine's integers."},
    {OTA_EALIAS, "invalid", "An output overlaps an input or another output."},
    {OTA_EALIGN, "invalid", "An array is not aligned to the size of its elements."},
    {OTA_NOT_CONVERGED, "not_converged", "The rounds ran out before the tolerance was met."},
    {OTA_INFEASIBLE, "infeasible", "No plan meets the masses on this support."},
    {OTA_TOL_UNREACHABLE, "tolerance_unreachable",
     "The tolerance lies below what double precision can reach on this problem."},
    {OTA_NONFINITE, "nonfinite", "The input holds NaN or infinity where the method forbids them."},
    {OTA_NOT_DIFFERENTIABLE, "not_differentiable", "This method has no gradient."},
    {OTA_UNSUPPORTED, "unsupported", "This combination has no meaning or no solver."},
    {OTA_CANCELLED, "cancelled", "The caller cancelled the run."},
    {OTA_TIMEOUT, "timeout", "The deadline passed before the run was done."},
    {OTA_EFORMAT, "bad_file", "A file does not follow its format."},
    {OTA_ELIMIT, "limit", "A limit set by the caller is too small."},
    {OTA_EIO, "io", "Reading or writing failed."},
    {OTA_EPATH, "io", "A path cannot be opened."},
    {OTA_ETRUNC, "bad_file", "A file ends too early."},
    {OTA_EMISMATCH, "mismatch", "The checkpoint does not fit its configuration."},
    {OTA_EDEVICE, "device", "The device failed."},
    {OTA_ECOMM, "communication", "Communication between processes failed."},
    {OTA_EINTERNAL, "internal", "An internal check failed: this is a defect of the library."},
    {OTA_UNSOLVED, "unsolved", "Nothing has been solved yet."},
};

static const status_row *find_row(ota_status status) {
    static const status_row unknown = {OTA_EINTERNAL, "unknown", "This number is no status."};
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if (ROWS[i].status == status) return &ROWS[i];
    }
    return &unknown;
}

const char *ota_status_word(ota_status status) { return find_row(status)->word; }

const char *ota_status_text(ota_status status) { return find_row(status)->text; }

const char *ota_version(void) { return OTA_VERSION_STRING; }
