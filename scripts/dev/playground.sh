#!/usr/bin/env bash
# ./dev playground [test]: the library and the models' library as WebAssembly, with and without vector instructions, and the
# page that holds both, the demo model and no other file: build/playground.html. What was built is kept in build/wasm.
# test: and drives the page in a browser beside the program.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

wasm=$build/wasm

# write_command NAME WORD...: a command of one word, as CMake and compiler caches want it; kept where it says the same.
write_command() {
    local file=$wasm/zig/$1
    shift
    [ "$(cat "$file" 2>/dev/null)" != "$(printf '#!/bin/sh\nexec %s "$@"' "$*")" ] || return 0
    printf '#!/bin/sh\nexec %s "$@"\n' "$*" >"$file"
    chmod +x "$file"
}

# wasm_library NAME ADDRESS SHA256: the static library in build/wasm/libraries.
wasm_library() {
    local name=$1 options
    options=(-DCMAKE_TOOLCHAIN_FILE="$PWD/web/wasm.cmake" -DOTATTN_ZIG="$wasm/zig" -DCMAKE_BUILD_TYPE=MinSizeRel
        -DCMAKE_INSTALL_PREFIX="$wasm/libraries" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF)
    case $name in
        jansson*) options+=(-DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF) ;;
        pcre2*) options+=(-DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF) ;;
    esac
    [ -d "$wasm/sources/$name" ] || python3 web/fetch_library.py "$2" "$3" "$wasm/sources" || return 1
    cmake -S "$wasm/sources/$name" -B "$wasm/$name" "${options[@]}" &&
        cmake --build "$wasm/$name" -j "$jobs" && cmake --install "$wasm/$name"
}

wasm_libraries() {
    local name address sha256 stamp
    while read -r name address sha256; do
        stamp=$wasm/made-$name-$(cat web/wasm.cmake web/requirements.txt | sha256sum | cut -c1-16)
        [ ! -e "$stamp" ] || continue
        say "building $name for WebAssembly"
        wasm_library "$name" "$address" "$sha256" >"$log/wasm-$name" 2>&1 </dev/null || die "$name was not built; see $log/wasm-$name"
        touch "$stamp"
    done <web/libraries.txt
}

# wasm_module NAME VECTORS: build/wasm/NAME/web/playground.wasm.
wasm_module() {
    PKG_CONFIG_LIBDIR=$wasm/libraries/lib/pkgconfig compile_module "$wasm/$1" "-DOTATTN_WASM_SIMD=$2" ||
        die "the module was not built; see $log/compile-$1"
}

compile_module() {
    local folder=$1 option options=("$2" -DCMAKE_TOOLCHAIN_FILE="$PWD/web/wasm.cmake" -DOTATTN_ZIG="$wasm/zig"
        -DCMAKE_BUILD_TYPE=MinSizeRel)
    for option in TESTS PROGRAM ANALYSIS SPECTRA BLAS BATCHES INSTALL HARDENING; do options+=("-DOTATTN_$option=OFF"); done
    configure "$folder" "${options[@]}" && make_targets "$folder" playground
}

make_playground() {
    local zig model=$wasm/model.gguf
    need "${packages_playground[@]}" "${packages_python[@]}"
    must_have_python_packages web/requirements.txt
    mkdir -p "$wasm/zig" "$wasm/sources"
    zig=$("$venv/bin/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
    export ZIG_GLOBAL_CACHE_DIR=$wasm/cache ZIG_LOCAL_CACHE_DIR=$wasm/cache
    # The commands are new on every clean machine; what compiles is the package.
    CCACHE_COMPILERCHECK=string:$(tail -n 1 web/requirements.txt)
    export CCACHE_COMPILERCHECK
    write_command cc "$zig" cc -target wasm32-wasi
    write_command ar "$zig" ar
    write_command ranlib "$zig" ranlib
    wasm_libraries
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
