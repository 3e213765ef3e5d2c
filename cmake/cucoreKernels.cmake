# SPDX-License-Identifier: Apache-2.0
# cucore_add_kernels: puts .cu files into a C++ target.
#
#   cucore_add_kernels(<target> <file.cu>...
#     [COMPILE build|run]        build (default): compiled with the program; run: compiled for the device when first used
#     [FORM ptx|cubin]           of COMPILE build: ptx (default) runs on every later device, cubin on one generation
#     [ARCH sm_90]               default: sm_75 for COMPILE build, the current device's for COMPILE run
#     [STD c++17]                the language of the files
#     [DEFINITIONS NAME=VALUE...] [INCLUDES folder...]
#     [NAMES "add<float>"...]    C++ names that get_kernel() finds
#     [NAMESPACE kernels])       of the functions that are made
#
# For saxpy.cu the target can #include "saxpy.hpp", which declares `const cucore::EmbeddedCode& kernels::saxpy()`.
# COMPILE build needs NVRTC on the machine that builds, COMPILE run on the machine that runs the program.
include_guard(GLOBAL)
set(CUCORE_EMBED_SOURCE "${CMAKE_CURRENT_LIST_DIR}/cucore_embed.cpp")

function(cucore_add_kernels target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "COMPILE;FORM;ARCH;STD;NAMESPACE" "DEFINITIONS;INCLUDES;NAMES")
  set(files ${arg_UNPARSED_ARGUMENTS})
  if(NOT TARGET ${target})
    message(FATAL_ERROR "cucore_add_kernels: ${target} is not a target")
  endif()
  if(NOT files)
    message(FATAL_ERROR "cucore_add_kernels: no .cu files for ${target}")
  endif()
  if(NOT arg_COMPILE)
    set(arg_COMPILE build)
  endif()
  if(NOT arg_COMPILE MATCHES "^(build|run)$")
    message(FATAL_ERROR "cucore_add_kernels: COMPILE must be build or run, not ${arg_COMPILE}")
  endif()
  if(NOT arg_NAMESPACE)
    set(arg_NAMESPACE kernels)
  endif()
  if(arg_COMPILE STREQUAL run)
    if(arg_FORM)
      message(FATAL_ERROR "cucore_add_kernels: FORM is for COMPILE build")
    endif()
    set(arg_FORM source)
  else()
    if(NOT arg_FORM)
      set(arg_FORM ptx)
    elseif(NOT arg_FORM MATCHES "^(ptx|cubin)$")
      message(FATAL_ERROR "cucore_add_kernels: FORM must be ptx or cubin, not ${arg_FORM}")
    endif()
    if(NOT arg_ARCH)
      set(arg_ARCH sm_75)
    endif()
  endif()

  if(NOT TARGET cucore_embed)
    add_executable(cucore_embed EXCLUDE_FROM_ALL "${CUCORE_EMBED_SOURCE}")
    target_link_libraries(cucore_embed PRIVATE cucore::cucore)
  endif()

  set(options "")
  if(arg_ARCH)
    list(APPEND options --arch ${arg_ARCH})
  endif()
  if(arg_STD)
    list(APPEND options --std ${arg_STD})
  endif()
  foreach(definition IN LISTS arg_DEFINITIONS)
    list(APPEND options --define "${definition}")
  endforeach()
  foreach(folder IN LISTS arg_INCLUDES)
    get_filename_component(folder "${folder}" ABSOLUTE)
    list(APPEND options --include "${folder}")
  endforeach()
  foreach(name IN LISTS arg_NAMES)
    list(APPEND options --name "${name}")
  endforeach()

  set(folder "${CMAKE_CURRENT_BINARY_DIR}/cucore_kernels/${target}")
  foreach(file IN LISTS files)
    get_filename_component(path "${file}" ABSOLUTE)
    get_filename_component(stem "${file}" NAME_WE)
    string(MAKE_C_IDENTIFIER "${stem}" function)
    set(header "// Written by cucore_add_kernels() from ${file}.
#pragma once

#include \"cucore/embedded_code.hpp\"

namespace ${arg_NAMESPACE} {

/// The code of ${file}.
const cucore::EmbeddedCode& ${function}();

}  // namespace ${arg_NAMESPACE}
")
    file(CONFIGURE OUTPUT "${folder}/${function}.hpp" CONTENT "${header}" @ONLY)
    add_custom_command(
      OUTPUT "${folder}/${function}.cpp"
      COMMAND cucore_embed "${path}" "${folder}/${function}.cpp" ${arg_FORM} ${arg_NAMESPACE} ${function} ${options}
      DEPENDS cucore_embed "${path}"
      COMMENT "Embedding ${file} (${arg_FORM})"
      VERBATIM)
    target_sources(${target} PRIVATE "${folder}/${function}.cpp")
  endforeach()
  target_include_directories(${target} PRIVATE "${folder}")
  target_link_libraries(${target} PRIVATE cucore::cucore)
endfunction()
