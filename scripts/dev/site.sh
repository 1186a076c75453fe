#!/usr/bin/env bash
# ./dev site [test]: the site, build/site, a plain folder: open index.html. What Sphinx reads lies in build/site-sources. test: and
# reads it in a browser.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

make_site() {
    local venv=$build/venv-python packages
    need "${packages_build[@]}" "${packages_python[@]}"
    [ -x "$program" ] || build_all -DOTATTN_TESTS=OFF
    must_have_python_packages python/requirements-test.txt
    install_package
    # Sphinx imports the package from there; its own packages come first.
    packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    venv=$build/venv-site
    must_have_python_packages docs/site/requirements.txt
    printf '%s\n' "$packages" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/otattn.pth"
    say "making the pages"
    "$venv/bin/python" scripts/make_site.py "$program" "$build/site-sources" "$build/site"
}

site_tests() {
    step site make_site
    need chromium
    must_have_python_packages tests/requirements.txt
    OTATTN_SITE=$build/site run_pytest site tests/python/program/test_site.py
}

do_site() {
    if [ "${1:-}" != test ]; then
        make_site
        return
    fi
    new_steps site
    site_tests
    count_results "$steps" "$results/site.xml"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_site "$@"
