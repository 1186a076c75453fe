# Options of the linker, by what the linker is: OTATTN_LINK_NAME is empty where it has none such.
#
#   hardening      tables of addresses read-only, no executable stack; elsewhere than in ELF that is how things are
#   gc_sections    leaves out what nothing reaches
#   no_undefined   a library with a name that nothing defines is an error; elsewhere than in ELF it always is
#   as_needed_off  libraries are named although nothing of them is called
#   maps           a file of versions says which names a library shows
#   absent_names   names of such a file that a build leaves out are no errors

include(CheckLinkerFlag)

# otattn_link_options(NAME OPTION...)
function(otattn_link_options name)
    check_linker_flag(C "${ARGN}" OTATTN_LINKS_${name})
    if(OTATTN_LINKS_${name})
        set(OTATTN_LINK_${name} "${ARGN}" PARENT_SCOPE)
    else()
        set(OTATTN_LINK_${name} "" PARENT_SCOPE)
    endif()
endfunction()

if(APPLE AND NOT CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG)
    # CMake on another system does not know which macOS it builds for, and thinks of one without such paths.
    set(CMAKE_SHARED_LIBRARY_RUNTIME_C_FLAG "-Wl,-rpath,")
    set(CMAKE_EXECUTABLE_RUNTIME_C_FLAG "-Wl,-rpath,")
endif()
otattn_link_options(gc_sections LINKER:--gc-sections)
if(WIN32 OR APPLE)
    set(OTATTN_LINK_hardening "")
    set(OTATTN_LINK_no_undefined "")
    set(OTATTN_LINK_as_needed_off "")
    set(OTATTN_LINK_maps "")
    set(OTATTN_LINK_absent_names "")
else()
    otattn_link_options(hardening LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
    otattn_link_options(no_undefined LINKER:--no-undefined)
    otattn_link_options(as_needed_off LINKER:--no-as-needed)
    otattn_link_options(maps "LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/package.map")
    otattn_link_options(absent_names LINKER:--undefined-version)
endif()

# otattn_exports(LIBRARY MAP): a shared library shows what OTA_API marks and cmake/MAP names and nothing else, under versions where
# there are some.
function(otattn_exports library map)
    if(OTATTN_LINK_maps)
        set(map "${PROJECT_SOURCE_DIR}/cmake/${map}")
        target_link_options(${library} PRIVATE "LINKER:--version-script=${map}" ${OTATTN_LINK_absent_names})
        set_target_properties(${library} PROPERTIES LINK_DEPENDS "${map}")
    endif()
endfunction()

# otattn_import_library(TARGET): the import library of a DLL beside it, which Zig's linker does not make.
function(otattn_import_library target)
    if(WIN32 AND OTATTN_ZIG)
        add_custom_command(TARGET ${target} POST_BUILD VERBATIM
            COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/scripts/dll_exports.py" "$<TARGET_FILE:${target}>"
                "${CMAKE_CURRENT_BINARY_DIR}/${target}.def"
            COMMAND "${OTATTN_ZIG}/dlltool" -m i386:x86-64 -d "${CMAKE_CURRENT_BINARY_DIR}/${target}.def"
                -l "$<TARGET_LINKER_FILE:${target}>")
    endif()
endfunction()
