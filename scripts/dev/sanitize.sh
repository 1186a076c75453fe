#!/usr/bin/env bash
# ./dev sanitize: the C tests under the address, undefined-behaviour and thread sanitizers.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

do_sanitize() {
    local row name stride found=() less=()
    need "${packages_build[@]}" "${packages_test[@]}" "${packages_python[@]}"
    # Shadow memory lies at fixed addresses, which wide address randomisation may have taken.
    if setarch "$(uname -m)" -R true 2>/dev/null; then runner=(setarch "$(uname -m)" -R); fi
    for row in address:address,undefined thread:thread; do
        name=sanitize-${row%%:*}
        # Plain loops share the pool with everybody else and take a thread a head: too slow to watch here. Memory is
        # watched in the plain tests that take seconds; those left out run the same passes for minutes.
        less=(-E '^plain_test_(coupled_.*|forward|forward_runs|backward|backward_tiles|ring_rows|ring_newton|ring_parameters)$')
        [ "${row%%:*}" != thread ] || less=(-LE '^(plain|alone)$')
        say "building and running the C tests with -fsanitize=${row#*:}"
        compile "$build/$name" "-DOTATTN_SANITIZE=${row#*:}" "-DCMAKE_C_FLAGS_RELEASE=-O1 -g" ||
            die "the build failed; see $log/compile-$name"
        # The slowest random tests run few of their cases, which all run in ./dev test. OpenBLAS is not instrumented: the
        # locks between its own threads would go unseen.
        stride=4
        [ "${row%%:*}" != thread ] || stride=20
        OTATTN_TEST_STRIDE=${OTATTN_TEST_STRIDE:-$stride} OPENBLAS_NUM_THREADS=1 \
            UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 \
            run_ctest "$build/$name" "$name" -L '^c$' "${less[@]}" -j "$jobs"
        found+=("$results/$name.xml")
    done
    tally "${found[@]}"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_sanitize "$@"
