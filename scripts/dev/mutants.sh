#!/usr/bin/env bash
# ./dev mutants: known one-line faults in a copy of the sources, each of which a C test must catch.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# mutants OPTION...: survivors are shown, the table of all faults lies in build/results.
mutants() {
    python3 tests/mutate.py --table "$results/faults.tsv" "$@"
}

do_mutants() {
    need "${packages_build[@]}" "${packages_test[@]}" "${packages_python[@]}"
    new_steps mutants
    # Known faults are linked before the libraries of build/; drawn ones have copies of their own.
    [ $# -gt 0 ] || build_all -DOTATTN_TESTS=ON
    say "planting faults in a copy and testing each"
    # A few drawn faults cannot measure a rate, so CI plants those that were caught once. The campaign's 200 decide.
    if [ $# -eq 0 ]; then step mutants python3 tests/mutate_known.py --jobs "$jobs"; else step mutants mutants "$@"; fi
    tail -n 1 "$log/step-mutants"
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_mutants "$@"
