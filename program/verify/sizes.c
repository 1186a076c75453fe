/* How large the studies of `otattn verify -o` are: --size, --samples and --rounds, each within what a study
 * can draw, or the study's own. */
#include <inttypes.h>

#include "verify.h"

typedef struct size_flag {
    const char *name;
    size_t given, range, chosen; /* offsets in cli_settings, statement_study, study_sizes */
} size_flag;

static const size_flag flags[] = {
    {"size", offsetof(cli_settings, verify.size), offsetof(statement_study, size),
     offsetof(study_sizes, size)},
    {"samples", offsetof(cli_settings, verify.samples), offsetof(statement_study, samples),
     offsetof(study_sizes, samples)},
    {"rounds", offsetof(cli_settings, verify.rounds), offsetof(statement_study, rounds),
     offsetof(study_sizes, rounds)},
};
enum { FLAGS = (int)(sizeof flags / sizeof flags[0]) };

static const cli_whole *given_of(const cli_context *context, const size_flag *flag) {
    return (const cli_whole *)(const void *)((const char *)&context->settings + flag->given);
}

static const study_range *range_of(const statement_study *study, const size_flag *flag) {
    return (const study_range *)(const void *)((const char *)study + flag->range);
}

study_sizes cli_study_sizes(const cli_context *context, const statement_study *study) {
    study_sizes sizes = {0};
    for (int k = 0; k < FLAGS; k++) {
        const cli_whole *given = given_of(context, &flags[k]);
        const study_range *range = range_of(study, &flags[k]);
        int64_t *to = (int64_t *)(void *)((char *)&sizes + flags[k].chosen);
        *to = given->given && range->usual > 0 ? given->value : range->usual;
    }
    return sizes;
}

static int check_flag(cli_context *context, const size_flag *flag) {
    const cli_whole *given = given_of(context, flag);
    const char *out = context->settings.output.out;
    bool taken = false;
    if (!given->given) return 0;
    if (out == NULL || context->settings.verify.self_test || cli_ends_with(out, ".csv")) {
        return cli_refuse_flag(context, flag->name, "give -o a folder or a page F.html",
                               "--%s belongs to the studies, and none is written", flag->name);
    }
    for (int k = 0; k < statement_study_count; k++) {
        const statement_study *study = &statement_studies[k];
        const study_range *range = range_of(study, flag);
        if (range->usual == 0 || !cli_check_chosen(context, study->id)) continue;
        taken = true;
        if (given->value >= range->least && given->value <= range->most) continue;
        return cli_refuse_flag(context, flag->name, "choose one study with --only",
                               "--%s %" PRId64 " lies outside %" PRId64 " ... %" PRId64
                               " of the study of %s",
                               flag->name, given->value, range->least, range->most, study->id);
    }
    if (taken) return 0;
    return cli_refuse_flag(context, flag->name,
                           "the studies are named in docs/research/statements.md",
                           "no study among the chosen ids has a --%s", flag->name);
}

int cli_check_sizes(cli_context *context) {
    int code = 0;
    for (int k = 0; k < FLAGS && code == 0; k++) code = check_flag(context, &flags[k]);
    return code;
}
