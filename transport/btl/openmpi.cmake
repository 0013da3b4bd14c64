# The Open MPI to build for: weir_opal, the internals for a plugin (weir_opal_headers for targets
# that do not link them), and weir_mpi, the interface for applications. A build uses one Open MPI.
# Its headers tell its version: the wrapper compiler only tells where to look, and may belong to
# another.
set(oldest 4.0)
set(newest 6)             # its headers are known
set(tested 4.1 5.0)

# Several may be installed. What PREFIX lacks is looked for nowhere else: two would be mixed.
set(WITH_OPENMPI "" CACHE PATH "PREFIX of the Open MPI to build for (default: the mpicxx in PATH)")
set(nowhere_else "")
if(WITH_OPENMPI)
  set(nowhere_else NO_DEFAULT_PATH)
  cmake_path(IS_PREFIX WITH_OPENMPI "${WEIR_MPICXX}" is_that_one)
  if(WEIR_MPICXX AND NOT is_that_one)
    message(FATAL_ERROR "this build is of the Open MPI of ${WEIR_MPICXX}: use another folder, or cmake --fresh")
  endif()
endif()
find_program(WEIR_MPICXX NAMES mpicxx.openmpi mpicxx HINTS ${WITH_OPENMPI}/bin ${nowhere_else} REQUIRED
             DOC "Compiler wrapper of the Open MPI to build for")
foreach(what incdirs libdirs)
  execute_process(COMMAND ${WEIR_MPICXX} --showme:${what} OUTPUT_VARIABLE openmpi_${what}
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status ERROR_QUIET)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${WEIR_MPICXX} is not Open MPI's compiler wrapper: name that one with "
                        "-DWITH_OPENMPI=PREFIX or -DWEIR_MPICXX=FILE (cmake --fresh)")
  endif()
  separate_arguments(openmpi_${what})
endforeach()
find_path(WEIR_OPAL_INCLUDE opal/mca/btl/btl.h HINTS ${openmpi_incdirs} PATH_SUFFIXES openmpi ${nowhere_else}
          DOC "Open MPI's internal headers (configured --with-devel-headers)")
if(NOT WEIR_OPAL_INCLUDE)
  message(FATAL_ERROR "the Open MPI of ${WEIR_MPICXX} has no headers for plugins (opal/mca/btl/btl.h): it wants to be "
                      "configured --with-devel-headers, as Debian's is. Name such a one with -DWITH_OPENMPI=PREFIX")
endif()
find_path(WEIR_MPI_INCLUDE mpi.h HINTS ${openmpi_incdirs} ${nowhere_else} REQUIRED DOC "Open MPI's mpi.h")
find_library(WEIR_OPAL_LIBRARY open-pal HINTS ${openmpi_libdirs} ${nowhere_else} REQUIRED)
find_library(WEIR_MPI_LIBRARY mpi HINTS ${openmpi_libdirs} ${nowhere_else} REQUIRED)

set(config ${WEIR_OPAL_INCLUDE}/opal_config.h)
set(version "")
if(EXISTS ${config})
  file(STRINGS ${config} lines REGEX "^#define OPAL_(MAJOR|MINOR|RELEASE)_VERSION [0-9]+")
  foreach(part MAJOR MINOR RELEASE)
    if("${lines}" MATCHES "OPAL_${part}_VERSION ([0-9]+)")
      list(APPEND version ${CMAKE_MATCH_1})
    endif()
  endforeach()
endif()
list(LENGTH version parts)
if(NOT parts EQUAL 3)
  message(FATAL_ERROR "${config} does not say which Open MPI it belongs to")
endif()
list(GET version 0 major)
list(JOIN version . WEIR_OPENMPI_VERSION)
if(WEIR_OPENMPI_VERSION VERSION_LESS oldest OR major GREATER newest)
  message(FATAL_ERROR "weir does not know Open MPI ${WEIR_OPENMPI_VERSION} (${WEIR_OPAL_INCLUDE}): "
                      "it can be built for ${oldest} to ${newest}.x")
endif()
set(remark "")
string(REGEX MATCH "^[0-9]+[.][0-9]+" series ${WEIR_OPENMPI_VERSION})
if(NOT series IN_LIST tested)
  list(JOIN tested " and " all_tested)
  set(remark " (weir is tested with ${all_tested})")
endif()
message(STATUS "Open MPI ${WEIR_OPENMPI_VERSION}: ${WEIR_OPAL_INCLUDE}${remark}")

add_library(weir_opal_headers INTERFACE)
set_property(TARGET weir_opal_headers PROPERTY VERSION_OF_OPEN_MPI ${WEIR_OPENMPI_VERSION})
target_include_directories(weir_opal_headers SYSTEM INTERFACE
  ${openmpi_incdirs} ${WEIR_OPAL_INCLUDE})
add_library(weir_opal INTERFACE)
target_link_libraries(weir_opal INTERFACE weir_opal_headers ${WEIR_OPAL_LIBRARY})
if(major GREATER_EQUAL 5)  # what processes tell each other goes through PMIx itself
  if(WITH_OPENMPI)
    find_library(WEIR_OWN_PMIX pmix HINTS ${openmpi_libdirs} NO_DEFAULT_PATH DOC "PMIx, if Open MPI brings its own")
  endif()
  if(WEIR_OWN_PMIX)  # its headers lie beside mpi.h
    target_link_libraries(weir_opal INTERFACE ${WEIR_OWN_PMIX})
  else()
    pkg_check_modules(PMIX REQUIRED pmix)
    target_include_directories(weir_opal_headers SYSTEM INTERFACE ${PMIX_INCLUDE_DIRS})
    # Not its flags: they would put PMIx's folder into the plugin as a search path.
    target_link_libraries(weir_opal INTERFACE ${PMIX_LINK_LIBRARIES})
  endif()
  # Debian's package lacks two headers that the others include. After all other folders, so that
  # an Open MPI that has them is built with its own.
  target_compile_options(weir_opal_headers INTERFACE
    "SHELL:-idirafter ${CMAKE_CURRENT_LIST_DIR}/missing_headers")
endif()

add_library(weir_mpi INTERFACE)
target_compile_definitions(weir_mpi INTERFACE OMPI_SKIP_MPICXX)  # the C interface only
target_include_directories(weir_mpi SYSTEM INTERFACE ${WEIR_MPI_INCLUDE})
target_link_libraries(weir_mpi INTERFACE ${WEIR_MPI_LIBRARY})
if(major GREATER_EQUAL 6)  # MPI_COMM_WORLD and its like are in a library of their own
  find_library(WEIR_OPEN_MPI_LIBRARY open_mpi HINTS ${openmpi_libdirs} ${nowhere_else} REQUIRED)
  target_link_libraries(weir_mpi INTERFACE ${WEIR_OPEN_MPI_LIBRARY})
endif()
