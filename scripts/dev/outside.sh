#!/usr/bin/env bash
# ./dev outside: suites and programs of others with the package in their places.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# outside: what others' suites and programs find. They bring many packages, so their environment is one of its own.
outside() {
    local venv=$build/venv-outside
    need "${packages_build[@]}" "${packages_python[@]}"
    must_have_python_packages python/requirements-test.txt
    must_have_python_packages tests/requirements-outside.txt
    must_have_python_packages tests/requirements-outside-alone.txt --no-deps
    install_package
    say "running suites and programs of others with the package in their places"
    run_pytest outside -m "long or not long" tests/python/outside
}

do_outside() {
    outside
    count_results "$results/outside.xml"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_outside "$@"
