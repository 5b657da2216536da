# find_package(miopen): the target MIOpen, and the variables of MIOpen's own configuration. SPDX-License-Identifier: MIT
include(${CMAKE_CURRENT_LIST_DIR}/../polymio/polymio-config.cmake)
get_target_property(miopen_INCLUDE_DIR MIOpen INTERFACE_INCLUDE_DIRECTORIES)
set(miopen_INCLUDE_DIRS ${miopen_INCLUDE_DIR})
set(miopen_LIBRARY MIOpen)
set(miopen_LIBRARIES MIOpen)
