# Hardening of everything that is compiled and linked here. scripts/check_hardening.py looks for it in the binaries.
#
#   stack protector      a frame that holds an array is checked before its function returns
#   _FORTIFY_SOURCE      calls of libc that write into an object of known size are checked against it
#   RELRO, BIND_NOW      tables of addresses are filled at start and read-only from then on
#   no executable stack  and, by PIE, no address of the program known before it starts
#
# Sanitizers watch the same things more closely and replace the functions that _FORTIFY_SOURCE would.

include(CheckPIESupported)
check_pie_supported(OUTPUT_VARIABLE pie_output LANGUAGES C)

if(OTATTN_SANITIZE OR OTATTN_FUZZ)
    return()
endif()
add_compile_options(-fstack-protector-strong)
# Only where there is optimisation, which it needs; some compilers set a level of their own.
add_compile_options("$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
add_link_options(${OTATTN_LINK_hardening})
