#!/usr/bin/env bash
# ./dev fuzz: the fuzz targets from the kept corpus, the same inputs in every run, or for --seconds N each new ones.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/dev/sanitize.sh
source "$(dirname "${BASH_SOURCE[0]}")/sanitize.sh"

# fuzz_target NAME [SECONDS]: the corpus and inputs drawn from it, the same wherever it runs; or for so long the fuzzing engine,
# then as long other drawn inputs. Those add lines "NAME executions seconds" to executions.tsv, whose number seeds the next run.
fuzz_target() {
    local name=$1 seconds=$2 programs=$build/fuzz-build/fuzz corpus=fuzz/corpus/$1 seed count
    if [ -z "$seconds" ]; then
        step "fuzz_$name" "${runner[@]}" "$build/sanitize-address/fuzz/drawn_$name" 5000 1 "$log/fuzz_$name-input" "$corpus"/*
        return
    fi
    seed=$(($(grep -cs "^$name"$'\t' "$results/executions.tsv" || true) + 1))
    mkdir -p "$build/fuzz-found/$name"
    step "fuzz_$name" "$programs/fuzz_$name" -seed="$seed" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$log/fuzz_$name-" "$build/fuzz-found/$name" "$corpus"
    count=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log/step-fuzz_$name")
    printf '%s\t%s\t%s\n' "$name" "${count:-0}" "$seconds" >>"$results/executions.tsv"
    step "drawn_$name" "$programs/drawn_$name" "${seconds}s" "$((seed + 1))" "$log/drawn_$name-input" "$corpus"/*
    count=$(sed -n 's/.*as they are, \([0-9]*\) drawn$/\1/p' "$log/step-drawn_$name")
    printf '%s drawn\t%s\t%s\n' "$name" "${count:-0}" "$seconds" >>"$results/executions.tsv"
}

# fuzz_fronts [SECONDS]: calls of the Python package with drawn arguments, where the package is installed: always the same ones, or
# for so long, which add up in build/results/fronts.csv.
fuzz_fronts() {
    local python=$build/venv-python/bin/python
    local -a much=()
    if [ -n "${1:-}" ]; then much=(--seconds "$1" --record "$results/fronts.csv"); fi
    if ! [ -x "$python" ] || ! "$python" -c 'import otattn' 2>/dev/null; then return 0; fi
    step fuzz-fronts "$python" fuzz/fuzz_fronts.py "${much[@]}"
    tail -n 1 "$log/step-fuzz-fronts"
}

# fuzz [SECONDS]: every target for so long, as many at a time as there are processors, from its folder of
# fuzz/corpus. What it finds new goes to a scratch folder, from which later runs start too; a crashing input to build/log.
# Inputs that are the same in every run need no fuzzing engine: their programs are part of ./dev sanitize's build.
fuzz() {
    local seconds=$1 target running=0
    sanitized_runner
    if [ -z "$seconds" ]; then
        step fuzz-targets compile_sanitized address drawn
    else
        step fuzz-targets compile "$build/fuzz-build" -DCMAKE_C_COMPILER=clang -DOTATTN_FUZZ=ON -DOTATTN_TESTS=OFF \
            -DOTATTN_SANITIZE=address,undefined "-DCMAKE_C_FLAGS_RELEASE=-O1 -g"
    fi
    for target in fuzz/fuzz_*.c; do
        target=${target##*/fuzz_}
        fuzz_target "${target%.c}" "$seconds" &
        running=$((running + 1))
        [ $running -lt "$jobs" ] || { wait -n && running=$((running - 1)); }
    done
    wait
    [ -z "$seconds" ] || awk -F'\t' '{ n[$1] += $2; s[$1] += $3; all += $2; time += $3 }
        END { for (k in n) printf "%s: %d executions in %d s\n", k, n[k], s[k] | "sort"; close("sort")
              printf "all runs since build was empty: %d executions in %d s\n", all, time }' "$results/executions.tsv"
    # In CI ./dev python runs beside this; a sample of the calls is among its tests (tests/python/package/test_drawn_calls.py).
    [ -n "${OTATTN_STRICT:-}" ] || fuzz_fronts "$seconds"
}

do_fuzz() {
    local seconds=
    if [ "${1:-}" = --seconds ]; then seconds=${2:?--seconds needs a number}; fi
    need "${packages_build[@]}" "${packages_test[@]}"
    [ -z "$seconds" ] || need "${packages_fuzz[@]}"
    new_steps fuzz
    say "fuzzing${seconds:+, each target for $seconds s}"
    fuzz "$seconds"
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_fuzz "$@"
