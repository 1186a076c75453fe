#!/usr/bin/env bash
# What ./dev and the scripts beside this file share: packages, Python environments, builds, runs of tests and their counts.
# Writes into build/ only; logs lie in build/log/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

build=$PWD/build
log=$build/log
results=$build/results
venv=$build/venv
program=$build/otattn
jobs=${OTATTN_JOBS:-$(nproc)}
mkdir -p "$log" "$results"
# In CI the build that is tested is the one that lint makes, by gcc and with warnings as errors: one build less.
strict=()
[ -z "${OTATTN_STRICT:-}" ] || strict=(-DCMAKE_C_COMPILER=gcc -DOTATTN_WERROR=ON)

# Debian's packages; scripts/bill_of_materials.py reads the arrays packages_*.
# LAPACKE and OpenBLAS: singular values, for libotattn_spectra.
# PCRE2 and utf8proc: tokenizers of models.
packages_build=(gcc g++ libc6-dev make cmake pkg-config libjansson-dev libzip-dev zlib1g-dev libmd-dev
    liblapacke-dev libopenblas-dev libpcre2-dev libutf8proc-dev)
packages_python=(python3 python3-dev python3-venv)
# abigail-tools: abidw, for scripts/check_abi.py.
# shellcheck disable=SC2034 # used by ./dev and the scripts beside this file
packages_test=(libcmocka-dev clang binutils abigail-tools git strace locales)
# shellcheck disable=SC2034
packages_playground=(cmake make pkg-config)
# shellcheck disable=SC2034
packages_neon=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user cmake make)
# shellcheck disable=SC2034
packages_cross=(qemu-user wine64 cmake make)
# mmdebstrap unpacks the Debian that wheels are tried in.
# shellcheck disable=SC2034
packages_wheels=(mmdebstrap)
# shellcheck disable=SC2034
declare -A packages_ranks=([openmpi]="openmpi-bin libopenmpi-dev" [mpich]="mpich libmpich-dev")
# lintian judges Debian's packages, mmdebstrap makes the Debian that they are tried in; nix-bin and ruby read their recipes.
# shellcheck disable=SC2034
packages_debian=(debhelper dh-python dpkg-dev fakeroot lintian mmdebstrap nix-bin ruby python3-dev python3-numpy)
# shellcheck disable=SC2034
packages_lint=(clang-format shellcheck mandoc)
# shellcheck disable=SC2034
packages_fuzz=(clang libclang-rt-14-dev)

# scripts/check_NAME.py that judge the checkout alone.
# shellcheck disable=SC2034
checks=(layers sizes format references manual version)

say() {
    printf '== %s\n' "$*" >&2
}

die() {
    printf 'dev: %s\n' "$*" >&2
    exit 1
}

# ---- installing what is missing ------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "'$*' needs root, and there is no sudo"
    fi
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "$@" >>"$log/apt" 2>&1
}

# need PACKAGE...: the system packages that are not there are installed in CI (CI=true) and where OTATTN_INSTALL says
# so, which `./dev demo` and `./dev test` without a name do; else they are named with the command that installs them.
need() {
    local missing=() package
    # Without dpkg this is no Debian: the compiler will say what it lacks.
    command -v dpkg-query >/dev/null || return 0
    for package in "$@"; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed ||
            missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "${CI:-}" != true ] && [ -z "${OTATTN_INSTALL:-}" ]; then
        die "missing: ${missing[*]}; install with: sudo apt-get install --no-install-recommends ${missing[*]}"
    fi
    say "installing ${missing[*]}"
    # On a fresh machine the package lists are empty or old: the second try has new ones.
    apt_install "${missing[@]}" && return 0
    as_root apt-get update -q >>"$log/apt" 2>&1 || die "apt-get update failed; see $log/apt"
    apt_install "${missing[@]}" || die "apt-get could not install ${missing[*]}; see $log/apt"
}

# python_packages FILE [OPTION...]: puts the pinned packages of a requirements file into the environment.
python_packages() {
    local stamp
    need "${packages_python[@]}"
    stamp=$venv/installed-$(sha256sum "$1" | cut -c1-16)
    [ ! -e "$stamp" ] || return 0
    say "installing the Python packages of $1"
    { [ -x "$venv/bin/pip" ] || python3 -m venv "$venv"; } >>"$log/pip" 2>&1 || return 1
    pip_install "$@" >>"$log/pip" 2>&1 || return 1
    touch "$stamp"
}

# pip_install FILE [OPTION...]: with OTATTN_LOCKED set, the whole environment's packages by their hashes instead.
pip_install() {
    local lock=tests/packages.lock
    case $venv in
        "$build/venv") ;;
        "$build/venv-site") lock=docs/site/packages.lock ;;
        *) lock=python/packages.lock ;;
    esac
    if [ -n "${OTATTN_LOCKED:-}" ]; then set -- "$lock" --require-hashes --no-deps; fi
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "${@:2}" -r "$1"
}

must_have_python_packages() {
    python_packages "$@" || die "pip could not install $1; see $log/pip"
}

# install_package: the Python package of this tree into `venv`.
install_package() {
    say "installing the package"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps --force-reinstall . \
        >>"$log/pip" 2>&1 || die "the package could not be installed; see $log/pip"
}

# ---- building ------------------------------------------------------------------------------------

# Objects that were compiled once come from a compiler cache where there is one; CMake reads the variable.
if [ -z "${CMAKE_C_COMPILER_LAUNCHER+set}" ] && command -v ccache >/dev/null; then
    export CMAKE_C_COMPILER_LAUNCHER=ccache
fi

# configure FOLDER OPTION...: on failure shows what CMake said.
configure() {
    local folder=$1 name
    name=$(basename "$folder")
    shift
    if ! cmake -S . -B "$folder" "$@" >"$log/configure-$name" 2>&1; then
        tail -n 30 "$log/configure-$name" >&2
        return 1
    fi
    # A folder of another compiler is begun anew by CMake, which then forgets the options.
    if grep -q 'require your cache to be deleted' "$log/configure-$name"; then
        cmake -S . -B "$folder" "$@" >"$log/configure-$name" 2>&1 || return 1
    fi
}

# make_targets FOLDER [TARGET...]: builds them, or all; on failure shows what the compiler said.
make_targets() {
    local folder=$1 name targets=()
    name=$(basename "$folder")
    shift
    [ $# -eq 0 ] || targets=(--target "$@")
    if ! cmake --build "$folder" -j "$jobs" "${targets[@]}" >"$log/compile-$name" 2>&1; then
        grep -E ' error|error:|warning:|undefined reference|\*\*\*' -A3 "$log/compile-$name" | tail -n 60 >&2
        return 1
    fi
}

# compile FOLDER OPTION...: configures and builds.
compile() {
    configure "$@" && make_targets "$1"
}

# The chart bundle of reports. A machine that cannot make it still builds: reports then hold tables.
make_charts() {
    local stamp
    stamp=$build/charts-$(cat scripts/requirements.txt scripts/make_charts_bundle.py program/report/NOTICE.txt | sha256sum | cut -c1-16)
    [ ! -e "$stamp" ] || return 0
    if (python_packages scripts/requirements.txt); then
        say "making the chart bundle"
        if "$venv/bin/python" scripts/make_charts_bundle.py "$build/charts.js" >"$log/charts" 2>&1; then
            touch "$stamp"
            return 0
        fi
    fi
    say "no chart bundle (see $log/charts and $log/pip): reports hold tables instead of charts"
    return 1
}

# configure_all OPTION...: the folder build/ itself.
configure_all() {
    local charts=
    need "${packages_build[@]}"
    if make_charts; then charts=$build/charts.js; fi
    configure "$build" "-DOTATTN_CHARTS=$charts" "${strict[@]}" "$@" || die "cmake failed; see $log/configure-build"
}

# build_all OPTION...
build_all() {
    configure_all "$@"
    say "building the libraries and the program"
    make_targets "$build" || die "the build failed; see $log/compile-build"
}

# ---- steps and results ---------------------------------------------------------------------------

# step NAME COMMAND...: runs it, shows its output only if it fails, notes the outcome in $steps.
step() {
    local name=$1 begin=$SECONDS outcome=passed
    shift
    "$@" >"$log/step-$name" 2>&1 </dev/null || outcome=failed
    [ $outcome = passed ] || tail -n 60 "$log/step-$name" >&2
    printf '%-7s %s (%d s)\n' "$outcome" "$name" $((SECONDS - begin))
    printf '%s\t%s\t%s\n' "$name" "$outcome" "see $log/step-$name" >>"$steps"
}

new_steps() {
    steps=$results/$1.tsv
    : >"$steps"
}

runner=() # what the C tests run under

# run_ctest FOLDER NAME OPTION...: leaves NAME.xml in $results, whatever the outcome.
run_ctest() {
    local folder=$1 name=$2
    shift 2
    rm -f "$results/$name.xml"
    # Output in full: counts.py counts the tests inside each program.
    "${runner[@]}" ctest --test-dir "$folder" --output-on-failure --no-tests=error --output-junit "$results/$name.xml" \
        --test-output-size-passed 4194304 --test-output-size-failed 4194304 "$@" </dev/null || true
}

# run_pytest NAME OPTION...: leaves NAME.xml in $results, whatever the outcome. Files of tests run side by side; one with
# processes or a record of its own runs by itself (-n 0).
run_pytest() {
    local name=$1
    shift
    rm -f "$results/$name.xml"
    OTATTN=$program OTATTN_BUILD=${built:-$build} OTATTN_TEST_FILES=${built:-$build}/tests/test_files \
        "$venv/bin/python" -m pytest -q -p no:cacheprovider -n "$jobs" --dist loadfile --no-loadscope-reorder \
        --junitxml="$results/$name.xml" "$@" </dev/null || true
}

count_results() {
    python3 scripts/counts.py "$@"
}

# files SUFFIX...: the project's own files with these suffixes.
files() {
    local suffix
    for suffix in "$@"; do
        find . -path './build*' -prune -o -path './.*' -prune -o -type f -name "*.$suffix" -print
    done | sort
}
