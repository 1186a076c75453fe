#!/usr/bin/env bash
# ./dev dump: digests of the outputs of random cases against the kept ones.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# dump_build SOURCE FOLDER: that source tree's library in FOLDER, and on it the program of this tree's tests/dump.
dump_build() {
    local source=$1 folder=$2
    need gcc libc6-dev make cmake
    say "building the library of $source and the digests' program on it"
    if ! {
        cmake -S "$source" -B "$folder" -DOTATTN_TESTS=OFF -DOTATTN_PROGRAM=OFF -DOTATTN_SPECTRA=OFF -DOTATTN_MODEL=OFF &&
            cmake --build "$folder" -j "$jobs" --target otattn_static &&
            "${CC:-cc}" -std=c11 -O2 -Wall -Wextra -ffp-contract=off -I "$source/include" tests/dump/*.c \
                "$folder/libotattn.a" -lm -lpthread -o "$folder/dump"
    } >"$log/compile-dump" 2>&1; then
        tail -n 30 "$log/compile-dump" >&2
        die "the build failed; see $log/compile-dump"
    fi
}

do_dump() {
    local kept=tests/dump/kept.txt processes=$((jobs < 64 ? jobs : 64)) folder
    dump_build . "$build/dump"
    say "running the random cases at every kernel level"
    case ${1:-} in
        --write) "$build/dump/dump" --processes $processes --write "$kept" "${@:2}" ;;
        --against)
            folder=$build/dump-$(git rev-parse --verify --short=12 "${2:?--against needs a commit}^{commit}")
            rm -rf "$folder/source"
            mkdir -p "$folder/source"
            git archive "$2" | tar -x -C "$folder/source"
            dump_build "$folder/source" "$folder"
            say "running them on the library of $2, then on this one"
            "$folder/dump" --processes $processes --write "$folder/digests" --parts "${@:3}"
            "$build/dump/dump" --processes $processes --compare "$folder/digests" "${@:3}"
            ;;
        --explain | --statistics) "$build/dump/dump" --processes $processes "$@" ;;
        *) "$build/dump/dump" --processes $processes --compare "$kept" "$@" ;;
    esac
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_dump "$@"
