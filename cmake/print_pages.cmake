# cmake -DPROGRAM=FILE [-DEMULATOR=COMMAND] -DFOLDER=FOLDER -P print_pages.cmake: otattn.1 and otattn-COMMAND.1 of every command
# that the program lists, into FOLDER.
function(say file)
    execute_process(COMMAND ${EMULATOR} "${PROGRAM}" help ${ARGN} OUTPUT_FILE "${file}" COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
file(MAKE_DIRECTORY "${FOLDER}")
execute_process(COMMAND ${EMULATOR} "${PROGRAM}" help --json OUTPUT_VARIABLE help COMMAND_ERROR_IS_FATAL ANY)
string(JSON last LENGTH "${help}" commands)
math(EXPR last "${last} - 1")
foreach(k RANGE ${last})
    string(JSON name GET "${help}" commands ${k} name)
    say("${FOLDER}/otattn-${name}.1" ${name} --man)
endforeach()
say("${FOLDER}/otattn.1" --man)
