# SPDX-License-Identifier: Apache-2.0
# Compiler settings of all targets: link cucore_options (PRIVATE).
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(cucore_options INTERFACE)
target_compile_options(cucore_options INTERFACE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 14)
  target_compile_options(cucore_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # false positives: GCC bug 105651
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15)
  target_compile_options(cucore_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>)  # false positives on moved strings
endif()
# "protection.hpp": the hooks of tools/protections, for the driver library and the C++ library.
configure_file(${CMAKE_CURRENT_LIST_DIR}/protection.hpp.in ${PROJECT_BINARY_DIR}/generated/options/protection.hpp)
target_include_directories(cucore_options INTERFACE ${PROJECT_BINARY_DIR}/generated/options)
if(CUCORE_WERROR)
  target_compile_options(cucore_options INTERFACE -Werror)
endif()
if(CUCORE_SANITIZE)
  # No -fsanitize=enum: callers of a C API may pass any number as an enum, and the callee validates it. Without
  # -fstrict-enums this is defined behaviour in GCC and clang.
  target_compile_options(cucore_options INTERFACE -fsanitize=${CUCORE_SANITIZE} -fno-sanitize=enum -fno-omit-frame-pointer)
  target_link_options(cucore_options INTERFACE -fsanitize=${CUCORE_SANITIZE})
endif()
if(CUCORE_FUZZ)  # clang: coverage for libFuzzer, with sanitizers that abort; enums as above
  target_compile_options(cucore_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=enum -fno-sanitize-recover=undefined)
  target_link_options(cucore_options INTERFACE -fsanitize=address,undefined)
endif()
if(CUCORE_COVERAGE)
  target_compile_options(cucore_options INTERFACE --coverage -O0 -g)
  target_link_options(cucore_options INTERFACE --coverage)
endif()

# Calls functions of other libraries through the GOT instead of PLT stubs: after a driver call the stubs are usually no longer
# in the instruction cache.
function(cucore_call_directly target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fno-plt)
  endif()
endfunction()
