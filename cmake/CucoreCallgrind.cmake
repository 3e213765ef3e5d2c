# Lets a benchmark tell callgrind where a measurement begins and ends, where its header is there. Asked here and not by
# __has_include: a compiler cache does not see a header that has come since.
include(CheckIncludeFileCXX)
check_include_file_cxx(valgrind/callgrind.h CUCORE_HAVE_CALLGRIND)

function(cucore_count_with_callgrind target)
  if(CUCORE_HAVE_CALLGRIND)
    target_compile_definitions(${target} PRIVATE CUCORE_BENCH_CALLGRIND)
  endif()
endfunction()
