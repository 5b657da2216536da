# SPDX-License-Identifier: MIT
# Instruction sets of CPU kernels, the best first: name, what CpuIsa calls it, what a processor must have, flags.
set(POLYMIO_CPU_ISAS all CACHE STRING "CPU kernels for: all, tested (this machine's, of generic what is tested on \
every set; other sources are only checked for errors), native (this machine's best one) or a list of generic, avx2, \
avx512, avx512_bf16, avx512_amx; always avx512, too, for the last two, and generic unless it is native alone")
foreach(isa ${POLYMIO_CPU_ISAS})
  if(NOT isa MATCHES "^(all|tested|native|generic|avx2|avx512|avx512_bf16|avx512_amx)$")
    message(FATAL_ERROR "POLYMIO_CPU_ISAS: ${isa} is none of all, tested, native, generic, avx2, avx512, avx512_bf16, \
avx512_amx")
  endif()
endforeach()
set(polymio_isas "")
set(polymio_shared "")
set(polymio_generic_sources ${polymio_isa_sources})
set(polymio_generic_is_complete true)
# Templates are instantiated, but no code is generated, which takes nearly all of the time.
function(polymio_check_isa name)
  add_library(polymio_check_${name} OBJECT ${polymio_isa_sources})
  if(name MATCHES "avx512_")
    set_property(TARGET polymio_check_${name} PROPERTY SOURCES ${polymio_product_sources})
    target_compile_definitions(polymio_check_${name} PRIVATE POLYMIO_SHARED_NAMESPACE=avx512)
  endif()
  set_target_properties(polymio_check_${name} PROPERTIES CXX_COMPILER_LAUNCHER
    "${Python3_EXECUTABLE};${PROJECT_SOURCE_DIR}/tools/syntax_only.py")
  target_include_directories(polymio_check_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(polymio_check_${name} PRIVATE POLYMIO_ISA_NAMESPACE=${name})
  target_compile_options(polymio_check_${name} PRIVATE ${ARGN})
endfunction()
function(polymio_isa name id condition)
  if(name STREQUAL "${polymio_shared}" OR name IN_LIST POLYMIO_CPU_ISAS)
  elseif(name STREQUAL "generic" AND NOT (POLYMIO_CPU_ISAS STREQUAL "native" AND polymio_isas))
  elseif(POLYMIO_CPU_ISAS MATCHES "native|tested")
    if(polymio_isas AND POLYMIO_CPU_ISAS MATCHES native)
      return()
    endif()
    check_cxx_source_runs("int main() { return ${condition} ? 0 : 1; }" POLYMIO_RUNS_${name})
    if(NOT POLYMIO_RUNS_${name})
      if(POLYMIO_CPU_ISAS MATCHES tested)
        polymio_check_isa(${name} ${ARGN})
      endif()
      return()
    endif()
  elseif(NOT "all" IN_LIST POLYMIO_CPU_ISAS)
    return()
  endif()
  set(polymio_isas "${polymio_isas} \\\n  X(${id}, ${name}, ${condition})" PARENT_SCOPE)
  if(name MATCHES "avx512_")
    set(polymio_shared avx512 PARENT_SCOPE)
    add_library(polymio_isa_${name} OBJECT ${polymio_product_sources})
    target_compile_definitions(polymio_isa_${name} PRIVATE POLYMIO_SHARED_NAMESPACE=avx512)
  elseif(name STREQUAL "generic")
    if(polymio_isas AND (POLYMIO_SANITIZE OR POLYMIO_CPU_ISAS MATCHES tested))
      # Tests run on this machine's best instruction set, but for families that are tested on each.
      list(FILTER polymio_generic_sources INCLUDE REGEX "/(activation|peak)\\.cc$")
      set(polymio_generic_is_complete false PARENT_SCOPE)
      if(POLYMIO_CPU_ISAS MATCHES tested)
        polymio_check_isa(generic)
      endif()
    endif()
    add_library(polymio_isa_${name} OBJECT ${polymio_generic_sources})
  else()
    add_library(polymio_isa_${name} OBJECT ${polymio_isa_sources})
  endif()
  target_include_directories(polymio_isa_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_compile_definitions(polymio_isa_${name} PRIVATE POLYMIO_ISA_NAMESPACE=${name})
  if(NOT name MATCHES avx512)
    # Not by SLP: a vector read of neighbouring fields that have just been written one by one waits until the stores
    # before them are done, results that go to memory among them. With AVX-512 it makes no difference.
    target_compile_options(polymio_isa_${name} PRIVATE -fno-tree-slp-vectorize)
  endif()
  target_compile_options(polymio_isa_${name} PRIVATE ${ARGN})
  if(POLYMIO_SANITIZE)
    target_compile_options(polymio_isa_${name} PRIVATE -g0)  # a fifth of the compile time; reports keep functions' names
  else()
    # Kernels neither throw nor call what may: unwind tables of almost 1 MiB would serve nobody.
    target_compile_options(polymio_isa_${name} PRIVATE -fno-exceptions -fno-asynchronous-unwind-tables)
    if(name STREQUAL "generic" AND polymio_isas)
      target_compile_options(polymio_isa_${name} PRIVATE -O1)  # for processors of 2012 and older: time to compile counts
    endif()
  endif()
  set(polymio_objects_all ${polymio_objects_all} $<TARGET_OBJECTS:polymio_isa_${name}> PARENT_SCOPE)
endfunction()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx512 "__builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\") && \
__builtin_cpu_supports(\"avx512vl\") && __builtin_cpu_supports(\"avx512dq\")")
  set(avx512_flags -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512)
  set(avx512_bf16 "${avx512} && __builtin_cpu_supports(\"avx512bf16\") && __builtin_cpu_supports(\"avx512vnni\")")
  # Not every compiler can ask for AMX.
  check_cxx_source_compiles("int main() { return __builtin_cpu_supports(\"amx-bf16\"); }" POLYMIO_ASKS_FOR_AMX)
  if(POLYMIO_ASKS_FOR_AMX)
    polymio_isa(avx512_amx kAvx512Amx "${avx512_bf16} && __builtin_cpu_supports(\"amx-tile\") && \
__builtin_cpu_supports(\"amx-bf16\") && __builtin_cpu_supports(\"amx-int8\")"
                ${avx512_flags} -mavx512bf16 -mavx512vnni -mamx-tile -mamx-bf16 -mamx-int8)
  endif()
  polymio_isa(avx512_bf16 kAvx512Bf16 "${avx512_bf16}" ${avx512_flags} -mavx512bf16 -mavx512vnni)
  polymio_isa(avx512 kAvx512 "${avx512}" ${avx512_flags})
  polymio_isa(avx2 kAvx2 "__builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\")" -mavx2 -mfma -mf16c)
endif()
polymio_isa(generic kGeneric true)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/base/built_isas.h @ONLY CONTENT [[
// Generated by CMake: X(what CpuIsa calls it, namespace, whether this processor has it), the best first.
// SPDX-License-Identifier: MIT
#pragma once
#define POLYMIO_BUILT_ISAS(X)@polymio_isas@
namespace polymio {
/// Whether all families of kernels are built for generic, or those with kTestedPerInstructionSet only.
inline constexpr bool kGenericIsComplete = @polymio_generic_is_complete@;
}  // namespace polymio
]])
