#!/usr/bin/env bash
# ./dev faults: what the system can do to a run (docs/development/reliability.md); long, goes on where it stopped.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# faults OPTION...: what the system can do to a run (docs/development/reliability.md); options go to the first driver.
faults() {
    local library=$build/tests/libfailing_calls.so python=$build/venv-python/bin/python
    local -a package=()
    # Training examples are torn too where the package is installed.
    if [ -x "$python" ] && "$python" -c 'import otattn, torch' 2>/dev/null; then package=(--package "$python"); fi
    say "failing every call of the golden commands, one at a time"
    # A sample or --once is no whole command, of which the record holds those that are done.
    case " $* " in *" --sample "* | *" --once "*) ;; *) set -- --record "$results/faults.csv" "$@" ;; esac
    step failing-calls "$venv/bin/python" tests/faults/fail_each_call.py --program "$program" --library "$library" "$@"
    tail -n 1 "$log/step-failing-calls"
    say "failing every call of verify's ids, a site once"
    step failing-statements "$venv/bin/python" tests/faults/fail_each_call.py --program "$program" --library "$library" \
        --statements --once
    tail -n 1 "$log/step-failing-statements"
    say "failing the library's calls under the C tests, one at a time"
    step failing-tests "$venv/bin/python" tests/faults/fail_test_programs.py --tests "$build/tests" --archives "$build" \
        --library "$library" --record "$results/failing-tests.csv"
    tail -n 1 "$log/step-failing-tests"
    say "killing runs, filling disks, moving the clock"
    step torn-runs "$venv/bin/python" tests/faults/torn_runs.py --program "$program" --library "$library" "${package[@]}"
    tail -n 1 "$log/step-torn-runs"
    say "plans on many threads for ${OTATTN_SOAK_MINUTES:-10} minutes; parts add up in $results/soak.txt"
    step soak "$build/tests/test_concurrency" --minutes "${OTATTN_SOAK_MINUTES:-10}" --record "$results/soak.txt"
    tail -n 1 "$log/step-soak"
}

do_faults() {
    need "${packages_test[@]}"
    build_all -DOTATTN_TESTS=ON
    must_have_python_packages tests/requirements.txt
    new_steps faults
    faults "$@"
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_faults "$@"
