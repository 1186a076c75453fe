#!/usr/bin/env bash
# ./dev wheels [--again] [TARGET...]: wheels of the Python package for other systems, with models and the program, and the sources,
# from this machine; but for Windows each twice: for every Python from 3.11 on, and for Python 3.13 without its lock. --again: once more from a copy of the tree and without a compiler cache, and the bytes are compared.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/dev/cross.sh
source "$(dirname "${BASH_SOURCE[0]}")/cross.sh"
# shellcheck source=scripts/dev/wine.sh
source "$(dirname "${BASH_SOURCE[0]}")/wine.sh"

# target of Zig : platforms of the wheel : what it runs under here (wheel_runs) : platform of NumPy's wheel whose headers are taken,
# none where this machine's say the same
wheel_targets=(
    "x86_64-linux-gnu.2.17:manylinux_2_17_x86_64.manylinux2014_x86_64:amd64:"
    "aarch64-linux-gnu.2.17:manylinux_2_17_aarch64.manylinux2014_aarch64:arm64:"
    "x86_64-linux-musl:musllinux_1_2_x86_64:amd64:"
    "aarch64-linux-musl:musllinux_1_2_aarch64:arm64:"
    "x86_64-windows-gnu:win_amd64:wine:win_amd64"
    "aarch64-macos.11.0:macosx_11_0_arm64:none:macosx_11_0_arm64"
    "x86_64-macos.11.0:macosx_11_0_x86_64:none:macosx_10_9_x86_64"
)
# Debian's source of the Python whose limited interface wheels use: headers and exports of Windows.
python_source="Python-3.11.2 http://deb.debian.org/debian/pool/main/p/python3.11/python3.11_3.11.2.orig.tar.gz 2411c74bda5bbcfcddaf4531f66d1adc73f247f529aee981b029513aefdbf849"
# The same of a Python that can do without its lock, for which there is no limited interface.
free_source="Python-3.13.5 http://deb.debian.org/debian/pool/main/p/python3.13/python3.13_3.13.5.orig.tar.xz 93e583f243454e6e9e4588ca2c2662206ad961659863277afcdb96801647d640"

# Tests of the package (tests/python/package) that run where PyPI has NumPy, SciPy and little else; not under emulation those that start
# processes, which it cannot, or take ten minutes there.
tests_of_wheels=(bounded evolution heads threads_of_python)
tests_of_wheels_native=(assignment cluster model other_systems)
tests_of_wheels_wine=(interrupt package_program tracking)

# numpy_headers PLATFORM: prints their folder, of the version that is installed here.
numpy_headers() {
    local python=$build/venv-python/bin/python folder=$build/wheels/numpy-$1
    if [ -z "$1" ]; then
        "$python" -c 'import numpy; print(numpy.get_include())'
        return
    fi
    if [ ! -e "$folder/numpy" ]; then
        "$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.11 --platform "$1" \
            -d "$folder" "numpy==$("$python" -c 'import numpy; print(numpy.__version__)')" >&2 &&
            "$python" -m zipfile -e "$folder"/numpy-*.whl "$folder" || return 1
    fi
    printf '%s\n' "$folder/numpy/_core/include"
}

# source_of_python "NAME ADDRESS SHA256": into sources-python/NAME.
source_of_python() {
    local name address sha256
    read -r name address sha256 <<<"$1"
    [ -d "$build/sources-python/$name" ] || python3 scripts/libraries/fetch_library.py "$address" "$sha256" "$build/sources-python"
}

# free_headers: prints the folders of those of a Python without its lock: what its configuration says of 64 bits this machine's says,
# too; objects are the same as with headers of an interpreter that was built so.
free_headers() {
    local folder=$build/wheels/python-free
    source_of_python "$free_source" && mkdir -p "$folder" || return 1
    printf '#include "%s/pyconfig.h"\n#define Py_GIL_DISABLED 1\n' "$(python_headers linux)" >"$folder/pyconfig.h"
    printf '%s\n' "$folder;$build/sources-python/${free_source%% *}/Include"
}

# python_headers TARGET: prints their folder. Of Linux and macOS this machine's serve: the limited interface on 64 bits is one.
python_headers() {
    local folder=$build/wheels/python-windows name
    if [[ $1 != *windows* ]]; then
        "$build/venv-python/bin/python" -c 'import sysconfig; print(sysconfig.get_path("include"))'
        return
    fi
    name=${python_source%% *}
    if [ ! -e "$folder/libpython3.a" ]; then
        source_of_python "$python_source" || return 1
        mkdir -p "$folder"
        cp -r "$build/sources-python/$name"/Include/. "$build/sources-python/$name/PC/pyconfig.h" "$folder" &&
            python3 scripts/python_exports.py "$build/sources-python/$name/PC/python3dll.c" "$folder/python3.def" &&
            "$build/zig/$1/dlltool" -m i386:x86-64 -d "$folder/python3.def" -l "$folder/libpython3.a" || return 1
    fi
    printf '%s\n' "$folder"
}

# wheel_of TARGET PLATFORMS NUMPY FOLDER: of the tree that one stands in, into FOLDER.
wheel_of() {
    local folder=$4/$1 libraries=$build/cross/$1 headers numpy options
    zig_tools "$1"
    static_libraries "$1" "$libraries" "${program_libraries[@]}" -- || return 1
    headers=$(python_headers "$1") && numpy=$(numpy_headers "$3") || return 1
    mapfile -t options < <(zig_options "$1" "$libraries")
    options+=(-DCMAKE_SHARED_LINKER_FLAGS=-s -DCMAKE_MODULE_LINKER_FLAGS=-s -DCMAKE_EXE_LINKER_FLAGS=-s)
    [[ $1 != *windows* ]] || options+=("-DOTATTN_PYTHON_LIBRARY=$headers/libpython3.a")
    # Warnings are errors as in ./dev cross, whose objects are the same.
    options+=(-DOTATTN_PYTHON=ON -DOTATTN_TESTS=OFF -DOTATTN_WERROR=ON -DOTATTN_CHARTS="$charts" -DOTATTN_PAGES_PROGRAM="$program"
        -DSKBUILD_SCRIPTS_DIR=scripts -DSKBUILD_DATA_DIR=data "-DPython_EXECUTABLE=$build/venv-python/bin/python")
    local -x PKG_CONFIG_LIBDIR=$libraries/libraries/lib/pkgconfig
    packed "$folder" "cp311-abi3-$2" "${options[@]}" -DOTATTN_PYTHON_SUFFIX= "-DOTATTN_PYTHON_INCLUDE=$headers;$numpy" || return 1
    # The names that python313t.dll exports stand in no list of its source.
    [[ $1 != *windows* ]] || return 0
    headers=$(free_headers) || return 1
    packed "$folder" "cp313-cp313t-$2" "${options[@]}" -DOTATTN_PYTHON_SUFFIX=.so "-DOTATTN_PYTHON_INCLUDE=$headers;$numpy"
}

# packed FOLDER TAG OPTION...: a wheel beside FOLDER, where it is built.
packed() {
    local stage
    stage=$(dirname "$1")/stage-$(basename "$1")
    configure "$1" "${@:3}" && make_targets "$1" otattn_package || return 1
    rm -rf "$stage"
    cmake --install "$1" --component python --prefix "$stage" >>"$log/compile-$(basename "$1")" || return 1
    "$build/venv-python/bin/python" scripts/make_wheel.py "$stage" "$2" "$(dirname "$1")" "$build/sources"
}

# wheel_again TARGET PLATFORMS NUMPY FILE...: every object compiled anew, in another place; the same bytes.
wheel_again() (
    local copy=$build/wheels/again file
    rm -rf "$copy"
    mkdir -p "$copy/tree"
    tar -c --exclude='./build*' --exclude=./.git . | tar -x -C "$copy/tree" && cd "$copy/tree" || return 1
    CCACHE_DISABLE=1 wheel_of "$1" "$2" "$3" "$copy" || return 1
    for file in "${@:4}"; do cmp "$file" "$copy/$(basename "$file")" || return 1; done
    rm -rf "$copy"
)

# wheel_is_sound FILE: the C library that its tag promises is all that it needs, of CPython the limited interface alone.
wheel_is_sound() {
    local tools=$build/venv-python/bin shown libc=manylinux_2_17
    "$tools/check-wheel-contents" "$1" || return 1
    if [[ $1 == *linux* ]]; then
        [[ $1 != *musl* ]] || libc=musllinux_1_2
        shown=$(PATH=$tools:$PATH "$tools/auditwheel" show "$1") || return 1
        printf '%s\n' "$shown"
        [[ $shown == *'platform tag:'*$libc* ]] || return 1
    fi
    [[ $1 != *abi3* ]] || "$build/venv-cross/bin/abi3audit" --strict "$1"
}

# bare_debian ARCHITECTURE RELEASE: prints the folder of a Debian that has Python, NumPy's C++ library, musl's loader and what these need.
bare_debian() {
    local root=$build/wheels/debian-$1-$2
    if [ ! -e "$root/usr/bin/python3" ]; then
        as_root rm -rf "$root"
        as_root mmdebstrap --variant=extract --mode=root --architectures="$1" --include=python3,libstdc++6,musl "$2" "$root" >&2 || return 1
        # Releases that have all of it in /usr leave the links to others.
        as_root mkdir -p "$root/opt"
        [ -e "$root/lib" ] || as_root ln -s usr/lib usr/lib64 "$root" || return 1
    fi
    printf '%s\n' "$root"
}

# in_debian ROOT PROGRAM ARGUMENT...: in a chroot, or under emulation with that root.
in_debian() {
    if [[ $(basename "$1") == *-amd64-* ]]; then
        # Loaders find by /proc where a program lies.
        # shellcheck disable=SC2016
        as_root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 PYTHONPATH=/opt/otattn unshare --mount \
            sh -c 'mkdir -p "$0/proc" && mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$@"
    else
        env -i PATH=/usr/bin LANG=C.UTF-8 PYTHONHOME=/usr PYTHONPATH=/opt/otattn qemu-aarch64 -L "$1" "$1$2" "${@:3}"
    fi
}

# frozen_python ROOT TARGET PLATFORM ABI: into ROOT/opt/python the Python 3.13 that PyPI's freeze-core has: an executable, whose modules of
# C lie in lib beside it and which runs what lies there as __startup__; what is written in Python is Debian's.
frozen_python() {
    local folder=$build/wheels/python-$4-$3
    if [ ! -e "$folder/freeze_core/lib/library.dat" ]; then
        rm -rf "$folder"
        "$build/venv-python/bin/python" -m pip download -q --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.13 \
            --abi "$4" --platform "$3" -d "$folder" -r scripts/requirements-frozen.txt &&
            "$build/venv-python/bin/python" -m zipfile -e "$folder"/freeze_core-*.whl "$folder" || return 1
        mv "$folder"/freeze_core/bases/console-cpython-* "$folder/freeze_core/python3" && chmod +x "$folder/freeze_core/python3" &&
            ln -s freeze_core.libs "$folder/lib" || return 1
        # Modules of musl need this alone of what its systems have beside it.
        if [[ $3 == musllinux* ]]; then
            "$build/zig/$2/cc" -shared -O1 -w -Wl,-soname,libz.so.1 "$build"/sources/zlib-*/[!g]*.c -o "$folder/lib/libz.so.1" || return 1
        fi
        printf '../../../../usr/lib/python3.13' >"$folder/freeze_core/lib/library.dat"
    fi
    as_root rm -rf "$1/opt/python" && as_root cp -r "$folder" "$1/opt/python" &&
        as_root cp scripts/frozen_python.py "$1/opt/python/freeze_core/lib/__startup__.py"
}

# wheel_into ROOT VERSION ABI "PLATFORM..." FILE [PACKAGE...]: for a Python of that version, with the packages and NumPy's wheel for that
# system, by their tags; beside it what is needed to use it.
wheel_into() {
    local platform platforms=()
    for platform in $4; do platforms+=(--platform "$platform"); done
    as_root rm -rf "$1/opt/otattn" "$1/opt/run" "$1/opt/demo" && as_root cp -r data/demo scripts/use_wheel.py "$1/opt" &&
        as_root "$build/venv-python/bin/pip" install -q --disable-pip-version-check --no-compile --target "$1/opt/otattn" \
            --only-binary=:all: --python-version "$2" --implementation cp --abi "$3" "${platforms[@]}" "${@:5}"
}

# wheel_tests ROOT: in that Python, which starts where the module is.
wheel_tests() {
    local name names=() more=()
    [[ $(basename "$1") != *-amd64-* ]] || more=("${tests_of_wheels_native[@]}")
    for name in "${tests_of_wheels[@]}" "${more[@]}"; do names+=("/opt/tree/tests/python/package/test_$name.py"); done
    as_root rm -rf "$1/opt/tree" && as_root mkdir "$1/opt/tree" && as_root cp -r --parents pyproject.toml tests/python data/demo "$1/opt/tree" &&
        in_debian "$1" /opt/python/freeze_core/python3 -m pytest -q -p no:cacheprovider -c /opt/tree/pyproject.toml "${names[@]}"
}

# wheel_in_wine FILE: used by a Python of Windows, and the tests.
wheel_in_wine() {
    local target=x86_64-windows-gnu files=("${tests_of_wheels[@]}" "${tests_of_wheels_native[@]}" "${tests_of_wheels_wine[@]}")
    source_of_python "$python_source" && wine_python "$target" "$build/sources-python/${python_source%% *}" || return 1
    rm -rf "$build/wheels/wine-otattn"
    "$build/venv-python/bin/pip" install -q --disable-pip-version-check --no-compile --no-deps --target "$build/wheels/wine-otattn" \
        --only-binary=:all: --python-version 3.11 --implementation cp --platform win_amd64 "$1" || return 1
    files=("${files[@]/#/tests/python/package/test_}")
    in_wine scripts/use_wheel.py data/demo/model && in_wine -m otattn --version && in_wine -m pytest -p no:cacheprovider -q "${files[@]/%/.py}"
}

# wheel_runs FILE RUNNER: used where its system can be had.
wheel_runs() {
    local root folder file machine=x86_64 abi=cp313 platforms packages=() run=/opt/run
    folder=$build/wheels/unpacked
    rm -rf "$folder"
    if [ "$2" = none ] || [ "$2" = wine ]; then
        "$build/venv-python/bin/python" -m zipfile -e "$1" "$folder" || return 1
    fi
    case $2 in
        wine)
            WINEDEBUG=-all WINEPREFIX=$build/cross/wine "$build/venv/bin/python" scripts/cross_commands.py "$program" "$folder/otattn/otattn.exe" \
                /usr/lib/wine/wine64 && wheel_in_wine "$1"
            return
            ;;
        none)
            for file in "$folder"/otattn/*.dylib "$folder"/otattn/_native*.so "$folder/otattn/bin/otattn"; do
                python3 scripts/mach_o.py "$file" || return 1
            done
            return
            ;;
    esac
    [ "$2" = amd64 ] || machine=aarch64
    platforms="manylinux_2_17_$machine manylinux_2_27_$machine manylinux_2_28_$machine"
    [[ $1 != *musl* ]] || platforms=musllinux_1_2_$machine
    # Debian has no Python on musl, and none without its lock. That of freeze-core needs a newer musl than the program.
    if [[ $1 == *musl* || $1 == *cp313t* ]]; then
        [[ $1 != *cp313t* ]] || abi=cp313t
        # hypothesis has no wheel for a Python without its lock.
        [[ $1 == *cp313t* ]] || mapfile -t packages < <(grep -hE '^(hypothesis|numpy|pytest|safetensors|scipy)==' tests/requirements.txt)
        root=$(bare_debian "$2" trixie) && frozen_python "$root" "$machine-linux-musl" "${platforms%% *}" "$abi" &&
            wheel_into "$root" 3.13 "$abi" "$platforms" "$1" "${packages[@]}" &&
            in_debian "$root" /opt/python/freeze_core/python3 /opt/use_wheel.py /opt/demo/model || return 1
        # Of a wheel without the lock the libraries and the program are the other's.
        [[ $1 != *cp313t* ]] || return 0
        wheel_tests "$root" || return 1
    fi
    root=$(bare_debian "$2" bookworm) && wheel_into "$root" 3.11 cp311 "$platforms" "$1" || return 1
    if [ "$2" != amd64 ]; then
        # Under emulation files are read from that root where it has them, and written to this machine's.
        run=$build/wheels/run
        rm -rf "$run"
    fi
    if [[ $1 != *musl* ]]; then
        in_debian "$root" /usr/bin/python3.11 /opt/use_wheel.py /opt/demo/model || return 1
    fi
    in_debian "$root" /opt/otattn/otattn/bin/otattn --version && in_debian "$root" /opt/otattn/otattn/bin/otattn verify --only 'CETA*' &&
        in_debian "$root" /opt/otattn/otattn/bin/otattn analyze /opt/demo/model /opt/demo/paragraph.txt --windows 1x32 -o "$run"
}

# tried NAME FILE RUNNER: steps for a wheel.
tried() {
    local name=$1
    [[ $2 != *cp313t* ]] || name+=-free
    step "$name-sound" wheel_is_sound "$2"
    step "$name-runs" wheel_runs "$2" "$3"
}

# sources_of_package FOLDER
sources_of_package() {
    "$build/venv-python/bin/python" -c 'import sys, scikit_build_core.build; print(scikit_build_core.build.build_sdist(sys.argv[1]))' "$1"
}

do_wheels() {
    local row target platforms runner numpy file files again='' charts="" venv=$build/venv-python
    if [ "${1:-}" = --again ]; then
        again=yes
        shift
    fi
    need "${packages_cross[@]}" "${packages_wheels[@]}"
    [ -x "$program" ] || build_all -DOTATTN_TESTS=OFF
    make_targets "$build" otattn_program || die "the program was not built, which prints the pages"
    venv=$build/venv must_have_python_packages tests/requirements.txt
    must_have_python_packages python/requirements-test.txt
    venv=$build/venv-cross must_have_python_packages scripts/requirements-cross.txt
    if venv=$build/venv make_charts; then charts=$build/charts.js; fi
    export SOURCE_DATE_EPOCH=315532800
    new_steps wheels
    for row in "${wheel_targets[@]}"; do
        IFS=: read -r target platforms runner numpy <<<"$row"
        [ $# -eq 0 ] || [[ " $* " == *" $target "* ]] || continue
        say "building the wheel for $target"
        zig_cache "$target"
        venv=$build/venv-cross step "wheel-$target" wheel_of "$target" "$platforms" "$numpy" "$build/wheels"
        [[ $(tail -n 1 "$steps") == *$'\tpassed\t'* ]] || continue
        mapfile -t files < <(ls "$build"/wheels/otattn-*-"$platforms".whl)
        for file in "${files[@]}"; do
            tried wheel-"$target" "$file" "$runner"
        done
        [ -z "$again" ] || venv=$build/venv-cross step "wheel-$target-again" wheel_again "$target" "$platforms" "$numpy" "${files[@]}"
    done
    if [ $# -eq 0 ]; then
        step sdist sources_of_package "$build/wheels"
        step sdist-again sources_of_package "$build/wheels/again"
        step sdist-same-bytes cmp "$build"/wheels/otattn-*.tar.gz "$build"/wheels/again/otattn-*.tar.gz
    fi
    (cd "$build/wheels" && sha256sum otattn-*.*) >"$build/wheels/SHA256SUMS"
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_wheels "$@"
