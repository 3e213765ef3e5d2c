# SPDX-License-Identifier: Apache-2.0
# -DCUCORE_GLIBC=2.28: links all targets for systems with that glibc or a later one (tools/link_stubs.py).
if(NOT CUCORE_GLIBC)
  return()
endif()
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  message(FATAL_ERROR "CUCORE_GLIBC needs GCC, not ${CMAKE_CXX_COMPILER_ID}")
endif()
set(stubs ${PROJECT_BINARY_DIR}/link_stubs)
execute_process(COMMAND ${Python_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/link_stubs.py ${stubs}
  --compiler ${CMAKE_CXX_COMPILER} --glibc ${CUCORE_GLIBC} COMMAND_ERROR_IS_FATAL ANY)
# Up to glibc 2.33, threads and dlopen() are in libraries of their own.
add_link_options(-L${stubs} -Wl,--exclude-libs,libstdc++.a:libgcc.a:libcucore_compat.a
  -Wl,--push-state,--no-as-needed -lpthread -ldl -Wl,--pop-state)
