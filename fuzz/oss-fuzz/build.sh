#!/bin/bash -eu
# OSS-Fuzz: every fuzz/fuzz_*.c with the engine and the flags of the environment, its corpus beside it, and the
# libraries of the image that the runner lacks, which those need as well: a path that they inherit (RPATH, not RUNPATH).
# The environment: CC, CFLAGS, LIB_FUZZING_ENGINE, SRC, WORK, OUT.
cmake -S "$SRC/otattn" -B "$WORK/build" -DOTATTN_FUZZ=ON -DOTATTN_TESTS=OFF -DOTATTN_SPECTRA=OFF \
    -DOTATTN_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DCMAKE_C_FLAGS="$CFLAGS" -DCMAKE_BUILD_RPATH="\$ORIGIN/lib" \
    -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags
# The targets alone: the shared library is linked without symbols left open, and a sanitizer's are.
targets=("$SRC"/otattn/fuzz/fuzz_*.c)
targets=("${targets[@]##*/}")
cmake --build "$WORK/build" -j "$(nproc)" --target "${targets[@]%.c}"
mkdir -p "$OUT/lib"
for target in "$WORK"/build/fuzz/fuzz_*; do
    name=$(basename "$target")
    cp "$target" "$OUT/"
    # All but what belongs to the C library and the compiler.
    ldd "$target" | awk '$3 ~ /^\// && $1 !~ /^lib(c|m|dl|rt|pthread|resolv|gcc_s|stdc\+\+)\.so/ {print $3}' |
        xargs -r cp -n -t "$OUT/lib"
    (cd "$SRC/otattn/fuzz/corpus/${name#fuzz_}" && zip -q "$OUT/${name}_seed_corpus.zip" ./*)
done
