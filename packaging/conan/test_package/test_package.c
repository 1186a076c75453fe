/* test_package.c: doubly stochastic rows of a matrix of scores, whose columns are judged. */
#include <otattn.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    double scores[4] = {0.3, -1.1, 0.8, 1.4}, plan[4];
    ota_problem problem = {.size = sizeof problem, .columns = OTA_COLUMNS_EXACT};
    ota_arrays arrays = {.size = sizeof arrays};
    problem.scores = ota_array_of(scores, OTA_F64, 1, 1, 2, 2);
    arrays.coupling = ota_array_of(plan, OTA_F64, 1, 1, 2, 2);
    if (ota_attend(&problem, NULL, &arrays, NULL, NULL) != OTA_OK) return 1;
    const double error = plan[0] + plan[2] - 1;
    printf("otattn %s: column error %.1e\n", ota_version(), error);
    return error > 1e-6 || error < -1e-6 || strcmp(ota_version(), OTA_VERSION_STRING) != 0;
}
