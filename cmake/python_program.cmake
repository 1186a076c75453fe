# The models' library and the program of the Python package, which find its library beside or above themselves, and the
# target that builds all of it.

add_custom_target(otattn_package DEPENDS otattn_python otattn_native)
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/missing.txt" "${missing_packages}")
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/missing.txt" DESTINATION otattn COMPONENT python)

if(TARGET otattn_model)
    otattn_exports(otattn_model package.map)
    otattn_import_library(otattn_model)
    target_link_options(otattn_model PRIVATE ${OTATTN_LINK_gc_sections})
    otattn_package_file(otattn_model otattn)
    add_dependencies(otattn_package otattn_model)
endif()

if(TARGET otattn_program)
    set(folder otattn/bin)
    if(WIN32)
        set(folder otattn) # beside its libraries, where alone Windows looks for them
    endif()
    otattn_package_file(otattn_program ${folder} ..)
    add_dependencies(otattn_package otattn_program)
    if(TARGET otattn_pages)
        add_dependencies(otattn_package otattn_pages)
    endif()
endif()
install(PROGRAMS "${CMAKE_CURRENT_SOURCE_DIR}/python/scripts/otattn" DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT python)
