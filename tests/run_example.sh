#!/usr/bin/env bash
# Builds one example against an installed copy with what its pkg-config file
# gives and nothing else, and runs it.
#   run_example.sh EXAMPLE.c shared|static LIBRARY_FOLDER OUTPUT_FOLDER COMPILER
set -euo pipefail
example=$1 way=$2 libraries=$3 output=$4 compiler=$5
export PKG_CONFIG_PATH=$libraries/pkgconfig
mkdir -p "$output"
program=$output/$(basename "$example" .c)
read -ra compile < <(pkg-config --cflags otattn)
if [ "$way" = static ]; then
    # -l:NAME takes the archive even where the shared library lies beside it.
    read -ra link < <(pkg-config --libs --static otattn)
    link=("${link[@]/#-lotattn/-l:libotattn.a}")
else
    read -ra link < <(pkg-config --libs otattn)
    link+=("-Wl,-rpath,$libraries")
fi
"$compiler" -std=c11 -Wall -Wextra -Wpedantic -Werror "${compile[@]}" "$example" -o "$program" \
    "${link[@]}"
if [ "$way" = shared ]; then
    readelf -d "$program" | grep -q 'NEEDED.*libotattn\.so\.0' || { echo "not linked to libotattn.so.0"; exit 1; }
fi
"$program"
