# libotattn_model: checkpoints, their forward passes, tokenizers. It sees the public headers and src/base,
# whose objects it holds too: the shared library keeps them to itself.

find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
if(NOT JANSSON_FOUND)
    message(STATUS "no jansson: libotattn_model is not built")
    return()
endif()

add_library(otattn_model ${model_kind} ${OTATTN_MODEL_SOURCES} $<TARGET_OBJECTS:otattn_base>)
target_include_directories(otattn_model PRIVATE "${PROJECT_SOURCE_DIR}" src)
set_target_properties(otattn_model PROPERTIES EXPORT_NAME otattn-model)
target_link_libraries(otattn_model PUBLIC ${core_library}
    PRIVATE $<BUILD_INTERFACE:PkgConfig::JANSSON> $<INSTALL_INTERFACE:jansson>)

otattn_tables(model_levels ops_ "${OTATTN_MODEL_KERNEL_SOURCES}" "" ${OTATTN_LEVELS})
foreach(library IN LISTS model_levels)
    target_link_libraries(${library} PRIVATE PkgConfig::JANSSON)
endforeach()
list(TRANSFORM model_levels REPLACE ".+" "$<TARGET_OBJECTS:\\0>")
target_sources(otattn_model PRIVATE ${model_levels})

# Linear layers: OpenBLAS where a session finds it at run time, else plain loops.
if(OTATTN_BLAS)
    set(blas_name "libopenblas.so.0")
    if(WIN32)
        set(blas_name "libopenblas.dll")
    elseif(APPLE)
        set(blas_name "libopenblas.dylib")
    endif()
    set(OTATTN_MODEL_BLAS_NAME "${blas_name}" CACHE STRING "What sessions of models open for it")
    target_compile_definitions(otattn_model PRIVATE
        OTATTN_MODEL_BLAS_NAME="${OTATTN_MODEL_BLAS_NAME}")
endif()
target_link_libraries(otattn_model PRIVATE ${CMAKE_DL_LIBS})

otattn_install(TARGETS otattn_model EXPORT otattnTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
otattn_install_headers(${OTATTN_MODEL_HEADERS})
