#!/usr/bin/env bash
# ./dev playground [test]: the library and the models' library as WebAssembly, with and without vector instructions, and the
# page that holds both, the demo model and no other file: build/playground.html. What was built is kept in build/wasm.
# test: and drives the page in a browser beside the program.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/dev/zig.sh
source "$(dirname "${BASH_SOURCE[0]}")/zig.sh"

wasm=$build/wasm

# wasm_module NAME VECTORS: build/wasm/NAME/web/playground.wasm.
wasm_module() {
    PKG_CONFIG_LIBDIR=$wasm/libraries/lib/pkgconfig compile_module "$wasm/$1" "-DOTATTN_WASM_SIMD=$2" ||
        die "the module was not built; see $log/compile-$1"
}

compile_module() {
    local folder=$1 option options
    mapfile -t options < <(zig_options wasm32-wasi "$wasm")
    options+=("$2" -DCMAKE_BUILD_TYPE=MinSizeRel)
    for option in TESTS PROGRAM ANALYSIS SPECTRA BLAS BATCHES INSTALL HARDENING; do options+=("-DOTATTN_$option=OFF"); done
    configure "$folder" "${options[@]}" && make_targets "$folder" playground
}

make_playground() {
    local model=$wasm/model.gguf
    need "${packages_playground[@]}" "${packages_python[@]}"
    must_have_python_packages scripts/requirements-zig.txt
    mkdir -p "$wasm"
    export ZIG_GLOBAL_CACHE_DIR=$wasm/cache ZIG_LOCAL_CACHE_DIR=$wasm/cache
    zig_cache wasm32-wasi
    zig_tools wasm32-wasi
    static_libraries wasm32-wasi "$wasm" jansson pcre2 utf8proc -- -DCMAKE_BUILD_TYPE=MinSizeRel ||
        die "the playground's libraries were not built"
    say "building the modules"
    wasm_module plain OFF
    wasm_module vectors ON
    say "packing the page"
    python3 web/pack_model.py data/demo/model "$model"
    python3 web/pack_page.py "$wasm" "$model" "$build/playground.html"
}

do_playground() {
    if [ "${1:-}" != test ]; then
        make_playground
        return
    fi
    new_steps playground
    step playground make_playground
    need chromium
    [ -x "$program" ] || build_all -DOTATTN_TESTS=OFF
    must_have_python_packages tests/requirements.txt
    export OTATTN_PLAYGROUND=$build/playground.html
    run_pytest playground tests/python/program/test_playground.py
    count_results "$steps" "$results/playground.xml"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_playground "$@"
