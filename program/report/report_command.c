/* `otattn report RUN`: the page, figures and LaTeX tables of a folder that `otattn analyze` wrote. */
#include <stdio.h>

#include "run.h"
#include "program/program.h"

int cli_report_command(cli_context *context) {
    const cli_settings *settings = &context->settings;
    const char *folder = context->operands[0], *page = settings->output.out;
    const int code = cli_run_report(folder, settings->output.compared, page, &context->error);
    if (code != 0) return code;
    if (settings->output.json) {
        json_t *where = page != NULL ? json_string(page) : json_sprintf("%s/report.html", folder);
        return cli_print_json(stdout,
                              json_pack("{s:s, s:s, s:s, s:o}", "command", "report", "version",
                                        ota_version(), "status", "ok", "report", where));
    }
    cli_put_named(stdout, "report: ", page != NULL ? page : folder,
                  page != NULL ? "\n" : "/report.html\n");
    return 0;
}
