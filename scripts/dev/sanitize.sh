#!/usr/bin/env bash
# ./dev sanitize [address] [thread]: the C tests under the address and undefined-behaviour sanitizers, and under the thread sanitizer.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

declare -A sanitizers=([address]="address,undefined" [thread]=thread)

# compile_sanitized NAME TARGET...: in build/sanitize-NAME. Line tables are enough for stack traces.
compile_sanitized() {
    local folder=$build/sanitize-$1
    configure "$folder" "-DOTATTN_SANITIZE=${sanitizers[$1]}" -DOTATTN_TESTS=ON "-DCMAKE_C_FLAGS_RELEASE=-O1 -g1" &&
        make_targets "$folder" "${@:2}"
}

# sanitized_runner: shadow memory lies at fixed addresses, which wide address randomisation may have taken.
sanitized_runner() {
    if setarch "$(uname -m)" -R true 2>/dev/null; then runner=(setarch "$(uname -m)" -R); fi
}

do_sanitize() {
    local name stride found=() less=()
    need "${packages_build[@]}" "${packages_test[@]}" "${packages_python[@]}"
    sanitized_runner
    [ $# -gt 0 ] || set -- address thread
    for name in "$@"; do
        [ -n "${sanitizers[$name]:-}" ] || die "there is no sanitizer '$name': address or thread"
        # Plain loops share the pool with everybody else and take a thread a head: too slow to watch here. Memory is
        # watched in the plain tests that take seconds; those left out run the same passes for minutes.
        less=(-E '^plain_test_(coupled_.*|forward|forward_runs|backward|backward_tiles|ring_rows|ring_newton|ring_parameters)$')
        [ "$name" != thread ] || less=(-LE '^(plain|alone)$')
        say "building and running the C tests with -fsanitize=${sanitizers[$name]}"
        compile_sanitized "$name" test_programs || die "the build failed; see $log/compile-sanitize-$name"
        # The slowest random tests run few of their cases, which all run in ./dev test. OpenBLAS is not instrumented: the
        # locks between its own threads would go unseen.
        stride=4
        [ "$name" != thread ] || stride=20
        OTATTN_TEST_STRIDE=${OTATTN_TEST_STRIDE:-$stride} OPENBLAS_NUM_THREADS=1 \
            UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 \
            run_ctest "$build/sanitize-$name" "sanitize-$name" -L '^c$' "${less[@]}" -j "$jobs"
        found+=("$results/sanitize-$name.xml")
    done
    count_results "${found[@]}"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_sanitize "$@"
