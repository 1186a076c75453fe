# What the Python package loads: the core, the analysis and what compiled JAX programs call in one shared
# library, without a version in its name, installed beside the Python files. Models and the program (python_program.cmake)
# link it, so that the package holds it once.

set(core_library otattn_python)
set(analysis_library otattn_python)
set(model_kind SHARED)
# The package is installed by its own component.
set(OTATTN_INSTALL OFF)
set(OTATTN_SPECTRA OFF)

# otattn_package_file(TARGET FOLDER): installed there, and finds the package's libraries in the folders given after it, seen from
# its own; Windows looks in its own alone.
function(otattn_package_file target folder)
    set(origin "$ORIGIN")
    if(APPLE)
        set(origin "@loader_path")
    endif()
    set(places "${origin}")
    foreach(place IN LISTS ARGN)
        list(APPEND places "${origin}/${place}")
    endforeach()
    set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${places}" INSTALL_NAME_DIR "@rpath"
        BUILD_WITH_INSTALL_NAME_DIR ON)
    install(TARGETS ${target} LIBRARY DESTINATION ${folder} COMPONENT python RUNTIME DESTINATION ${folder} COMPONENT python)
endfunction()

add_library(otattn_python SHARED ${library_objects}
    ${OTATTN_ANALYSIS_SOURCES} ${analysis_levels} python/native/jax_handler.c python/native/jax_plans.c)
set_target_properties(otattn_python PROPERTIES OUTPUT_NAME otattn_python)
target_include_directories(otattn_python PUBLIC include PRIVATE src "${PROJECT_SOURCE_DIR}")
otattn_exports(otattn_python package.map)
otattn_import_library(otattn_python)
target_link_options(otattn_python PRIVATE ${OTATTN_LINK_gc_sections})
target_link_libraries(otattn_python PUBLIC m PRIVATE Threads::Threads)
otattn_package_file(otattn_python otattn)
# otattn.show draws with the figures of the program's reports.
foreach(figure IN ITEMS grid heatmap patching receivers)
    install(FILES program/report/figures/${figure}.vl.json DESTINATION otattn/figures COMPONENT python)
endforeach()
install(FILES program/report/theme.json DESTINATION otattn/figures COMPONENT python)

# Calls for which ctypes takes longer than the work: a module within the limited interface of CPython, so that one file serves
# every version from 3.11 on. It finds the library beside itself.
if(NOT OTATTN_PYTHON_INCLUDE)
    find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module NumPy)
    set(OTATTN_PYTHON_INCLUDE ${Python_INCLUDE_DIRS} ${Python_NumPy_INCLUDE_DIRS})
endif()
set(native_kind MODULE)
if(APPLE AND OTATTN_ZIG)
    # A loader takes a library as well as a bundle, at which Zig's linker crashes.
    set(native_kind SHARED)
endif()
add_library(otattn_native ${native_kind} python/native/calls.c python/native/interrupt.c python/native/keywords.c python/native/kept.c python/native/late_interaction.c
    python/native/long_calls.c python/native/matchings.c python/native/memory.c python/native/normalize.c python/native/route.c python/native/transport.c)
set(suffix .abi3.so)
if(OTATTN_PYTHON_SUFFIX)
    set(suffix "${OTATTN_PYTHON_SUFFIX}") # of an interpreter without a lock, which has no limited interface
elseif(WIN32)
    set(suffix .pyd)
endif()
if(WIN32)
    target_sources(otattn_native PRIVATE ${OTATTN_WINDOWS_PYTHON_SOURCES})
else()
    target_sources(otattn_native PRIVATE ${OTATTN_POSIX_PYTHON_SOURCES})
endif()
set_target_properties(otattn_native PROPERTIES OUTPUT_NAME _native PREFIX "" SUFFIX ${suffix})
if(NOT OTATTN_PYTHON_SUFFIX)
    target_compile_definitions(otattn_native PRIVATE Py_LIMITED_API=0x030B0000)
endif()
target_include_directories(otattn_native PRIVATE include "${PROJECT_SOURCE_DIR}")
target_include_directories(otattn_native SYSTEM PRIVATE ${OTATTN_PYTHON_INCLUDE})
target_link_libraries(otattn_native PRIVATE otattn_python ${OTATTN_PYTHON_LIBRARY})
if(OTATTN_LINK_as_needed_off)
    # Named although nothing of it is called: the check of wheels reads there which C library they are for.
    target_link_options(otattn_native PRIVATE ${OTATTN_LINK_as_needed_off})
    target_link_libraries(otattn_native PRIVATE c)
elseif(APPLE)
    # What the interpreter has, which loads it.
    target_link_options(otattn_native PRIVATE -undefined dynamic_lookup)
endif()
otattn_package_file(otattn_native otattn)

# ---- what needs packages of the system --------------------------------------------------------------

# otattn_needs(WORD OPTION PACKAGE=MODULE ...): where pkg-config does not find a MODULE the OPTION is off, and a line of
# missing.txt, which the package installs, names the system's packages (Debian's names).
set(missing_packages "")
find_package(PkgConfig)
function(otattn_needs word option)
    set(missing "")
    if(NOT PKG_CONFIG_FOUND)
        set(missing " pkg-config")
    endif()
    foreach(pair IN LISTS ARGN)
        string(REGEX MATCHALL "[^=]+" parts "${pair}")
        list(POP_FRONT parts package module)
        string(MAKE_C_IDENTIFIER "HAS_${module}" found)
        if(PKG_CONFIG_FOUND)
            pkg_check_modules(${found} QUIET ${module})
        endif()
        if(NOT ${found}_FOUND)
            string(APPEND missing " ${package}")
        endif()
    endforeach()
    if(missing)
        set(${option} OFF PARENT_SCOPE)
        set(missing_packages "${missing_packages}${word}:${missing}\n" PARENT_SCOPE)
        message(STATUS "the package is built without ${word}, for lack of${missing}")
    endif()
endfunction()

set(model_needs libjansson-dev=jansson libpcre2-dev=libpcre2-8 libutf8proc-dev=libutf8proc)
otattn_needs(models OTATTN_MODEL ${model_needs})
# Charts of the program's reports, where the Python that builds has their package.
if(NOT OTATTN_CHARTS)
    set(charts "${CMAKE_CURRENT_BINARY_DIR}/charts.js")
    execute_process(COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/scripts/make_charts_bundle.py" "${charts}"
        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
    if(NOT failed)
        set(OTATTN_CHARTS "${charts}")
    endif()
endif()
otattn_needs(program OTATTN_PROGRAM ${model_needs} libzip-dev=libzip zlib1g-dev=zlib libmd-dev=libmd)
