# Toolchain: Zig's clang and C library for WebAssembly. OTATTN_ZIG is a folder with the commands cc, ar and ranlib, which
# scripts/dev/playground.sh writes.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES OTATTN_ZIG)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")
set(CMAKE_SYSTEM_NAME WASI)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER "${OTATTN_ZIG}/cc")
set(CMAKE_AR "${OTATTN_ZIG}/ar" CACHE FILEPATH "Archiver")
set(CMAKE_RANLIB "${OTATTN_ZIG}/ranlib" CACHE FILEPATH "Indexer of archives")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
