# Writes the header FILE with the commit of SOURCE, "" outside a repository, unless FILE has it already.
# SPDX-License-Identifier: MIT
set(commit "")
if(EXISTS ${SOURCE}/.git)
  execute_process(COMMAND git --no-optional-locks describe --always --dirty --exclude=* --abbrev=12
                  WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit ERROR_QUIET)
  string(REPLACE "\n" "" commit "${commit}")
endif()
file(CONFIGURE OUTPUT ${FILE} @ONLY CONTENT [[
#pragma once
inline constexpr char kCommit[] = "@commit@";
]])
