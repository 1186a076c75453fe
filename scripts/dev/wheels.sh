#!/usr/bin/env bash
# ./dev wheels: wheels of the Python package for Linux on x86-64 and ARM, of glibc and musl, and the sources, from this machine.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/dev/cross.sh
source "$(dirname "${BASH_SOURCE[0]}")/cross.sh"

# target of Zig : platforms of the wheel
wheel_targets=(
    "x86_64-linux-gnu.2.17:manylinux_2_17_x86_64.manylinux2014_x86_64"
    "aarch64-linux-gnu.2.17:manylinux_2_17_aarch64.manylinux2014_aarch64"
    "x86_64-linux-musl:musllinux_1_2_x86_64"
    "aarch64-linux-musl:musllinux_1_2_aarch64"
)

# wheel_of TARGET PLATFORMS: the limited interface of CPython is the same for all Linux of 64 bits, so this machine's headers do.
wheel_of() {
    local folder=$build/wheels/$1 stage=$build/wheels/stage-$1 python=$build/venv-python/bin/python
    zig_tools "$1"
    compile "$folder" -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/zig.cmake" -DOTATTN_TARGET="$1" -DOTATTN_ZIG="$build/cross/zig-$1" \
        -DOTATTN_PYTHON=ON -DOTATTN_PROGRAM=OFF -DOTATTN_MODEL=OFF -DOTATTN_TESTS=OFF -DSKBUILD_SCRIPTS_DIR=scripts \
        -DCMAKE_SHARED_LINKER_FLAGS=-s -DCMAKE_MODULE_LINKER_FLAGS=-s -DPython_EXECUTABLE="$python" \
        -DPython_INCLUDE_DIR="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" \
        -DPython_NumPy_INCLUDE_DIR="$("$python" -c 'import numpy; print(numpy.get_include())')" || return 1
    rm -rf "$stage"
    cmake --install "$folder" --component python --prefix "$stage" >>"$log/compile-$(basename "$folder")" || return 1
    "$python" scripts/make_wheel.py "$stage" "cp311-abi3-$2" "$build/wheels"
}

# wheel_is_sound FILE: the C library that its tag promises is all that it needs, of CPython the limited interface alone.
wheel_is_sound() {
    local venv=$build/venv-python shown
    "$venv/bin/check-wheel-contents" "$1" || return 1
    if [[ $1 == *manylinux* ]]; then
        shown=$(PATH=$venv/bin:$PATH "$venv/bin/auditwheel" show "$1") || return 1
        printf '%s\n' "$shown"
        [[ $shown == *'platform tag:'*manylinux_2_17* ]] || return 1
    fi
    "$build/venv-cross/bin/abi3audit" --strict "$1"
}

# wheel_runs FILE: in an environment of its own.
wheel_runs() {
    local fresh=$build/wheels/fresh
    rm -rf "$fresh"
    "$build/venv-python/bin/python" -m venv "$fresh" && "$fresh/bin/pip" install -q --disable-pip-version-check "$1" || return 1
    "$fresh/bin/python" -c 'import numpy, otattn
x = numpy.random.default_rng(0).standard_normal((2, 3, 16, 8))
print(otattn.get_num_threads(), otattn.coupling(x, x, method="softmax/exact").sum(-2)[0, 0])'
}

do_wheels() {
    local row target file before venv=$build/venv-python
    must_have_python_packages python/requirements-test.txt
    venv=$build/venv-cross must_have_python_packages scripts/requirements-cross.txt
    new_steps wheels
    for row in "${wheel_targets[@]}"; do
        target=${row%%:*}
        [ $# -eq 0 ] || [[ " $* " == *" $target "* ]] || continue
        say "building the wheel for $target"
        step "wheel-$target" wheel_of "$target" "${row#*:}"
        file=$(ls "$build"/wheels/otattn-*-"${row#*:}".whl)
        step "wheel-$target-sound" wheel_is_sound "$file"
        [ "$target" != x86_64-linux-gnu.2.17 ] || step "wheel-$target-runs" wheel_runs "$file"
        before=$(sha256sum "$file")
        rm -rf "$build/wheels/$target"
        step "wheel-$target-again" wheel_of "$target" "${row#*:}"
        step "wheel-$target-same-bytes" test "$before" = "$(sha256sum "$file")"
    done
    if [ $# -eq 0 ]; then
        step sdist "$venv/bin/python" -c 'import sys, scikit_build_core.build; scikit_build_core.build.build_sdist(sys.argv[1])' "$build/wheels"
    fi
    (cd "$build/wheels" && sha256sum otattn-*) >"$build/wheels/SHA256SUMS"
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_wheels "$@"
