# Debian packages of the three components (cpack -G DEB) and a tarball with the libraries they need (cpack -G TGZ);
# packaging/build.sh makes both. SPDX-License-Identifier: MIT
set(CPACK_PACKAGE_NAME polymio)
set(CPACK_PACKAGE_VENDOR "The Polymio authors")
set(CPACK_PACKAGE_CONTACT "The Polymio authors <authors@polymio.invalid>")  # in the form wanted; the project has no address
set(CPACK_PACKAGE_FILE_NAME polymio-${PROJECT_VERSION}-linux-x86_64-glibc2.34)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL runtime dev drop-in)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/packaging/generators.cmake)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME polymio)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "MIOpen C API on CPUs and GPUs
The library runs programs that were written against MIOpen on CPUs, NVIDIA
GPUs and OpenCL devices. It is an independent project, not AMD's. This package
has the library, its driver program polymio-driver and packs of find results.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME polymio-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "polymio (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_DEV_DESCRIPTION "MIOpen C API on CPUs and GPUs (development files)
This package has the headers and what pkg-config and CMake need to find the
library, all in folders that AMD's packages do not use.")
set(CPACK_DEBIAN_DROP-IN_PACKAGE_NAME polymio-drop-in)
set(CPACK_DEBIAN_DROP-IN_PACKAGE_DEPENDS "polymio (= ${PROJECT_VERSION}), polymio-dev (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DROP-IN_PACKAGE_CONFLICTS "miopen-hip, miopen-hip-dev, miopen-opencl, libmiopen1, libmiopen-dev")
set(CPACK_COMPONENT_DROP-IN_DESCRIPTION "MIOpen C API on CPUs and GPUs (in the place of MIOpen)
This package has links from where AMD's MIOpen has its library, headers, CMake
files and driver, so that programs find Polymio under these names.")
include(CPack)
