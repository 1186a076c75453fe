#!/usr/bin/env bash
# ./dev train: the training examples in full, or on with them; hours; writes build/training.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# train PROGRAM OPTION...: one of the training examples, in the environment of the Python package.
train() {
    local program=$1
    shift
    say "training: $program $*"
    "$build/venv-python/bin/python" "examples/training/$program.py" --folder "$build/training" "$@"
}

do_train() {
    local venv=$build/venv-python
    need "${packages_build[@]}" "${packages_python[@]}" dataset-fashion-mnist
    must_have_python_packages python/requirements-test.txt
    must_have_python_packages examples/training/requirements.txt
    must_have_python_packages scripts/requirements.txt
    install_package
    train vision "$@"
    train clouds "$@"
    train vision --data fashion --steps 1600 --rate 4e-3 --evaluations 5 "$@"
    train language --method torch softmax entmax:1.5 softmax/online:4 "softmax learn=temperature" "entmax:1.5 learn=alpha" "$@"
    train language --context 32 --method softmax softmax/prefix "$@"
    train language --hidden 0.25 --method softmax softmax/elastic:0.5,4 "softmax/elastic:0.5,4{anneal=4:0.5:1}" \
        "softmax/elastic:0.5,4 learn=strength,temperature" "entmax:1.5 learn=alpha" "softmax/capped:2 learn=cap" "$@"
    train tasks "$@"
    train dynamics "$@"
    train flow --seeds 5 "$@"
    train connections "$@"
    train moe --tune "$@"
    "$venv/bin/python" examples/training/compare.py --folder "$build/training"
    "$venv/bin/python" examples/training/draw.py --folder "$build/training" -o "$build/training"
    printf 'The records and figures are in %s\n' "$build/training"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_train "$@"
