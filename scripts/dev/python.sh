#!/usr/bin/env bash
# ./dev python: the wheel and its tests.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# wheel_audit FOLDER VENV: at most 4 MB, contents in order, and a platform tag that says which glibc it needs.
wheel_audit() {
    local file
    file=$(ls "$1"/otattn-*.whl)
    [ "$(stat -c %s "$file")" -le 4194304 ] || return 1
    "$2/bin/check-wheel-contents" "$file"
    PATH=$2/bin:$PATH "$2/bin/auditwheel" show "$file"
    PATH=$2/bin:$PATH "$2/bin/auditwheel" repair -w "$1/manylinux" "$file"
    ls -l "$1/manylinux"
}

do_python() {
    # An environment of its own, so that the tests see the installed wheel and nothing else of the tree.
    local venv=$build/venv-python wheel=$build/wheel
    need "${packages_build[@]}" "${packages_python[@]}"
    must_have_python_packages python/requirements-test.txt
    must_have_python_packages examples/training/requirements.txt
    new_steps python
    rm -rf "$wheel"
    # The objects of the build that was linted, where a compiler cache has them.
    local same=()
    [ ${#strict[@]} -eq 0 ] || same=(-C cmake.define.CMAKE_C_COMPILER=gcc -C cmake.define.OTATTN_WERROR=ON)
    say "building the wheel"
    step python-structs "$venv/bin/python" scripts/make_python_structs.py --check
    step wheel "$venv/bin/pip" wheel -q --disable-pip-version-check --no-build-isolation --no-deps "${same[@]}" -w "$wheel" .
    step wheel-install "$venv/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps \
        "$wheel"/otattn-*.whl
    step mypy-strict "$venv/bin/mypy" --strict python/otattn tests/python/package/typed_calls.py
    step stubtest "$venv/bin/python" -m mypy.stubtest otattn --allowlist python/stubtest.txt
    step pyright "$venv/bin/pyright" --pythonpath "$venv/bin/python" python/otattn \
        tests/python/package/typed_calls.py
    step wheel-audit wheel_audit "$wheel" "$venv"
    export OTATTN_SPEC_LOG=$results/spec-python.log
    : >"$OTATTN_SPEC_LOG"
    say "running the tests of the package and the examples of its documentation"
    run_pytest python -m "not long" tests/python/package tests/python/outside
    run_pytest python-doctest -n 0 --doctest-modules --pyargs otattn
    count_results "$steps" "$results/python.xml" "$results/python-doctest.xml"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_python "$@"
