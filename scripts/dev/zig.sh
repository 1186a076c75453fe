#!/usr/bin/env bash
# What builds for another system: Zig's clang as commands of one word, and what models and program stand on as static libraries of
# Debian's sources (scripts/libraries/libraries.txt).
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# shellcheck disable=SC2034 # of the scripts that build the program
program_libraries=(jansson pcre2 utf8proc zlib libzip libmd)

# zig_tools TARGET: writes the commands that cmake/zig.cmake names, unless they are there. A program of macOS would show the names
# of its archives.
zig_tools() {
    local zig tool words text folder=$build/zig/$1
    zig=$("$venv/bin/python" -c 'import pathlib, ziglang; print(pathlib.Path(ziglang.__file__).parent / "zig")')
    mkdir -p "$folder"
    for tool in cc ar ranlib dlltool; do
        words=$tool
        [ $tool != cc ] || words="cc -target $1"
        text=$(printf '#!/bin/sh\nexec "%s" %s "$@"' "$zig" "$words")
        # shellcheck disable=SC2016
        [[ $1/$tool != *macos*/ar ]] || text=$(printf '#!/bin/sh\n"%s" ar "$@" && exec python3 "%s/scripts/mach_o.py" --hide "$2"' "$zig" "$PWD")
        [ "$(cat "$folder/$tool" 2>/dev/null)" != "$text" ] || continue
        printf '%s\n' "$text" >"$folder/$tool"
        chmod +x "$folder/$tool"
    done
    [[ $1 != *-musl* ]] || musl_stub "$zig" "$1" "$folder/libc.so"
}

# musl_stub ZIG TARGET FILE: the names of musl, for the linker alone, out of Zig's list of them. Zig calls the C library libc.so, its
# build's own name; Alpine, whose packages decide, names it by the processor, and what is linked shall need that name. musl's loader
# takes both for itself. All data of the list lie at one place: what is linked shall be position independent, or a linker copies them.
musl_stub() {
    local processor=${2%%-*} words=()
    [ "$3" -nt scripts/dev/zig.sh ] && return
    case $processor in
        arm) processor=armv7 words=(-DARCH_arm -DFAMILY_arm -DTIME32) ;;
        x86_64) words=(-DARCH_x86_64 -DFAMILY_x86 -DPTR64) ;;
        *) words=("-DARCH_$processor" "-DFAMILY_$processor" -DPTR64) ;;
    esac
    "$1" build-lib -dynamic -target "$2" -fno-compiler-rt -fno-ubsan-rt "-fsoname=libc.musl-$processor.so.1" -cflags "${words[@]}" -- \
        "$(dirname "$1")/lib/libc/musl/libc.S" "-femit-bin=$3"
}

# zig_cache TARGET: for compiler caches what compiles is the package and the target, since the command is new on a clean machine.
zig_cache() {
    export CCACHE_COMPILERCHECK
    CCACHE_COMPILERCHECK="string:$(tail -n 1 scripts/requirements-zig.txt) $1"
}

# zig_options TARGET FOLDER: what CMake is told, a line each. Libraries of FOLDER are found, those of this machine are not.
zig_options() {
    printf '%s\n' "-DCMAKE_TOOLCHAIN_FILE=$PWD/cmake/zig.cmake" "-DOTATTN_TARGET=$1" "-DOTATTN_ZIG=$build/zig/$1" \
        "-DCMAKE_FIND_ROOT_PATH=$2/libraries"
}

# static_libraries TARGET FOLDER NAME... -- OPTION...: those of the names, in FOLDER/libraries; made once.
static_libraries() {
    local target=$1 folder=$2 wanted=() name address sha256 stamp
    shift 2
    while [ "$1" != -- ]; do
        wanted+=("$1")
        shift
    done
    shift
    mkdir -p "$build/sources"
    while read -r name address sha256; do
        [[ " ${wanted[*]} " == *" ${name%%-*} "* ]] || continue
        stamp=$folder/made-$name-$( (cat cmake/zig.cmake scripts/libraries/*.txt scripts/requirements-zig.txt && printf '%s\n' "$@") |
            sha256sum | cut -c1-16)
        [ ! -e "$stamp" ] || continue
        say "building $name for $target"
        static_library "$target" "$folder" "$name" "$address" "$sha256" "$@" >"$log/library-$target-$name" 2>&1 </dev/null || {
            say "$name was not built; see $log/library-$target-$name"
            return 1
        }
        touch "$stamp"
    done <scripts/libraries/libraries.txt
}

# static_library TARGET FOLDER NAME ADDRESS SHA256 OPTION...
static_library() {
    local folder=$2 name=$3 source=$build/sources/$3 option options
    mapfile -t options < <(zig_options "$1" "$2")
    options+=(-DCMAKE_INSTALL_PREFIX="$folder/libraries" -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release
        -DCMAKE_C_VISIBILITY_PRESET=hidden -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON
        -DCMAKE_C_FLAGS="-w -Wno-incompatible-function-pointer-types" "${@:6}")
    [ -d "$source" ] || python3 scripts/libraries/fetch_library.py "$4" "$5" "$build/sources" || return 1
    case $name in
        jansson*) options+=(-DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF) ;;
        pcre2*) options+=(-DPCRE2_BUILD_PCRE2GREP=OFF -DPCRE2_BUILD_TESTS=OFF) ;;
        libzip*)
            options+=(-DBUILD_TOOLS=OFF -DBUILD_REGRESS=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOC=OFF)
            for option in COMMONCRYPTO GNUTLS MBEDTLS OPENSSL WINDOWS_CRYPTO BZIP2 LZMA; do options+=("-DENABLE_$option=OFF"); done
            ;;
        libmd* | zlib*)
            [[ $name == zlib* ]] && options+=(-DLIBRARY=z) || options+=(-DLIBRARY=md)
            options+=(-DLIBRARY_SOURCE="$source")
            source=scripts/libraries
            ;;
    esac
    # What an older layout left there is of another source.
    rm -rf "${folder:?}/$name"
    cmake -S "$source" -B "$folder/$name" "${options[@]}" &&
        cmake --build "$folder/$name" -j "$jobs" && cmake --install "$folder/$name"
}
