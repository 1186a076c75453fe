#!/usr/bin/env bash
# A Python of Windows under Wine: the interpreter and its modules of C as Panda3D's wheel carries them for programs that are shipped
# with it, the modules of Python as Debian's source of the same version but for its last number has them, and between them what these
# or Wine 8 leave out (tests/wine/).
# shellcheck source=scripts/dev/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# wine_python TARGET SOURCE: makes $build/wheels/wine, once, with Zig's compiler for the target and the source of CPython.
wine_python() {
    local folder=$build/wheels/wine cc=$build/zig/$1/cc packages stamp
    stamp=$folder/made-$(cat scripts/dev/wine.sh scripts/requirements-wine.txt scripts/python_exports.py tests/wine/* | sha256sum | cut -c1-16)
    [ ! -e "$stamp" ] || return 0
    rm -rf "$folder"
    mkdir -p "$folder"
    cp -r "$2/Lib" "$folder/Lib" || return 1
    packages=$folder/Lib/site-packages
    "$build/venv-python/bin/pip" install -q --disable-pip-version-check --no-compile --target "$packages" --require-hashes --no-deps \
        --only-binary=:all: --python-version 3.11 --implementation cp --platform win_amd64 -r scripts/requirements-wine.txt || return 1
    mv "$packages/deploy_libs" "$folder/DLLs" && mv "$folder/DLLs/python311.dll" "$folder" || return 1
    rm -rf "$packages"/{panda3d,panda3d_tools,direct,pandac}
    # Of Python's stable names, by which extensions call it, that DLL has none by the name of python3.dll.
    python3 scripts/python_exports.py "$2/PC/python3dll.c" "$folder/python3.def" python311 &&
        "$cc" -shared -s -x c /dev/null -x none "$folder/python3.def" -o "$folder/python3.dll" || return 1
    python3 scripts/dll_exports.py "$folder/python311.dll" "$folder/python311.def" &&
        "$build/zig/$1/dlltool" -m i386:x86-64 -d "$folder/python311.def" -l "$folder/libpython311.a" &&
        "$cc" -municode -s tests/wine/python.c "$folder/libpython311.a" -o "$folder/python.exe" || return 1
    python3 tests/wine/ucrtbase.py "$(wine_library ucrtbase.dll)" "$folder" &&
        "$cc" -shared -s -O2 tests/wine/ucrtbase.c "$folder/ucrtbase.def" -o "$folder/ucrtbase.dll" || return 1
    "$cc" -shared -s -O2 tests/wine/bcryptprimitives.c -ladvapi32 -o "$folder/bcryptprimitives.dll" || return 1
    touch "$stamp"
}

# wine_library NAME: prints where Wine has its own of that name.
wine_library() {
    dpkg-query -L libwine | grep "/x86_64-windows/$1\$"
}

# in_wine ARGUMENT...: what that Python says. Of a plain file as its output, which Wine opens for writing alone, it could not learn
# what it is.
in_wine() {
    WINEDEBUG=-all WINEPREFIX=$build/cross/wine WINEDLLOVERRIDES=ucrtbase=n,b PYTHONPATH="Z:${build//\//\\}\\wheels\\wine-otattn" \
        /usr/lib/wine/wine64 "$build/wheels/wine/python.exe" "$@" 2>&1 </dev/null | cat
}
