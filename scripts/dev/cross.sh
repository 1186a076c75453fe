#!/usr/bin/env bash
# ./dev cross: the libraries built for other systems by Zig's clang, C tests and an example run where they can be.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# target : what its programs run under here
cross_targets=(
    "x86_64-linux-gnu.2.17:native"
    "x86_64-linux-musl:native"
    "aarch64-linux-musl:qemu-aarch64"
    "arm-linux-musleabihf:qemu-arm"
    "x86_64-windows-gnu:wine"
)
# Of the tests those that need nothing of POSIX and the few words of tests/bare/cmocka.h.
cross_tests=(test_half test_columns test_judge_columns test_lead test_entry_caps test_few_queries test_rebind test_route
    test_gauge_active test_assignments)

# zig_tools TARGET: writes the commands that cmake/zig.cmake names.
zig_tools() {
    local zig tool folder=$build/cross/zig-$1
    zig=$(echo "$build"/venv-cross/lib/python*/site-packages/ziglang/zig)
    mkdir -p "$folder"
    printf '#!/bin/sh\nexec "%s" cc -target %s "$@"\n' "$zig" "$1" >"$folder/cc"
    for tool in ar ranlib; do printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"$folder/$tool"; done
    chmod +x "$folder"/*
}

# cross_build TARGET: libraries without what needs other packages.
cross_build() {
    zig_tools "$1"
    compile "$build/cross/$1" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" -DOTATTN_TARGET="$1" \
        -DOTATTN_ZIG="$build/cross/zig-$1" -DOTATTN_PROGRAM=OFF -DOTATTN_MODEL=OFF -DOTATTN_SPECTRA=OFF \
        -DOTATTN_TESTS=OFF -DOTATTN_WERROR=ON
}

# cross_run RUNNER PROGRAM
cross_run() {
    case $1 in
        native) "$2" ;;
        wine) WINEDEBUG=-all WINEPREFIX=$build/cross/wine /usr/lib/wine/wine64 "$2" ;;
        *) "$1" "$2" ;;
    esac
}

# cross_test TARGET RUNNER SOURCE: one program, static where the C library can be.
cross_test() {
    local folder=$build/cross/$1 library=libotattn.a name static=()
    name=$(basename "$3" .c)
    case $1 in
        *musl*) static=(-static) ;;
        *windows*) library=libotattn_static.a ;;
    esac
    "$build/cross/zig-$1/cc" -std=c11 -O1 -DTEST_ALONE -ffp-contract=off "${static[@]}" -Itests/bare -Itests/support -Itests -Iinclude \
        -Isrc "$3" tests/reference/*.c "$folder/libotattn_analysis.a" "$folder/$library" -lm -o "$folder/$name.exe" &&
        cross_run "$2" "$folder/$name.exe"
}

# cross [TARGET...]
cross() {
    local row target runner name source venv=$build/venv-cross
    must_have_python_packages scripts/requirements-cross.txt
    for row in "${cross_targets[@]}"; do
        target=${row%%:*} runner=${row#*:}
        [ $# -eq 0 ] || [[ " $* " == *" $target "* ]] || continue
        say "building for $target"
        step "cross-$target" cross_build "$target"
        for source in examples/quickstart.c "${cross_tests[@]}"; do
            name=$(basename "$source" .c)
            [ -f "$source" ] || source=$(echo tests/*/"$name.c")
            step "cross-$target-$name" cross_test "$target" "$runner" "$source"
        done
    done
}

do_cross() {
    need "${packages_cross[@]}"
    new_steps cross
    cross "$@"
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_cross "$@"
