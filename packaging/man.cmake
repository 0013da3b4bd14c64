# Man pages, of what --help says: one for each subcommand.
find_program(WEIR_HELP2MAN help2man DOC "Makes man pages of --help")
if(NOT WEIR_HELP2MAN)
  message(STATUS "no help2man: no man pages")
  return()
endif()

# man_page(COMPONENT NAME PROGRAM WHAT): of "NAME-WHAT", or of NAME alone.
set(pages "")
function(man_page component name program)
  list(JOIN ARGN "-" what)
  string(JOIN "-" page ${name} ${what})
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${page}.1.gz)
  add_custom_command(OUTPUT ${file}
    COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/man-page ${page} "weir ${PROJECT_VERSION}" ${file} ${program} ${ARGN}
    DEPENDS man-page ${program} VERBATIM)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${component})
  set(pages ${pages} ${file} PARENT_SCOPE)
endfunction()

set(weir ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/weir)
man_page(weir weir ${weir})
foreach(subcommand info doctor top set perf tune config sim)
  man_page(weir weir ${weir} ${subcommand})
endforeach()
man_page(lab weir-lab ${CMAKE_SOURCE_DIR}/tools/lab/lab)
man_page(lab weir-lab-root ${CMAKE_SOURCE_DIR}/tools/lab/root)
add_custom_target(man ALL DEPENDS ${pages})
add_dependencies(man weir)
