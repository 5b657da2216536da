#!/bin/sh
# Compiles a program in C against an installation by pkg-config, by both find_packages and by the names of MIOpen alone,
# and runs each. Usage: client.sh PROGRAM.c PREFIX FOLDER (new, for what it builds)
# SPDX-License-Identifier: MIT
set -eu
program=$(realpath "$1") prefix=$(realpath "$2") work=$3
mkdir "$work"
cd "$work"
export MIOPEN_USER_DB_PATH="$PWD/db" CMAKE_PREFIX_PATH="$prefix"
lib=$(dirname "$(find "$prefix"/lib -path '*/pkgconfig/polymio.pc')")
lib=$(dirname "$lib")
PKG_CONFIG_PATH=$lib/pkgconfig
export PKG_CONFIG_PATH
unset LD_LIBRARY_PATH

run() {  # what command...
  what=$1
  shift
  if ! output=$("$@" 2>&1); then
    printf '%s failed:\n%s\n' "$what" "$output" >&2
    exit 1
  fi
}

# shellcheck disable=SC2046
run "compiling by pkg-config" cc "$program" $(pkg-config --cflags polymio) -o by_pkg_config $(pkg-config --libs polymio)
for package in polymio miopen; do
  mkdir $package
  cat >$package/CMakeLists.txt <<LISTS
cmake_minimum_required(VERSION 3.16)
project(client C)
find_package($package REQUIRED)
foreach(property TYPE LOCATION)
  get_target_property(value MIOpen \${property})
  if(NOT value MATCHES "SHARED_LIBRARY|/libMIOpen.so")
    message(FATAL_ERROR "MIOpen has \${property} '\${value}'")
  endif()
endforeach()
add_executable(by_$package $program)
target_link_libraries(by_$package MIOpen)
LISTS
  run "find_package($package)" cmake -S $package -B $package/build
  run "building with find_package($package)" cmake --build $package/build
done
run "compiling with -lMIOpen" cc "$program" -I"$prefix/include" -o by_name -L"$lib" -lMIOpen
for file in ./by_pkg_config polymio/build/by_polymio miopen/build/by_miopen; do
  run "running $file" "$file"
done
run "running by_name" env LD_LIBRARY_PATH="$([ "$prefix" = /usr ] || echo "$lib")" ./by_name
for name in MIOpenDriver polymio-driver; do
  run "$name" "$prefix/bin/$name" doctor
done
echo "$output" | grep -q "$prefix/share/polymio/db" || { echo "the library does not find its packs: $output" >&2; exit 1; }
echo "programs by pkg-config, find_package(polymio), find_package(miopen) and -lMIOpen run"
