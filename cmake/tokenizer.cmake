# The tokenizers of libotattn_model. They need jansson (tokenizer.json), PCRE2 (cutting into words) and
# utf8proc (Unicode forms and categories).

find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

if(NOT TARGET otattn_model)
    add_library(otattn_model STATIC)
    set_target_properties(otattn_model PROPERTIES EXPORT_NAME otattn-model)
    target_link_libraries(otattn_model PUBLIC otattn_static)
    install(TARGETS otattn_model EXPORT otattnTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
target_sources(otattn_model PRIVATE ${OTATTN_TOKENIZER_SOURCES})
target_link_libraries(otattn_model PRIVATE
    $<BUILD_INTERFACE:PkgConfig::JANSSON> $<INSTALL_INTERFACE:jansson>
    $<BUILD_INTERFACE:PkgConfig::PCRE2> $<INSTALL_INTERFACE:pcre2-8>
    $<BUILD_INTERFACE:PkgConfig::UTF8PROC> $<INSTALL_INTERFACE:utf8proc>)
install(FILES include/otattn_tokenizer.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
