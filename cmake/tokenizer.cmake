# The tokenizers of libotattn_model: PCRE2 cuts texts into words, utf8proc has the Unicode forms and
# categories. The program needs them; the library goes without where one is missing.

pkg_check_modules(PCRE2 IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC IMPORTED_TARGET libutf8proc)
if(NOT PCRE2_FOUND OR NOT UTF8PROC_FOUND)
    if(OTATTN_PROGRAM)
        message(FATAL_ERROR "the program needs PCRE2 (libpcre2-dev) and utf8proc (libutf8proc-dev)")
    endif()
    message(STATUS "no PCRE2 or no utf8proc: libotattn_model has no tokenizers")
    return()
endif()

set(OTATTN_TOKENIZER ON)
target_sources(otattn_model PRIVATE ${OTATTN_TOKENIZER_SOURCES})
target_link_libraries(otattn_model PRIVATE
    $<BUILD_INTERFACE:PkgConfig::PCRE2> $<INSTALL_INTERFACE:pcre2-8>
    $<BUILD_INTERFACE:PkgConfig::UTF8PROC> $<INSTALL_INTERFACE:utf8proc>)
set(OTATTN_TOKENIZER_PACKAGES ", libpcre2-8, libutf8proc")
otattn_install_headers(include/otattn_tokenizer.h)
