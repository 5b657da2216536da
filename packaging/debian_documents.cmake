# What Debian wants of each package: the licence under its name for it, a compressed changelog in its format, and the
# reasons for what lintian would report.
# SPDX-License-Identifier: MIT
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(doc ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr/share/doc/${package})
  file(MAKE_DIRECTORY ${doc})
  file(REMOVE ${doc}/LICENSE)
  file(COPY_FILE ${CPACK_RESOURCE_FILE_LICENSE} ${doc}/copyright)
  file(WRITE ${doc}/changelog "polymio (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * See /usr/share/doc/polymio/CHANGELOG.md.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/${package}.lintian-overrides)
    file(MAKE_DIRECTORY ${doc}/../../lintian/overrides)
    file(COPY_FILE ${CMAKE_CURRENT_LIST_DIR}/${package}.lintian-overrides ${doc}/../../lintian/overrides/${package})
  endif()
  execute_process(COMMAND gzip -9nf ${doc}/changelog COMMAND_ERROR_IS_FATAL ANY)
endforeach()
