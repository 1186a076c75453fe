# Toolchain: Zig's clang and its C libraries as cross compiler, for -DOTATTN_TARGET=x86_64-linux-gnu.2.17 and the like.
#
# OTATTN_ZIG is a folder with `cc`, `ar`, `ranlib` and `dlltool`, which scripts/dev/zig.sh writes: commands of one word, as compiler
# caches want them.

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES OTATTN_TARGET OTATTN_ZIG)
string(REGEX MATCHALL "[^-]+" parts "${OTATTN_TARGET}")
list(GET parts 0 CMAKE_SYSTEM_PROCESSOR)
list(GET parts 1 system)
if(system STREQUAL "linux")
    set(CMAKE_SYSTEM_NAME Linux)
    if(OTATTN_TARGET MATCHES "-musl")
        # Under the name that Alpine gives it; before Zig's own, which is then not needed.
        set(CMAKE_C_STANDARD_LIBRARIES_INIT "${OTATTN_ZIG}/libc.so")
    endif()
elseif(system STREQUAL "windows")
    set(CMAKE_SYSTEM_NAME Windows)
    # What models and program stand on is static there (scripts/dev/zig.sh).
    set(CMAKE_C_FLAGS_INIT "-DPCRE2_STATIC -DUTF8PROC_STATIC -DZIP_STATIC")
elseif(system MATCHES "^macos")
    set(CMAKE_SYSTEM_NAME Darwin)
elseif(system STREQUAL "wasi")
    set(CMAKE_SYSTEM_NAME WASI)
    list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/../web") # Platform/WASI.cmake
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
else()
    message(FATAL_ERROR "OTATTN_TARGET: ${OTATTN_TARGET} is of no system that cmake/zig.cmake knows")
endif()
set(CMAKE_C_COMPILER "${OTATTN_ZIG}/cc")
set(CMAKE_AR "${OTATTN_ZIG}/ar" CACHE FILEPATH "Archiver")
set(CMAKE_RANLIB "${OTATTN_ZIG}/ranlib" CACHE FILEPATH "Indexer of archives")
# Nothing of this machine belongs into the target's files.
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
