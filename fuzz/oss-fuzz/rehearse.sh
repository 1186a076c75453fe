#!/usr/bin/env bash
# Does with Dockerfile and build.sh what OSS-Fuzz does, where there is no container engine: its base is a fresh Debian made
# by debootstrap, with clang, in the place of OSS-Fuzz's own. For each sanitizer of project.yaml build.sh runs with the flags
# that OSS-Fuzz gives it for libFuzzer. Then every target runs its seed corpus, and RUNS new inputs, in a second Debian
# that has $OUT and not one package more.
#
#     fuzz/oss-fuzz/rehearse.sh [FOLDER]      as root; in FOLDER (build/oss-fuzz), 1.5 GB
#
# Ends with 'N passed, N failed, N skipped', a target under a sanitizer being one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=$(realpath -m "${1:-build/oss-fuzz}")
runs=${RUNS:-2000}
suite=bookworm
builder=$folder/builder runner=$folder/runner
mkdir -p "$folder"

say() {
    printf '== %s\n' "$*" >&2
}

# inside ROOT COMMAND...: in that Debian, with its own environment, /proc and /dev; what is mounted goes with the command.
inside() {
    local root=$1
    shift
    # shellcheck disable=SC2016
    unshare --mount bash -euc 'root=$1
        shift
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" "$@"' bash "$root" \
        /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

# What follows a word of the Dockerfile, its lines joined.
dockerfile() {
    sed -e ':a' -e '/\\$/{N;s/\\\n//;ba}' fuzz/oss-fuzz/Dockerfile | sed -n "s/^$1 //p"
}

if [ ! -e "$folder/made" ]; then
    say "making two Debians"
    rm -rf "$builder" "$runner"
    debootstrap --variant=minbase "$suite" "$runner" >"$folder/debootstrap.log"
    cp -a "$runner" "$builder"
    # What the base of OSS-Fuzz has.
    inside "$builder" apt-get update -q >"$folder/packages.log"
    inside "$builder" apt-get install -y -q --no-install-recommends clang libclang-rt-14-dev binutils >>"$folder/packages.log"
    touch "$folder/made"
fi

say "the Dockerfile's packages and files"
inside "$builder" sh -c "$(dockerfile RUN)" >>"$folder/packages.log" 2>&1
rm -rf "$builder/src"
mkdir -p "$builder/src/otattn"
git ls-files -z | tar -c --null -T - | tar -x -C "$builder/src/otattn"
cp fuzz/oss-fuzz/build.sh "$builder/src/"

passed=0 failed=0
# As infra/base-images/base-builder of OSS-Fuzz sets them.
common="-O1 -fno-omit-frame-pointer -gline-tables-only -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION -fsanitize=fuzzer-no-link"
undefined=array-bounds,bool,builtin,enum,function,integer-divide-by-zero,null,object-size,return
undefined+=,returns-nonnull-attribute,shift,signed-integer-overflow,unreachable,vla-bound,vptr
declare -A flags=([address]="-fsanitize=address -fsanitize-address-use-after-scope"
    [undefined]="-fsanitize=$undefined,unsigned-integer-overflow -fno-sanitize-recover=$undefined")
mapfile -t sanitizers < <(sed -n '/^sanitizers:/,/^[a-z]*:$/s/^  - //p' fuzz/oss-fuzz/project.yaml)
for sanitizer in "${sanitizers[@]}"; do
    say "build.sh under the sanitizer '$sanitizer'"
    rm -rf "$builder/out" "$builder/work" "$runner/out"
    mkdir -p "$builder/out" "$builder/work"
    if ! inside "$builder" SRC=/src OUT=/out WORK=/work CC=clang CXX=clang++ LIB_FUZZING_ENGINE=-fsanitize=fuzzer \
        CFLAGS="$common ${flags[$sanitizer]}" CXXFLAGS="$common ${flags[$sanitizer]}" SANITIZER="$sanitizer" \
        bash -eu /src/build.sh >"$folder/build-$sanitizer.log" 2>&1; then
        tail -n 20 "$folder/build-$sanitizer.log" >&2
        failed=$((failed + 1))
        continue
    fi
    cp -a "$builder/out" "$runner/out"
    for archive in "$runner"/out/*_seed_corpus.zip; do
        name=$(basename "$archive" _seed_corpus.zip)
        mkdir -p "$runner/out/seeds/$name"
        python3 -m zipfile -e "$archive" "$runner/out/seeds/$name"
    done
    for target in "$runner"/out/fuzz_*; do
        name=$(basename "$target")
        [[ $target != *.zip ]] || continue
        if inside "$runner" UBSAN_OPTIONS=silence_unsigned_overflow=1 "/out/$name" "/out/seeds/$name" -runs="$runs" -seed=1 -rss_limit_mb=2560 -timeout=25 \
            >"$folder/run-$sanitizer-$name.log" 2>&1; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            printf 'FAILED   %s under %s: %s\n' "$name" "$sanitizer" "$folder/run-$sanitizer-$name.log"
        fi
    done
done
printf '%d passed, %d failed, 0 skipped\n' "$passed" "$failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
