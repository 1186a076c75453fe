#!/usr/bin/env bash
# ./dev cross: libraries, models and the program built for other systems by Zig's clang; C tests, an example and commands run where
# they can be, else symbols and what is loaded are looked at. smoke: a few sources for every target, compiled alone.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/dev/zig.sh
source "$(dirname "${BASH_SOURCE[0]}")/zig.sh"

# target : what its programs run under here
cross_targets=(
    "x86_64-linux-gnu.2.17:native"
    "x86_64-linux-musl:native"
    "aarch64-linux-musl:qemu-aarch64"
    "arm-linux-musleabihf:qemu-arm"
    "s390x-linux-musl:qemu-s390x"
    "x86_64-windows-gnu:wine"
    "aarch64-macos.11.0:none"
    "x86_64-macos.11.0:none"
)
# Of the tests those that need nothing of POSIX and the few words of tests/bare/cmocka.h.
cross_tests=(test_half test_columns test_judge_columns test_lead test_entry_caps test_few_queries test_rebind test_route
    test_gauge_active test_assignments)

# cross_build TARGET: all but singular values, whose library is another matter.
cross_build() {
    local folder=$build/cross/$1 options
    zig_tools "$1"
    static_libraries "$1" "$folder" "${program_libraries[@]}" -- || return 1
    mapfile -t options < <(zig_options "$1" "$folder")
    # Without the list of musl's names Zig links a whole program, which runs where no loader of musl is.
    [[ $1 != *musl* ]] || options+=(-DCMAKE_C_STANDARD_LIBRARIES=)
    PKG_CONFIG_LIBDIR=$folder/libraries/lib/pkgconfig compile "$folder" "${options[@]}" -DOTATTN_SPECTRA=OFF -DOTATTN_TESTS=OFF \
        -DOTATTN_WERROR=ON
}

# cross_run RUNNER PROGRAM
cross_run() {
    case $1 in
        native) "$2" ;;
        wine) WINEDEBUG=-all WINEPREFIX=$build/cross/wine /usr/lib/wine/wine64 "$2" ;;
        none) python3 scripts/mach_o.py "$2" ;;
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
    "$build/zig/$1/cc" -std=c11 -O1 -DTEST_ALONE -ffp-contract=off "${static[@]}" -Itests/bare -Itests/support -Itests -Iinclude \
        -Isrc "$3" tests/reference/*.c "$folder/libotattn_analysis.a" "$folder/$library" -lm -o "$folder/$name.exe" &&
        cross_run "$2" "$folder/$name.exe"
}

# cross_commands TARGET RUNNER: the program's commands beside this machine's, or what the files of a system that cannot run say.
cross_commands() {
    local folder=$build/cross/$1
    case $2 in
        native) "$build/venv/bin/python" scripts/cross_commands.py "$program" "$folder/otattn" ;;
        wine)
            export WINEDEBUG=-all WINEPREFIX=$build/cross/wine
            "$build/venv/bin/python" scripts/cross_commands.py "$program" "$folder/otattn.exe" /usr/lib/wine/wine64 &&
                cross_dll "$1"
            ;;
        none) python3 scripts/mach_o.py "$folder"/libotattn.0.*.dylib cmake/otattn.map && python3 scripts/mach_o.py "$folder/otattn" ;;
        *) "$build/venv/bin/python" scripts/cross_commands.py "$program" "$folder/otattn" "$2" ;;
    esac
}

# cross_dll TARGET: the DLL shows the names of its list, and is used by its import library.
cross_dll() {
    local folder=$build/cross/$1
    python3 scripts/dll_exports.py "$folder/libotattn.dll" cmake/otattn.map &&
        "$build/zig/$1/cc" -std=c11 -DOTATTN_SHARED -Iinclude examples/quickstart.c "$folder/libotattn.dll.a" -lm -o "$folder/by_dll.exe" &&
        cross_run wine "$folder/by_dll.exe"
}

# cross [TARGET...]
cross() {
    local row target runner name source venv=$build/venv-cross
    must_have_python_packages scripts/requirements-cross.txt
    for row in "${cross_targets[@]}"; do
        target=${row%%:*} runner=${row#*:}
        [ $# -eq 0 ] || [[ " $* " == *" $target "* ]] || continue
        say "building for $target"
        zig_cache "$target"
        step "cross-$target" cross_build "$target"
        [[ $(tail -n 1 "$steps") == *$'\tpassed\t'* ]] || continue
        for source in examples/quickstart.c "${cross_tests[@]}"; do
            name=$(basename "$source" .c)
            [ -f "$source" ] || source=$(echo tests/*/"$name.c")
            step "cross-$target-$name" cross_test "$target" "$runner" "$source"
        done
        step "cross-$target-commands" cross_commands "$target" "$runner"
    done
    unset CCACHE_COMPILERCHECK # what the machine's own compiler makes next is another's
}

# smoke_sources TARGET: those that hold words of its system. Of Windows, where a long has 32 bits and whose C library is farthest from
# POSIX, and of ARM, where a size has 32, all of the library and of models that compiles without definitions of its own.
smoke_sources() {
    local systems
    case $1 in
        *linux*) systems='posix|linux' ;;
        *macos*) systems='posix|bsd' ;;
        *) systems=windows ;;
    esac
    find src/base -name '*.c' ! -name 'system_*' ! -name fault.c
    find src/base -name 'system_*.c' | grep -E "_($systems)\.c$"
    [[ $1 != *windows* && $1 != arm-* ]] || find src/* models -name '*.c' ! -path 'src/base/*' ! -path 'src/backend/*' ! -path 'models/kernels/*'
}

# cross_smoke TARGET: warnings of Zig's clang, which is newer than Debian's, what the target lacks, and headers that are otherwise than
# tests/abi/abi.txt says; no code is kept.
cross_smoke() {
    local source header sources folder=$build/zig/$1/include definitions=() failed=0
    zig_tools "$1" || return 1
    [[ $1 != *windows* ]] || definitions=(-DOTATTN_BUILD)
    for header in include/*.h; do printf '#include <%s>\n' "${header#include/}"; done | grep -v otattn_mpi >"$build/zig/$1/headers.c"
    mkdir -p "$folder"
    cp /usr/include/{jansson,jansson_config,pcre2,utf8proc}.h "$folder" || return 1 # of this machine, but the same on every system
    mapfile -t sources < <(smoke_sources "$1")
    sources+=("$build/zig/$1/headers.c")
    python3 scripts/check_abi.py --assertions >"$build/zig/$1/abi.c" && sources+=("$build/zig/$1/abi.c") || failed=1
    for source in "${sources[@]}"; do
        "$build/zig/$1/cc" -std=c11 -O0 -Wall -Wextra -Wpedantic -Wconversion -Werror "${definitions[@]}" -Iinclude -Isrc -I. -isystem "$folder" -c "$source" \
            -o "$build/zig/$1/smoke.o" || failed=1
    done
    return $failed
}

# cross_smokes: every target, as far as a minute of a processor goes; ./dev cross does the rest.
cross_smokes() {
    local row
    need "${packages_build[@]}"
    must_have_python_packages scripts/requirements-zig.txt
    new_steps cross
    for row in "${cross_targets[@]}"; do
        step "smoke-${row%%:*}" cross_smoke "${row%%:*}"
    done
    count_results "$steps"
}

do_cross() {
    if [ "${1:-}" = smoke ]; then
        cross_smokes
        return
    fi
    need "${packages_cross[@]}"
    [ -x "$program" ] || build_all -DOTATTN_TESTS=OFF
    must_have_python_packages tests/requirements.txt
    new_steps cross
    cross "$@"
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_cross "$@"
