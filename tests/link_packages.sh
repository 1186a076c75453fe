#!/usr/bin/env bash
# Links one program against an installed library with what its pkg-config file gives and nothing else, and
# runs it. The core is the shared library, which keeps to itself what the archives share with it.
#   link_packages.sh PACKAGE LIBRARY_FOLDER OUTPUT_FOLDER COMPILER
set -euo pipefail
package=$1 libraries=$2 output=$3 compiler=$4
export PKG_CONFIG_PATH=$libraries/pkgconfig
mkdir -p "$output"
source=$output/$package.c
case $package in
otattn)
    call='return ota_plan_free(NULL), 0;' header=otattn.h
    ;;
otattn-analysis)
    call='double x[4] = {1, 0, 0, 0}; ota_hamming_matvec(1.0, x, x, 4); return !(x[0] == 1.0);'
    header=otattn_analysis.h
    ;;
otattn-model)
    call='ota_session *s = NULL; ota_session_options o = {sizeof o}; ota_model *m = NULL; ota_error e;
        if (ota_model_open(&m, "/nowhere", NULL, &e) == OTA_OK) return ota_session_create(&s, m, &o, &e);
        return 0;'
    header=otattn_model.h
    ;;
*)
    echo "no program for $package" && exit 2
    ;;
esac
printf '#include <%s>\nint main(void) {\n    %s\n}\n' "$header" "$call" >"$source"
flags=()
[ "$package" = otattn ] || flags=(--static)
read -ra compile < <(pkg-config --cflags "$package")
read -ra link < <(pkg-config --libs "${flags[@]}" "$package")
"$compiler" -std=c11 "${compile[@]}" "$source" -o "$output/$package" "${link[@]}" "-Wl,-rpath,$libraries"
readelf -d "$output/$package" | grep -q 'NEEDED.*libotattn\.so\.0' || [ "$package" != otattn ] ||
    { echo "not linked to libotattn.so.0" && exit 1; }
"$output/$package"
