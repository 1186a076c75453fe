#!/usr/bin/env bash
# ./dev demo: builds, shows attention as transport on a real model's heads, analyses the demo model, and makes the playground,
# which opens where there is a browser and a screen for it.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/dev/playground.sh
source scripts/dev/playground.sh

open_page() {
    [ "${CI:-}" != true ] && [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] && command -v xdg-open >/dev/null || return 0
    xdg-open "$1" >/dev/null 2>&1 &
}

do_demo() {
    local demo_model=data/demo/model
    export OTATTN_INSTALL=1
    build_all -DOTATTN_TESTS=OFF
    say "running the demo"
    "$program" demo "$@"
    if (make_playground) >"$log/playground" 2>&1; then
        printf '\nThe playground is at %s\n' "$build/playground.html"
        open_page "$build/playground.html"
    else
        say "no playground: see $log/playground"
    fi
    [ -d "$demo_model" ] || return 0
    say "analysing the demo model on a paragraph"
    "$program" analyze "$demo_model" data/demo/paragraph.txt -f -o "$build/demo-run" --windows 3x128 \
        --methods softmax,sparsemax,online:2 --temperatures 0.5,1,2 --saturation 0.9,0.05
    printf 'The analysis is at %s\n' "$build/demo-run/report.html"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_demo "$@"
