# Compiler settings every target shares: link cucore_options (PRIVATE) to get them.
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
  target_compile_options(cucore_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)  # false: GCC bug 105651
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13 AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15)
  target_compile_options(cucore_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds>)  # false alarms on moved strings
endif()
if(CUCORE_WERROR)
  target_compile_options(cucore_options INTERFACE -Werror)
endif()
if(CUCORE_SANITIZE)
  # Callers of a C API may put any number into an enum, and it is checked where it arrives; without -fstrict-enums GCC and
  # clang give that a meaning, and so it is no finding.
  target_compile_options(cucore_options INTERFACE -fsanitize=${CUCORE_SANITIZE} -fno-sanitize=enum -fno-omit-frame-pointer)
  target_link_options(cucore_options INTERFACE -fsanitize=${CUCORE_SANITIZE})
endif()
if(CUCORE_FUZZ)  # clang: coverage for libFuzzer, and sanitizers that turn a slip into a find; enums as above
  target_compile_options(cucore_options INTERFACE -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=enum -fno-sanitize-recover=undefined)
  target_link_options(cucore_options INTERFACE -fsanitize=address,undefined)
endif()
if(CUCORE_COVERAGE)
  target_compile_options(cucore_options INTERFACE --coverage -O0 -g)
  target_link_options(cucore_options INTERFACE --coverage)
endif()

# Calls into other libraries straight through their table of addresses: the stubs in between are lines of code that a call after
# some microseconds of a driver finds in no near cache.
function(cucore_call_directly target)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fno-plt)
  endif()
endfunction()
