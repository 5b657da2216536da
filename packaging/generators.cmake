# Read by cpack: one tarball of all, in folders that do not depend on the distribution; a package for each component.
# SPDX-License-Identifier: MIT
if(CPACK_GENERATOR STREQUAL TGZ)
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  list(APPEND CPACK_COMPONENTS_ALL bundled)
else()
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_COMPONENTS_GROUPING IGNORE)
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_documents.cmake)
endif()
