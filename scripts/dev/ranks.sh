#!/usr/bin/env bash
# ./dev ranks: the program built with MPI, analyze and attend on many processes against one.
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

do_ranks() {
    local mpi=${1:-openmpi} folder program
    [ -n "${packages_ranks[$mpi]:-}" ] || die "there is no MPI '$mpi': openmpi or mpich"
    folder=$build/ranks-$mpi program=$folder/otattn
    # shellcheck disable=SC2086 # two packages
    need "${packages_build[@]}" "${packages_test[@]}" ${packages_ranks[$mpi]}
    must_have_python_packages tests/requirements.txt
    say "building with $mpi"
    compile "$folder" -DOTATTN_MPI=ON -DOTATTN_TESTS=ON "-DMPI_C_COMPILER=mpicc.$mpi" \
        "-DOTATTN_MPIRUN=$(command -v "mpirun.$mpi")" || die "the build failed; see $log/compile-ranks-$mpi"
    run_ctest "$folder" ranks -R ranks
    OTATTN_MPIRUN=mpirun.$mpi run_pytest pytest-ranks -n 0 \
        tests/python/program/test_ranks.py tests/python/program/test_shard.py tests/python/program/test_killed_processes.py
    count_results "$results/ranks.xml" "$results/pytest-ranks.xml"
}

[[ ${BASH_SOURCE[0]} != "$0" ]] || do_ranks "$@"
