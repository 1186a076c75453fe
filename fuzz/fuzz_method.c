/* libFuzzer on the grammar of methods: parsing must return; a method that parses has a canonical name,
 * which parses to itself; and the check of a small problem must return. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "otattn.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static ota_problem small_problem(double scores[6]) {
    ota_problem problem = {.size = sizeof problem};
    problem.scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 3);
    return problem;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    double scores[6] = {0, 1, 2, 3, -1, 0.5};
    char text[512], name[512], again[512];
    if (size >= sizeof text) return 0;
    if (size > 0) memcpy(text, bytes, size);
    text[size] = '\0';
    ota_problem problem = small_problem(scores), second = small_problem(scores);
    ota_options options = {.size = sizeof options}, others = {.size = sizeof others};
    ota_error error = {.message = ""};
    if (ota_method_parse(text, &problem, &options, &error) < 0) {
        if (error.message[0] == '\0') abort();
        return 0;
    }
    (void)ota_check(&problem, &options, &error);
    if (ota_method_name(&problem, name, sizeof name) >= sizeof name) abort();
    if (ota_method_parse(name, &second, &others, &error) < 0) abort();
    if (ota_method_name(&second, again, sizeof again) >= sizeof again) abort();
    if (strcmp(name, again) != 0) abort();
    return 0;
}
