#!/usr/bin/env bash
# Judges the built libraries: exported names, house prefixes, forbidden calls, calls that depend on the locale, mutable globals.
#   check_names.sh BUILD_FOLDER
set -euo pipefail
build=${1:?usage: check_names.sh BUILD_FOLDER}
shared=$build/libotattn.so
static=$build/libotattn.a
failed=0
complain() {
    printf '%s\n' "$*"
    failed=1
}

# The headers of the library, as cmake/sources.cmake lists them.
lists='LIBRARY|BATCH'
grep -q '^OTATTN_BATCHES:BOOL=OFF' "$build/CMakeCache.txt" && lists=LIBRARY
mapfile -t headers < <(sed -nE "/set\(OTATTN_($lists)_HEADERS/,/\)/p" cmake/sources.cmake | grep -oE 'include/[a-z_]+\.h')
declared=$(grep -ohE 'OTA_API [^;{]*\(' "${headers[@]}" | grep -oE 'ota_[a-z0-9_]+ *\($' | tr -d ' (' | sort -u)
exported=$(nm -D --defined-only "$shared" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort -u)

# What a header declares is there, and nothing else is.
while read -r name; do
    [ -z "$name" ] || complain "$shared lacks $name, which a public header declares: it wants a line of cmake/otattn.map, and is defined"
done < <(comm -23 <(printf '%s\n' "$declared") <(printf '%s\n' "$exported"))
while read -r name; do
    [ -z "$name" ] || complain "$shared exports $name, which no public header declares"
done < <(comm -13 <(printf '%s\n' "$declared") <(printf '%s\n' "$exported"))

# Names shared between files carry the prefix, so that a static link meets no stranger.
while read -r name; do
    complain "$static has the global symbol $name without the prefix ota_"
done < <(nm -g --defined-only "$static" 2>/dev/null | awk 'NF == 3 {print $3}' | grep -vE '^ota_' | sort -u)

# The library never prints, exits, aborts, reads the environment or installs handlers.
forbidden='printf|vprintf|fprintf|vfprintf|__v?f?printf_chk|puts|putchar|fputs|fputc|fwrite|perror|exit|_exit|abort|getenv|secure_getenv|setenv|signal|sigaction|atexit|system|setlocale|srand|rand'
while read -r name; do
    complain "$shared calls $name"
done < <(nm -D --undefined-only "$shared" | awk '{print $2}' | sed 's/@.*//' | grep -xE "$forbidden" || true)

# Numbers become text, and text numbers, in base/text.c alone, JSON in json_text.c, whatever the locale. The program never
# leaves the C locale.
while read -r object name; do
    complain "$object calls $name, which depends on the locale: those of base/text.c and json_text.h do not"
done < <(nm -A --undefined-only "$build"/libotattn{,_analysis,_model,_spectra}.a 2>/dev/null | sed -nE 's/^([^ ]*): *U (.*)$/\1 \2/p' | grep -vE ':(json_)?text\.c\.o ' |
    grep -E ' (__)?(v?sn?printf|strto(d|f|ld)|atof|strerror(_r)?|json_(load|dump|v?sprintf)[a-z_]*)(_chk)?$' || true)

if nm --undefined-only "$build"/libotattn_program_parts.a 2>/dev/null | grep -qE ' U (set|use)locale$'; then
    complain "the program leaves the C locale, in which it writes and reads numbers"
fi

# Core needs libc and libm only.
while read -r name; do
    complain "$shared needs $name"
done < <(readelf -d "$shared" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(libc|libm|libpthread|libgcc_s|ld-linux.*)\.so' || true)
readelf -d "$shared" | grep -q 'SONAME.*\[libotattn\.so\.0\]' || complain "$shared has no SONAME libotattn.so.0"

# No mutable globals: nothing in .data or .bss of any object, but what cpu.c keeps of the processor.
while read -r object section bytes; do
    complain "$static: $object keeps $bytes bytes of mutable data in $section"
done < <(size -A "$static" 2>/dev/null |
    awk '/ex .*:$|:$/ {object = $1} $1 ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $1 !~ /^\.data\.rel\.ro/ && $2 > 0 {print object, $1, $2}' |
        grep -vx 'cpu\.c\.o .bss 4')

[ $failed -eq 0 ] && printf 'names: %s exported, all declared; no stray symbols, calls or globals\n' "$(wc -l <<<"$exported")"
exit $failed
