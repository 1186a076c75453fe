#!/usr/bin/env bash
# ./dev packages: Debian's packages of HEAD in build/packages, judged by lintian, installed, used and removed in a fresh Debian; a
# program built by the recipes of packaging/ whose tools are at hand, the other recipes read.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

suite=${OTATTN_DEBIAN:-bookworm}
names=(libotattn0 libotattn-dev otattn python3-otattn otattn-doc)

# source_of FOLDER: the release's tarball, unpacked, with packaging/debian as its debian/.
source_of() {
    local version folder=$1
    version=$(python3 scripts/check_version.py --print)
    rm -rf "$folder"
    mkdir -p "$folder/source"
    python3 scripts/release.py make "$folder" || return 1
    mv "$folder/otattn-$version.tar.gz" "$folder/otattn_$version.orig.tar.gz"
    tar -xf "$folder/otattn_$version.orig.tar.gz" -C "$folder/source" --strip-components=1
    cp -a "$folder/source/packaging/debian" "$folder/source/debian"
}

# build_packages FOLDER: the source package and the packages of this machine's kind.
build_packages() (
    cd "$1/source"
    DEB_BUILD_OPTIONS="parallel=$jobs nocheck" dpkg-buildpackage -us -uc -F
)

# The packages are not for Debian's archive yet, where a first upload closes a bug that announced it.
lint_packages() {
    lintian --info --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$1"/*.changes
}

# in_chroot FOLDER COMMAND...
in_chroot() {
    as_root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$@"
}

# fresh_debian FOLDER PACKAGES: the least system that has apt, and the packages in its /packages.
fresh_debian() {
    as_root rm -rf "$1"
    as_root mmdebstrap --variant=minbase --mode=root "$suite" "$1" || return 1
    as_root mkdir "$1/packages"
    as_root cp "$2"/*.deb "$1/packages"
    [ ! -e /etc/resolv.conf ] || as_root cp /etc/resolv.conf "$1/etc/resolv.conf"
}

install_packages() {
    # What tests need stands in debian/tests/control, the packages apart.
    local extra name files=()
    for name in "${names[@]}"; do files+=("/packages/$(basename "$1/packages/${name}"_*.deb)"); done
    extra=$(sed -n 's/^Depends: //p' packaging/debian/tests/control | tr -d , | tr ' ' '\n' | grep -v otattn | sort -u | tr '\n' ' ')
    in_chroot "$1" apt-get update -q || return 1
    # shellcheck disable=SC2086
    in_chroot "$1" apt-get install -y -q --no-install-recommends $extra "${files[@]}"
}

run_installed() {
    as_root cp -rT packaging/debian/tests "$1/packages/tests"
    in_chroot "$1" "/packages/tests/$2"
}

# remove_packages FOLDER: nothing of the name stays, but for what man-db keeps of pages that were shown.
remove_packages() {
    local left
    in_chroot "$1" apt-get purge -y -q "${names[@]}" || return 1
    left=$(find "$1" -xdev \( -path "$1/packages" -o -path "$1/proc" -o -path "$1/sys" -o -path "$1/var/cache/man" \) -prune -o \
        -name '*otattn*' -print)
    [ -z "$left" ] || { printf 'left behind: %s\n' "$left" && return 1; }
}

# ---- recipes -------------------------------------------------------------------------------------

# conan_builds FOLDER SHARED: the package of the tarball at hand, and the program of its test_package.
conan_builds() {
    sed "s|\"https://.*/|\"file://$1/|" "$1/recipes/conan/conandata.yml" >"$1/conandata.yml" &&
        mv "$1/conandata.yml" "$1/recipes/conan/conandata.yml" &&
        PATH=$build/venv-packages/bin:$PATH "$build/venv-packages/bin/conan" profile detect --force &&
        PATH=$build/venv-packages/bin:$PATH "$build/venv-packages/bin/conan" create "$1/recipes/conan" -o "otattn/*:shared=$2"
}

# meson_builds FOLDER: a project whose wrap finds the tarball in Meson's cache, by its sum.
meson_builds() {
    local user=$1/meson bin=$build/venv-packages/bin
    rm -rf "$user"
    cp -r "$1/recipes/meson/user" "$user" && mkdir -p "$user/subprojects/packagecache" &&
        cp "$1/recipes/meson/otattn.wrap" "$user/subprojects" && cp "$1"/otattn-*.tar.gz "$user/subprojects/packagecache" &&
        cp "$1/recipes/conan/test_package/test_package.c" "$user" &&
        PATH=$bin:$PATH meson setup "$user/build" "$user" --buildtype=release &&
        PATH=$bin:$PATH meson test -C "$user/build" --print-errorlogs
}

# recipes: the release's, with the sums of its tarball.
recipes() {
    local shared folder=$build/packages/release venv=$build/venv-packages
    must_have_python_packages scripts/requirements-recipes.txt
    rm -rf "$folder"
    step recipes-source python3 scripts/release.py make "$folder"
    step recipes-read "$venv/bin/python" scripts/check_recipes.py "$folder/recipes"
    say "building with the recipes for Conan and Meson"
    for shared in False True; do CONAN_HOME=$build/packages/conan step "recipes-conan-shared-$shared" conan_builds "$folder" $shared; done
    step recipes-meson meson_builds "$folder"
}

# ---- Debian --------------------------------------------------------------------------------------

debian() {
    local folder=$build/packages/debian root=$build/packages/root test
    step packages-source source_of "$folder"
    say "building Debian's packages"
    step packages-build build_packages "$folder"
    step packages-lintian lint_packages "$folder"
    say "installing, using and removing them in a fresh $suite"
    step packages-debian fresh_debian "$root" "$folder"
    step packages-install install_packages "$root"
    for test in packaging/debian/tests/*; do
        [ ! -x "$test" ] || step "packages-$(basename "$test")" run_installed "$root" "$(basename "$test")"
    done
    step packages-remove remove_packages "$root"
    as_root rm -rf "$root"
}

# packages [debian|recipes]
packages() {
    [ -z "$(git status --porcelain)" ] || say "what is not committed is left out"
    need "${packages_build[@]}" "${packages_python[@]}" "${packages_debian[@]}"
    case ${1:-all} in
        debian | recipes) "$1" ;;
        all) debian && recipes ;;
        *) die "packages: what is '$1'? Known are debian and recipes" ;;
    esac
}

do_packages() {
    new_steps packages
    packages "$@"
    count_results "$steps"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_packages "$@"
