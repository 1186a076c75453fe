#!/bin/bash -eu
# OSS-Fuzz: every fuzz/fuzz_*.c with the engine and the flags of the environment, its corpus beside it, and the
# libraries of the image that the runner lacks. The environment: CC, CFLAGS, LIB_FUZZING_ENGINE, SRC, WORK, OUT.
cmake -S "$SRC/otattn" -B "$WORK/build" -DOTATTN_FUZZ=ON -DOTATTN_TESTS=OFF -DOTATTN_SPECTRA=OFF \
    -DOTATTN_FUZZ_ENGINE="$LIB_FUZZING_ENGINE" -DCMAKE_C_FLAGS="$CFLAGS" -DCMAKE_BUILD_RPATH="\$ORIGIN/lib"
# The targets alone: the shared library is linked without symbols left open, and a sanitizer's are.
mapfile -t targets < <(basename -s .c "$SRC"/otattn/fuzz/fuzz_*.c)
cmake --build "$WORK/build" -j "$(nproc)" --target "${targets[@]}"
mkdir -p "$OUT/lib"
for target in "$WORK"/build/fuzz/fuzz_*; do
    name=$(basename "$target")
    cp "$target" "$OUT/"
    ldd "$target" | awk '$3 ~ /jansson|zip|libmd|pcre2|utf8proc|bz2|lzma|zstd/ {print $3}' |
        xargs -r cp -n -t "$OUT/lib"
    (cd "$SRC/otattn/fuzz/corpus/${name#fuzz_}" && zip -q "$OUT/${name}_seed_corpus.zip" ./*)
done
