/* test_flags.c: flags that set a member of ota_options or ota_problem as it stands name one that there is, and read what it
 * holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "groups.h"
#include "problem/fields.h"
#include "program/program.h"
#include "groups.h"

/* Does the parser of the flag give what the member holds? */
static bool fits(const cli_flag *flag, const ota_field *f) {
    switch (f->kind) {
    case OTA_FIELD_REAL: return flag->parse == cli_parse_positive;
    case OTA_FIELD_FLAG: return flag->parse == cli_parse_switch;
    case OTA_FIELD_ENUM: return flag->parse == cli_parse_choice;
    case OTA_FIELD_TEXT: return flag->parse == cli_parse_text || flag->parse == cli_parse_choice;
    case OTA_FIELD_WHOLE:
    case OTA_FIELD_SIZE:
    case OTA_FIELD_COUNT: return flag->parse == cli_parse_natural || flag->parse == cli_parse_count;
    case OTA_FIELD_ARRAY:
    case OTA_FIELD_BITS:
    case OTA_FIELD_LIST:
    case OTA_FIELD_POINTER:
    case OTA_FIELD_FUNCTIONS:
    default: return false;
    }
}

static void flags_name_members_that_they_fit(void **state) {
    (void)state;
    int count = 0;
    for (int k = 0; k < cli_flag_count; k++) {
        const cli_flag *flag = &cli_flags[k];
        if (flag->sets == NULL) continue;
        if (!cli_sets_members(flag)) fail_msg("--%s sets no member by %s", flag->name, flag->sets);
        count++;
        if (strpbrk(flag->sets, "|:=@") != NULL) continue;
        const ota_field *f = ota_field_named(ota_option_fields, flag->sets);
        if (f == NULL) f = ota_field_named(ota_problem_fields, flag->sets);
        if (f == NULL || !fits(flag, f)) fail_msg("--%s does not fit %s", flag->name, flag->sets);
        if (flag->parse == cli_parse_choice) assert_non_null(cli_flag_words(flag));
    }
    assert_true(count > 22);
}

TEST_FILE(test_flags) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(flags_name_members_that_they_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
