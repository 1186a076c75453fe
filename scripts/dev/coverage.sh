#!/usr/bin/env bash
# ./dev coverage: lines and branches that the tests run, folder by folder.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The C tests, which walk the kernel levels of this machine, and the tests of the program, in a build with gcc's counters.
# Such a build is slow: random tests run every fifth case.
do_coverage() {
    local folder=$build/coverage
    need "${packages_build[@]}" "${packages_test[@]}"
    must_have_python_packages tests/requirements.txt
    if [ "${1:-}" != --list ]; then
        say "building with counters"
        compile "$folder" -DOTATTN_TESTS=ON -DOTATTN_HARDENING=OFF -DCMAKE_C_COMPILER_LAUNCHER= \
            "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG --coverage -fprofile-update=prefer-atomic" ||
            die "the build failed; see $log/compile-coverage"
        find "$folder" -name '*.gcda' -delete
        say "running the C tests, those of the program, and the calls of readers that fail"
        OTATTN_TEST_STRIDE=${OTATTN_TEST_STRIDE:-5} run_ctest "$folder" coverage -L '^c$' -j "$jobs" >"$log/coverage"
        # Counters are files that test_syscalls.py finds where none may be.
        program=$folder/otattn built=$folder run_pytest coverage-pytest -m "not long" --ignore tests/python/program/test_syscalls.py \
            tests/python/program >>"$log/coverage"
        # Each of these runs is judged as in ./dev faults; a wrong one fails here too.
        "$venv/bin/python" tests/faults/fail_each_call.py --program "$folder/otattn" \
            --library "$folder/tests/libfailing_calls.so" --once --only attend --only plan --only tokenize \
            --only capture --only report --only calls >>"$log/coverage" || say "see $log/coverage: a failing call went wrong"
    fi
    python3 scripts/coverage.py "$folder" "$@"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_coverage "$@"
