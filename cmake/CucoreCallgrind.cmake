# SPDX-License-Identifier: Apache-2.0
# Enables callgrind client requests in a benchmark if valgrind's header is installed. CMake checks for the header instead
# of __has_include, because a compiler cache does not detect a header that was installed later.
include(CheckIncludeFileCXX)
check_include_file_cxx(valgrind/callgrind.h CUCORE_HAVE_CALLGRIND)

function(cucore_count_with_callgrind target)
  if(CUCORE_HAVE_CALLGRIND)
    target_compile_definitions(${target} PRIVATE CUCORE_BENCH_CALLGRIND)
  endif()
endfunction()
