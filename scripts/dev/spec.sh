#!/usr/bin/env bash
# ./dev spec: which requirement ids the last test run covered.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

do_spec() {
    [ -s "$results/spec.log" ] || ./dev test >&2 || say "some tests failed; the table says which ids"
    # What ./dev python wrote is there only once that has run.
    cat "$results/spec.log" "$results"/spec-python.lo[g] >"$results/spec-all.log" 2>/dev/null || true
    python3 scripts/spec_table.py "$results/spec-all.log" "$@"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_spec "$@"
