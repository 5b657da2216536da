# What `cmake --install` puts where, in three components: runtime, dev, and drop-in, which has the names that AMD's packages
# have too. All else is in folders of our own. The tree may be moved: links, RPATHs and CMake files are relative.
# The component bundled, installed only if named, has the libraries of the distribution that ours needs.
# SPDX-License-Identifier: MIT
include(CMakePackageConfigHelpers)
set(doc ${CMAKE_INSTALL_DATADIR}/doc/polymio)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake)
set_target_properties(MIOpenDriver PROPERTIES INSTALL_RPATH $ORIGIN/..)
install(TARGETS MIOpen EXPORT polymio COMPONENT runtime LIBRARY DESTINATION ${polymio_library_dir} NAMELINK_COMPONENT dev)
install(TARGETS MIOpenDriver DESTINATION ${polymio_library_dir}/bin COMPONENT runtime)
install(DIRECTORY packs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/polymio/db COMPONENT runtime)  # where the library looks for them
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${doc} COMPONENT runtime)
install(DIRECTORY docs DESTINATION ${doc} COMPONENT runtime)
install(DIRECTORY include/miopen DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/polymio COMPONENT dev)
install(EXPORT polymio DESTINATION ${cmake_dir}/polymio FILE polymio-config.cmake COMPONENT dev)

set(out ${CMAKE_BINARY_DIR}/install)
file(REMOVE_RECURSE ${out})
write_basic_package_version_file(${out}/polymio-config-version.cmake VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
write_basic_package_version_file(${out}/miopen-config-version.cmake VERSION ${version_level} COMPATIBILITY AnyNewerVersion)
configure_file(cmake/miopen-config.cmake ${out}/miopen-config.cmake COPYONLY)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
  set(pc_prefix /usr)  # an RPATH through pkgconfig/.. would need that folder wherever the program runs
else()
  set(pc_prefix "\${pcfiledir}/${up}")
endif()
configure_file(cmake/polymio.pc.in ${out}/polymio.pc @ONLY)
install(FILES ${out}/polymio.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
install(FILES ${out}/polymio-config-version.cmake DESTINATION ${cmake_dir}/polymio COMPONENT dev)

file(RELATIVE_PATH from_bin /${CMAKE_INSTALL_BINDIR} /${polymio_library_dir}/bin/MIOpenDriver)
set(drop_in_links "")
foreach(link "runtime ${polymio_library_dir}/libpolymio.so.1 libMIOpen.so.1" "dev ${polymio_library_dir}/libpolymio.so libMIOpen.so"
        "runtime ${CMAKE_INSTALL_BINDIR}/polymio-driver ${from_bin}" "drop-in ${CMAKE_INSTALL_BINDIR}/MIOpenDriver ${from_bin}"
        "drop-in ${CMAKE_INSTALL_LIBDIR}/libMIOpen.so.1 polymio/libMIOpen.so.1"
        "drop-in ${CMAKE_INSTALL_LIBDIR}/libMIOpen.so polymio/libMIOpen.so.1"
        "drop-in ${CMAKE_INSTALL_INCLUDEDIR}/miopen polymio/miopen")
  string(REPLACE " " ";" link ${link})
  list(POP_FRONT link component name)
  cmake_path(GET name PARENT_PATH folder)
  file(MAKE_DIRECTORY ${out}/${component}/${folder})
  file(CREATE_LINK ${link} ${out}/${component}/${name} SYMBOLIC)
  if(component STREQUAL drop-in)
    string(APPEND drop_in_links " ${name} ${link}")
  endif()
endforeach()
string(CONFIGURE [[
set(links @drop_in_links@)
while(links)
  list(POP_FRONT links name wanted)
  set(file $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${name})
  set(target "")
  if(IS_SYMLINK ${file})
    file(READ_SYMLINK ${file} target)
  endif()
  if((EXISTS ${file} OR IS_SYMLINK ${file}) AND NOT target STREQUAL wanted)
    message(FATAL_ERROR "${file} belongs to another MIOpen and is kept: choose another prefix, or install only the components \
runtime and dev (cmake --install BUILD --component NAME)")
  endif()
endwhile()
]] keep_others @ONLY)
install(CODE "${keep_others}" COMPONENT drop-in)  # before all else of drop-in, so that a refusal leaves nothing
install(FILES ${out}/miopen-config.cmake ${out}/miopen-config-version.cmake DESTINATION ${cmake_dir}/miopen COMPONENT drop-in)
foreach(component runtime dev drop-in)
  install(DIRECTORY ${out}/${component}/ DESTINATION . COMPONENT ${component})
endforeach()

foreach(library TBB::tbb fmt::fmt ${XXHASH_LIBRARY})
  if(TARGET ${library})
    set(library $<TARGET_FILE:${library}>)
  endif()
  install(CODE "
execute_process(COMMAND ${CMAKE_OBJDUMP} -p ${library} OUTPUT_VARIABLE head COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH \"SONAME +([^\\n]+)\" soname \"\${head}\")
file(REAL_PATH ${library} file)
file(INSTALL \${file} DESTINATION \${CMAKE_INSTALL_PREFIX}/${polymio_library_dir} RENAME \${CMAKE_MATCH_1})
" COMPONENT bundled EXCLUDE_FROM_ALL)
endforeach()
foreach(package libtbb12 libfmt9 libxxhash0)  # where Debian keeps their licences
  install(FILES /usr/share/doc/${package}/copyright DESTINATION ${doc}/licences RENAME ${package} COMPONENT bundled
          OPTIONAL EXCLUDE_FROM_ALL)
endforeach()
