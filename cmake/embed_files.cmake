# Puts files into the program as bytes, so that it needs none at run time.
#
#   include(cmake/embed_files.cmake)
#   otattn_embed(TARGET name=file [name=file ...])
#
# gives TARGET a generated C file with the table that program/report/embedded.h declares; it is made
# again whenever one of the files changes. Run as a script (cmake -P) the same file is the generator:
# `pairs` is the list of name=file, `output` the C file.

if(CMAKE_SCRIPT_MODE_FILE)
    set(arrays "")
    set(rows "")
    set(index 0)
    foreach(pair IN LISTS pairs)
        string(FIND "${pair}" "=" cut)
        string(SUBSTRING "${pair}" 0 ${cut} name)
        math(EXPR cut "${cut} + 1")
        string(SUBSTRING "${pair}" ${cut} -1 file)
        file(READ "${file}" bytes HEX)
        if(bytes STREQUAL "")
            message(FATAL_ERROR "${file} is empty: there is nothing to embed")
        endif()
        string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
        string(APPEND arrays "static const unsigned char file_${index}[] = {\n${bytes}\n};\n")
        string(APPEND rows "    {\"${name}\", file_${index}, sizeof file_${index}},\n")
        math(EXPR index "${index} + 1")
    endforeach()
    file(WRITE "${output}.part" "#include \"program/report/embedded.h\"\n\n${arrays}\n"
         "const cli_embedded cli_embedded_files[] = {\n${rows}};\n"
         "const size_t cli_embedded_count = ${index};\n")
    file(RENAME "${output}.part" "${output}")
    return()
endif()

set(OTATTN_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(otattn_embed target)
    set(files "")
    foreach(pair IN LISTS ARGN)
        string(REGEX REPLACE "^[^=]*=" "" file "${pair}")
        list(APPEND files "${file}")
    endforeach()
    set(generated "${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded.c")
    add_custom_command(
        OUTPUT "${generated}"
        COMMAND "${CMAKE_COMMAND}" "-Dpairs=${ARGN}" "-Doutput=${generated}" -P "${OTATTN_EMBED_SCRIPT}"
        DEPENDS ${files} "${OTATTN_EMBED_SCRIPT}"
        COMMENT "Embedding files into ${target}"
        VERBATIM)
    target_sources(${target} PRIVATE "${generated}")
    target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
endfunction()

# Everything the reports, the demo and the statements need, and the chart library when there is one.
function(otattn_embed_report target charts)
    set(root "${PROJECT_SOURCE_DIR}")
    set(pairs
        "page.css=${root}/program/report/page.css"
        "page.js=${root}/program/report/page.js"
        "maps.js=${root}/program/report/maps.js"
        "theme.json=${root}/program/report/theme.json"
        "NOTICE.txt=${root}/program/report/NOTICE.txt"
        "demo.safetensors=${root}/data/demo/minilm.safetensors"
        "demo/vocab.json=${root}/data/demo/model/vocab.json"
        "demo/merges.txt=${root}/data/demo/model/merges.txt"
        "demo/paragraph.txt=${root}/data/demo/paragraph.txt")
    file(GLOB figures CONFIGURE_DEPENDS "${root}/program/report/figures/*.vl.json")
    foreach(figure IN LISTS figures)
        get_filename_component(name "${figure}" NAME)
        list(APPEND pairs "figures/${name}=${figure}")
    endforeach()
    if(charts)
        get_filename_component(charts "${charts}" ABSOLUTE BASE_DIR "${root}")
        if(NOT EXISTS "${charts}.gz.b64")
            message(FATAL_ERROR "OTATTN_CHARTS: ${charts}.gz.b64 does not exist; "
                                "make it with scripts/make_charts_bundle.py ${charts}")
        endif()
        list(APPEND pairs "charts=${charts}.gz.b64")
    endif()
    otattn_embed(${target} ${pairs})
endfunction()
