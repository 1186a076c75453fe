# What the Python package loads: the core, the analysis and what compiled JAX programs call in one shared
# library, without a version in its name, installed beside the Python files.

add_library(otattn_python SHARED $<TARGET_OBJECTS:otattn_base> $<TARGET_OBJECTS:otattn_objects>
    ${OTATTN_ANALYSIS_SOURCES} ${analysis_levels} python/native/jax_handler.c)
target_compile_definitions(otattn_python PRIVATE ${analysis_definitions})
set_target_properties(otattn_python PROPERTIES OUTPUT_NAME otattn_python
    LINK_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/cmake/otattn.map")
target_include_directories(otattn_python PRIVATE include src "${PROJECT_SOURCE_DIR}")
target_link_options(otattn_python PRIVATE
    "LINKER:--version-script=${CMAKE_CURRENT_SOURCE_DIR}/cmake/otattn.map" LINKER:--gc-sections)
target_link_libraries(otattn_python PRIVATE m Threads::Threads)
install(TARGETS otattn_python LIBRARY DESTINATION otattn COMPONENT python)
# otattn.show draws with the figures of the program's reports.
install(FILES program/report/figures/heatmap.vl.json program/report/figures/receivers.vl.json program/report/theme.json
    DESTINATION otattn/figures COMPONENT python)
