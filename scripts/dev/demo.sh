#!/usr/bin/env bash
# ./dev demo: builds and shows attention as transport on a real model's heads; writes build/demo.html.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

do_demo() {
    export OTATTN_INSTALL=1
    build_all -DOTATTN_TESTS=OFF
    say "running the demo"
    "$program" demo -f -o "$build/demo.html" "$@"
    demo_model=data/demo/model
    [ -d "$demo_model" ] || return 0
    say "analysing the demo model on a paragraph"
    "$program" analyze "$demo_model" data/demo/paragraph.txt -f -o "$build/demo-run" --windows 3x128 \
        --methods softmax,sparsemax,online:2 --temperatures 0.5,1,2 --saturation 0.9,0.05
    printf 'The analysis is at %s\n' "$build/demo-run/report.html"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_demo "$@"
