#!/usr/bin/env bash
# ./dev release: checks that this commit can be a release and makes its files in build/release (docs/development/releasing.md).
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# What --prepare writes is committed by hand.
prepare() {
    build_all -DOTATTN_TESTS=OFF
    python3 scripts/release.py prepare
    python3 scripts/check_abi.py --header
    python3 scripts/check_abi.py --write build
    say "look at 'git diff' and 'git status', commit, then ./dev release"
}

# header_is_current: the release's header, once more from the public ones, is the same.
header_is_current() {
    python3 scripts/check_abi.py --header && [ -z "$(git status --porcelain tests/abi)" ]
}

# checks_of_release [REHEARSAL]
checks_of_release() {
    step release-version python3 scripts/check_version.py
    step release-abi python3 scripts/check_abi.py build
    [ -n "${1:-}" ] || step release-header header_is_current
    [ -n "${1:-}" ] || step release-tree python3 scripts/release.py check
}

# collect_wheels FOLDER VERSION: what ./dev wheels left, by its own sums.
collect_wheels() {
    (cd build/wheels && sha256sum --check --quiet SHA256SUMS) && mkdir -p "$1/python" && cp build/wheels/otattn-"$2"[-.]* "$1/python"
}

do_release() {
    local word rehearsal='' tag='' wheels=yes version folder=$build/release
    version=$(python3 scripts/check_version.py --print)
    for word in "$@"; do
        case $word in
            --prepare) prepare && return ;;
            --rehearse) rehearsal=yes ;;
            --no-wheels) wheels='' ;;
            --tag) tag=v$version ;;
            *) die "release: what is '$word'? Known are --prepare, --rehearse, --no-wheels and --tag" ;;
        esac
    done
    [ -z "$tag" ] || { [ -z "$rehearsal" ] && [ -n "$wheels" ]; } || die "release: a rehearsal, or one without wheels, gets no tag"
    need "${packages_test[@]}" "${packages_lint[@]}"
    new_steps release
    build_all -DOTATTN_TESTS=OFF
    say "checking the tree for $version"
    checks_of_release "$rehearsal"
    if grep -q $'\tfailed\t' "$steps"; then
        count_results "$steps"
        die "this commit is no release; --rehearse makes its files all the same"
    fi
    rm -rf "$folder"
    step release-tarball python3 scripts/release.py make "$folder"
    step release-bill python3 scripts/bill_of_materials.py -o "$folder/otattn-$version.cdx.json"
    if [ -n "$wheels" ]; then
        say "building the wheels"
        step release-wheels ./dev wheels --again
        step release-collect collect_wheels "$folder" "$version"
    fi
    step release-sums python3 scripts/release.py sums "$folder"
    count_results "$steps"
    ! grep -q $'\tfailed\t' "$steps" || die "the release in $folder is not whole"
    [ -z "$tag" ] || git tag -a "$tag" -m "otattn $version" || die "git set no tag"
    say "made $folder${tag:+, and the tag $tag, which nobody has pushed}"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_release "$@"
