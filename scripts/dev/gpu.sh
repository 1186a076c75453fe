#!/usr/bin/env bash
# ./dev gpu: what compilers say about the GPU kernels of the Python package.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

do_gpu() {
    local venv=$build/venv-python
    must_have_python_packages python/requirements-test.txt
    install_package
    say "compiling the kernels for each target; no GPU is needed"
    "$venv/bin/python" scripts/gpu_table.py docs/records/gpu-kernels.md
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_gpu "$@"
