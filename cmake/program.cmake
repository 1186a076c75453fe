# The program, the man page and completions it prints about itself, and their installation.

include(embed_files)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(LIBZIP REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(LIBMD REQUIRED IMPORTED_TARGET libmd)

# What `otattn verify` measures: calls of the libraries, and of the program what statements/host.h names.
add_library(otattn_statements STATIC ${OTATTN_STATEMENTS_SOURCES})
target_include_directories(otattn_statements PUBLIC "${PROJECT_SOURCE_DIR}")
target_link_libraries(otattn_statements PUBLIC ${core_library} otattn_model ${analysis_library}
    PRIVATE PkgConfig::JANSSON)

# Everything but main.c, so that tests can call the parts.
add_library(otattn_program_parts STATIC ${OTATTN_PROGRAM_SOURCES})
target_include_directories(otattn_program_parts PUBLIC "${PROJECT_SOURCE_DIR}")
target_link_libraries(otattn_program_parts PUBLIC otattn_statements ${analysis_library} otattn_model
    ${core_library} PkgConfig::JANSSON PkgConfig::LIBZIP PkgConfig::ZLIB PkgConfig::LIBMD)
if(OTATTN_PYTHON)
    # The package's library keeps src/base to itself, and the tables that flags are rows of (src/problem/fields.h), which the static
    # one has.
    target_sources(otattn_program_parts PRIVATE $<TARGET_OBJECTS:otattn_base>)
    target_link_libraries(otattn_program_parts PUBLIC otattn_static)
endif()
# Several processes by MPI, or one.
if(OTATTN_MPI)
    target_sources(otattn_program_parts PRIVATE program/ranks/ranks_mpi.c)
    target_link_libraries(otattn_program_parts PRIVATE otattn_mpi MPI::MPI_C)
else()
    target_sources(otattn_program_parts PRIVATE program/ranks/ranks_one.c)
endif()
otattn_embed_report(otattn_program_parts "${OTATTN_CHARTS}")

add_executable(otattn_program program/main.c)
target_link_libraries(otattn_program PRIVATE otattn_program_parts)
set_target_properties(otattn_program PROPERTIES OUTPUT_NAME otattn
    RUNTIME_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
otattn_install(TARGETS otattn_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# What prints the pages: the program that was built, by what it is run by, or OTATTN_PAGES_PROGRAM, one of the same sources that
# runs here where that does not. That of the Python package looks for its library where that will be installed.
set(pages_program "$<TARGET_FILE:otattn_program>")
set(run_program ${CMAKE_CROSSCOMPILING_EMULATOR})
if(OTATTN_PAGES_PROGRAM)
    set(pages_program "${OTATTN_PAGES_PROGRAM}")
    set(run_program "")
elseif(OTATTN_PYTHON)
    list(APPEND run_program "${CMAKE_COMMAND}" -E env "LD_LIBRARY_PATH=${CMAKE_CURRENT_BINARY_DIR}")
endif()

# otattn_pages_install(KIND PATH FOLDER): with the program; into the data of a wheel, which go below the environment's root.
function(otattn_pages_install kind path folder)
    if(OTATTN_PYTHON)
        install(${kind} "${path}" DESTINATION "${SKBUILD_DATA_DIR}/${folder}" COMPONENT python)
    else()
        otattn_install(${kind} "${path}" DESTINATION "${folder}")
    endif()
endfunction()

# otattn_page(FILE FOLDER ARGUMENT...): FILE is what the program prints when run with the arguments.
function(otattn_page file folder)
    set(page "${CMAKE_CURRENT_BINARY_DIR}/pages/${file}")
    add_custom_command(OUTPUT "${page}"
        COMMAND ${run_program} "${pages_program}" ${ARGN} > "${page}"
        DEPENDS otattn_program VERBATIM COMMENT "Printing ${file}")
    set_property(DIRECTORY APPEND PROPERTY OTATTN_PAGES "${page}")
    otattn_pages_install(FILES "${page}" "${folder}")
endfunction()

if(NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR OR OTATTN_PAGES_PROGRAM)
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/pages")
    otattn_page(otattn "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" completions bash)
    otattn_page(_otattn "${CMAKE_INSTALL_DATADIR}/zsh/site-functions" completions zsh)
    otattn_page(otattn.fish "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" completions fish)
    # otattn(1) and a page of each command: the names are the program's own.
    set(manual "${CMAKE_CURRENT_BINARY_DIR}/pages/man1")
    add_custom_command(OUTPUT "${manual}/otattn.1"
        COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${pages_program}" "-DEMULATOR=${run_program}"
            "-DFOLDER=${manual}" -P "${PROJECT_SOURCE_DIR}/cmake/print_pages.cmake"
        DEPENDS otattn_program cmake/print_pages.cmake VERBATIM COMMENT "Printing the pages of section 1")
    set_property(DIRECTORY APPEND PROPERTY OTATTN_PAGES "${manual}/otattn.1")
    otattn_pages_install(DIRECTORY "${manual}" "${CMAKE_INSTALL_MANDIR}")
    get_directory_property(pages OTATTN_PAGES)
    add_custom_target(otattn_pages ALL DEPENDS ${pages})
endif()
