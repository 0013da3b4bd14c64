# The Debian packages, by CPack: packaging/make-deb makes and shows them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weir)
set(CPACK_PACKAGE_VENDOR "weir developers")
set(CPACK_PACKAGE_CONTACT "weir developers <weir@packages.invalid>" CACHE STRING "Who makes the packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

execute_process(COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
set(CPACK_PACKAGE_VERSION ${version})

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(components weir openmpi)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)  # of the machine that it emulates
  list(APPEND components lab)
endif()
set(CPACK_COMPONENTS_ALL ${components})
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)

string(REGEX MATCH "^[0-9]+" major ${WEIR_OPENMPI_VERSION})
set(plugin weir-openmpi${major})
set(description "RDMA transport for Open MPI that never floods the receiver")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each has its own, in the first line
set(CPACK_COMPONENT_WEIR_DESCRIPTION "${description}
The weir command: what devices there are and what weir would use, what is
wrong on this machine and how to mend it, what the processes of a node do,
which settings it is fastest with, and a simulator of large clusters.

Messages are carried by the plugin, ${plugin}.")
set(CPACK_DEBIAN_WEIR_PACKAGE_NAME weir)
set(CPACK_DEBIAN_WEIR_PACKAGE_DEPENDS "${plugin} (= ${version})")
set(CPACK_DEBIAN_WEIR_PACKAGE_RECOMMENDS "python3, bash-completion")
set(CPACK_DEBIAN_WEIR_PACKAGE_SUGGESTS "weir-lab, gnuplot-nox, environment-modules, clustershell")
set(CPACK_DEBIAN_WEIR_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_SOURCE_DIR}/debian/conffiles)

set(CPACK_COMPONENT_OPENMPI_DESCRIPTION "${description}, plugin
Byte transfer layer over InfiniBand and RoCE for the Open MPI ${major} of this
distribution. Any MPI program uses it with mpirun's options
--mca pml ob1 --mca btl weir,self

It has a shared receive queue that grows and shrinks, large messages read by
the receiver in bounded pieces, one budget for all processes of a node, and
survives outages without a message lost.")
set(CPACK_DEBIAN_OPENMPI_PACKAGE_NAME ${plugin})
set(CPACK_DEBIAN_OPENMPI_PACKAGE_DEPENDS "openmpi-bin, ibverbs-providers")
set(CPACK_DEBIAN_OPENMPI_PACKAGE_RECOMMENDS weir)

set(CPACK_COMPONENT_LAB_DESCRIPTION "run programs on Soft-RoCE in a micro-VM, without an adapter
Boots Debian's kernel with Soft-RoCE and this machine's own root file system,
runs a command in it, and returns its output and exit status: verbs and MPI
programs can be tested in a container or on a machine without RDMA. One node
or two, several rails; packets can be lost, delayed, or cut off.")
set(CPACK_DEBIAN_LAB_PACKAGE_NAME weir-lab)
set(CPACK_DEBIAN_LAB_PACKAGE_SHLIBDEPS OFF)
# The lists of tools/setup: what boots the VM, and what is used inside.
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/tools/setup --list
                OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(lab|guest)  +[^#\n]+" listed "${listed}")  # "lab    NAME...  # why"
list(TRANSFORM listed REPLACE "^[a-z]+ +(.*[^ ]) *$" "\\1")
string(REPLACE "util-linux" "" listed "${listed}")  # every Debian has it
string(REGEX REPLACE "[ ;]+" ", " CPACK_DEBIAN_LAB_PACKAGE_DEPENDS "${listed}")
set(CPACK_DEBIAN_LAB_PACKAGE_SUGGESTS "slurmctld, slurmd, slurm-client, slurm-wlm-basic-plugins, munge, libpmix-dev")

# Policy wants these in each package.
foreach(component IN LISTS components)
  string(TOUPPER ${component} upper)
  set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/doc/${name})
  file(CONFIGURE OUTPUT ${folder}/changelog @ONLY CONTENT
"@name@ (@version@) unstable; urgency=medium

  * What has changed is in CHANGELOG.md.

 -- @CPACK_PACKAGE_CONTACT@  Thu, 01 Jan 2026 00:00:00 +0000
")
  execute_process(COMMAND gzip -9nf ${folder}/changelog COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${folder}/changelog.gz debian/copyright ${CMAKE_SOURCE_DIR}/CHANGELOG.md
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
endforeach()
include(CPack)
