/* Do the ranks ask for the same thing? Every rank sends what it was given as one list of numbers and compares all lists, so
 * that all of them come to the same sentence before any work. */
#include <inttypes.h>
#include <string.h>

#include "base/base.h"
#include "problem/check.h"
#include "problem/fields.h"
#include "validation/shards.h"

/* Rows of the tables, and what is listed besides. */
enum { MOST_FACTS = OTA_PROBLEM_FIELDS + OTA_OPTION_FIELDS + 16 };

typedef struct facts {
    const char *name[MOST_FACTS];
    int64_t value[MOST_FACTS];
    int count;
} facts;

/* The first facts are each rank's own. */
enum { STATUS, QUERIES, KEYS, FIRST_QUERIES, FIRST_KEYS, OWN };

static void whole(facts *f, const char *name, int64_t value) {
    f->name[f->count] = name;
    f->value[f->count++] = value;
}

/* Type and sizes of the operands, but for the rank's share of the lines. */
static void list_operands(facts *f, const ota_problem *p) {
    const bool matrix = ota_array_present(&p->scores);
    const ota_array *rows = matrix ? &p->scores : &p->queries;
    whole(f, "scores", matrix);
    whole(f, "type", (int64_t)rows->type);
    whole(f, "batch", rows->size[0]);
    whole(f, "heads", rows->size[1]);
    whole(f, "key heads", matrix ? 0 : p->keys.size[1]);
    whole(f, matrix ? "keys" : "width", rows->size[3]);
}

static void list_fields(facts *f, const ota_field *table, const void *record) {
    for (const ota_field *field = table; field->name != NULL; field++) {
        if (field->ranks == OTA_RANKS_SAME) whole(f, field->name, ota_field_fact(field, record));
    }
}

/* Kernels of other levels round otherwise, and then ranks part ways where a residual meets a tolerance. */
static void list_build(facts *f, const ota_communicator *to) {
    whole(f, "shares", (int64_t)to->shares);
    whole(f, "key transport", (int64_t)to->keys);
    whole(f, "send_receive", to->send_receive != NULL);
    whole(f, "the library's version", ota_fact_of_text(ota_version()));
    whole(f, "the processor's features", (int64_t)ota_cpu_features());
}

ota_status ota_shards_read(const ota_problem *problem, const ota_options *options,
                           ota_problem *full, ota_options *settings, ota_error *error) {
    memset(full, 0, sizeof *full);
    memset(settings, 0, sizeof *settings);
    TRY(ota_check_sized(settings, sizeof *settings, options, options->size, "options.size", error));
    if (problem == NULL)
        return ota_fail(error, OTA_EINVAL, "problem", "give a problem", "problem is NULL");
    return ota_check_sized(full, sizeof *full, problem, problem->size, "problem.size", error);
}

/* ---- shares ------------------------------------------------------------------------------------- */

void ota_shards_piece(const ota_shards *shards, const int64_t *shares, int rank, bool second,
                      int64_t *first, int64_t *count) {
    const int ranks = shards->ranks.to.ranks;
    const int64_t *of_first = shares + ranks;
    int64_t at = 0;
    for (int k = 0; k < (second ? ranks : rank); k++) at += of_first[k];
    for (int k = ranks - 1; second && k > rank; k--) at += shares[k] - of_first[k];
    *first = at;
    *count = second ? shares[rank] - of_first[rank] : of_first[rank];
}

/* Of `count` queries (kind 0) or keys (1) of this rank those in its first piece. */
static int64_t first_piece(const ota_communicator *to, int kind, int64_t count) {
    if (to->shares != OTA_SHARES_ZIGZAG) return count;
    return to->first_pieces != NULL ? to->first_pieces[kind] : (count + 1) / 2;
}

static ota_status check_pieces(const ota_communicator *to, const int64_t *counts,
                               ota_error *error) {
    static const char *const names[] = {"queries", "keys"};
    for (int k = 0; k < 2; k++) {
        const int64_t first = first_piece(to, k, counts[k]);
        if (first >= 0 && first <= counts[k]) continue;
        return ota_fail(error, OTA_EINVAL, "communicator", "let it be between 0 and all of them",
                        "communicator.first_pieces has %" PRId64 " of %" PRId64 " %s", first,
                        counts[k], names[k]);
    }
    return OTA_OK;
}

static ota_share rows_of(const ota_shards *shards, const int64_t *shares) {
    const int rank = shards->ranks.to.rank;
    ota_share rows = {0};
    int64_t second, count;
    ota_shards_piece(shards, shares, rank, false, &rows.first, &rows.split);
    ota_shards_piece(shards, shares, rank, true, &second, &count);
    rows.jump = count > 0 ? second - rows.first - rows.split : 0;
    for (int k = 0; k < shards->ranks.to.ranks; k++) rows.rows += shares[k];
    return rows;
}

/* ---- agreement ---------------------------------------------------------------------------------- */

static ota_status differ(const facts *f, const int64_t *all, int rank, int fact, ota_error *error) {
    const int64_t here = all[(int64_t)rank * f->count + fact], first = all[fact];
    /* Small numbers are what they are; others are the bits of a double, or stand for a text. */
    const int64_t small = 1 << 30;
    if (here >= 0 && here < small && first >= 0 && first < small)
        return ota_fail(error, OTA_EMISMATCH, f->name[fact], "give every rank the same problem",
                        "rank %d has %s %" PRId64 " where rank 0 has %" PRId64, rank, f->name[fact],
                        here, first);
    return ota_fail(error, OTA_EMISMATCH, f->name[fact], "give every rank the same problem",
                    "rank %d has another %s than rank 0", rank, f->name[fact]);
}

static ota_status compare(ota_shards *shards, const facts *f, int64_t *all, ota_error *error) {
    const int ranks = shards->ranks.to.ranks;
    for (int k = 0; k < ranks; k++) {
        shards->counts[k] = f->count * (int64_t)sizeof *all;
        shards->offsets[k] = k * shards->counts[k];
    }
    if (!ota_ranks_gather(&shards->ranks, f->value, all, shards->counts, shards->offsets,
                          "comparing the problems of the ranks"))
        return ota_ranks_refuse(&shards->ranks, error);
    const int64_t mine = f->value[STATUS];
    if (mine != OTA_OK) return (ota_status)mine;
    for (int k = 0; k < ranks; k++) {
        const int64_t status = all[(int64_t)k * f->count + STATUS];
        if (status != OTA_OK)
            return ota_fail(error, OTA_EMISMATCH, "communicator", "see that rank's own sentence",
                            "rank %d refused the call with '%s'", k,
                            ota_status_word((ota_status)status));
    }
    for (int fact = OWN; fact < f->count; fact++) {
        for (int k = 1; k < ranks; k++) {
            if (all[(int64_t)k * f->count + fact] != all[fact])
                return differ(f, all, k, fact, error);
        }
    }
    return OTA_OK;
}

size_t ota_shards_facts_bytes(int ranks) { return (size_t)ranks * MOST_FACTS * sizeof(int64_t); }

ota_status ota_shards_compare(ota_shards *shards, const ota_problem *problem,
                              const ota_options *options, int64_t values_width, ota_status status,
                              ota_shard_sizes *sizes, ota_error *error) {
    const int ranks = shards->ranks.to.ranks;
    const bool matrix = ota_array_present(&problem->scores);
    const ota_array *rows = matrix ? &problem->scores : &problem->queries;
    const ota_communicator *to = &shards->ranks.to;
    const int64_t counts[] = {rows->size[2],
                              matrix ? problem->scores.size[3] : problem->keys.size[2]};
    if (status == OTA_OK) status = check_pieces(to, counts, error);
    facts f = {.count = 0};
    whole(&f, "status", status);
    for (int k = 0; k < 2; k++) whole(&f, "size", counts[k]);
    for (int k = 0; k < 2; k++) whole(&f, "first piece", first_piece(to, k, counts[k]));
    list_build(&f, &shards->ranks.to);
    list_operands(&f, problem);
    list_fields(&f, ota_problem_fields, problem);
    list_fields(&f, ota_option_fields, options);
    whole(&f, "values_width", values_width);
    int64_t *all = shards->facts;
    const ota_status compared = compare(shards, &f, all, error);
    int64_t row_total = 0, key_total = 0;
    bool fits = true;
    for (int k = 0; k < ranks && compared == OTA_OK; k++) {
        const int64_t *theirs = all + (int64_t)k * f.count;
        fits = fits && theirs[QUERIES] >= 0 && theirs[KEYS] >= 0 &&
               !__builtin_add_overflow(row_total, theirs[QUERIES], &row_total) &&
               !__builtin_add_overflow(key_total, theirs[KEYS], &key_total);
        shards->counts[k] = theirs[QUERIES];
        shards->counts[ranks + k] = theirs[FIRST_QUERIES];
        shards->key_shares[k] = theirs[KEYS];
        shards->key_shares[ranks + k] = theirs[FIRST_KEYS];
    }
    if (compared != OTA_OK) return compared;
    if (!fits || row_total > INT64_MAX / 64 || key_total > INT64_MAX / 64)
        return ota_fail(error, OTA_EOVERFLOW, "queries", "use smaller sizes",
                        "the queries or keys of %d ranks overflow", ranks);
    shards->key_share = shards->key_shares[shards->ranks.to.rank];
    *sizes = (ota_shard_sizes){.queries = rows->size[2],
                               .keys = shards->key_share,
                               .all_keys = matrix ? problem->scores.size[3] : key_total,
                               .rows = rows_of(shards, shards->counts)};
    return OTA_OK;
}
