#!/usr/bin/env bash
# ./dev neon: the library built for 64-bit ARM, its kernel tests under emulation.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# arm_test NAME: one C test, static, under emulation; without what CMakeLists.txt turns off for gcc 12, too.
arm_test() {
    aarch64-linux-gnu-gcc -std=c11 -O2 -DTEST_ALONE -fno-tree-loop-vectorize -ffp-contract=off -static -Itests/bare -Itests/support -Itests -Iinclude -Isrc \
        tests/*/"$1.c" "$build/neon/libotattn.a" -lm -lpthread -o "$build/neon/$1" &&
        OTATTN_TEST_FIRST_LEVEL=1 qemu-aarch64 "$build/neon/$1"
}

do_neon() {
    local name
    need "${packages_neon[@]}"
    new_steps neon
    say "building for 64-bit ARM and running the kernel tests under emulation"
    step neon-build compile "$build/neon" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
        -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DOTATTN_PROGRAM=OFF -DOTATTN_SPECTRA=OFF \
        -DOTATTN_TESTS=OFF -DOTATTN_WERROR=ON
    for name in test_kernels test_exp2 test_power test_cache; do step "neon-$name" arm_test "$name"; done
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_neon "$@"
