# find_package(miopen): MIOpen, with hip::host. SPDX-License-Identifier: MIT
get_filename_component(MIOPEN_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
include(CMakeFindDependencyMacro)
find_dependency(hip PATHS "${MIOPEN_PREFIX}" NO_DEFAULT_PATH)
set(miopen_INCLUDE_DIR "${MIOPEN_PREFIX}/include")
set(miopen_INCLUDE_DIRS "${miopen_INCLUDE_DIR}")
set(miopen_LIBRARY MIOpen)
set(miopen_LIBRARIES MIOpen)
if(NOT TARGET MIOpen)
  add_library(MIOpen SHARED IMPORTED)
  set_target_properties(MIOpen PROPERTIES IMPORTED_LOCATION "${MIOPEN_PREFIX}/lib/libMIOpen.so"
    INTERFACE_INCLUDE_DIRECTORIES "${miopen_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES hip::host)
endif()
