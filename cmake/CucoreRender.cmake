# SPDX-License-Identifier: Apache-2.0
# cucore_render_files(TARGET name SCRIPT codegen/script.py OUT folder FILES a.inc ... DEPENDS api/x.json ... COMMENT text)
# adds the target `name`, which renders FILES into the folder whenever the script or a file of DEPENDS changes. Paths of
# SCRIPT and DEPENDS are relative to the project. The files are also rendered at configure time, so that editors and
# dependency scans find them before the first build.
function(cucore_render_files)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET;SCRIPT;OUT;COMMENT" "FILES;DEPENDS")
  set(render ${Python_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/${arg_SCRIPT} --out ${arg_OUT})
  list(TRANSFORM arg_FILES PREPEND ${arg_OUT}/)
  list(TRANSFORM arg_DEPENDS PREPEND ${PROJECT_SOURCE_DIR}/)
  execute_process(COMMAND ${render} COMMAND_ERROR_IS_FATAL ANY)
  add_custom_command(
    OUTPUT ${arg_OUT}/rendered.stamp
    BYPRODUCTS ${arg_FILES}
    COMMAND ${render}
    COMMAND ${CMAKE_COMMAND} -E touch ${arg_OUT}/rendered.stamp
    DEPENDS ${PROJECT_SOURCE_DIR}/${arg_SCRIPT} ${arg_DEPENDS}
    COMMENT ${arg_COMMENT})
  add_custom_target(${arg_TARGET} DEPENDS ${arg_OUT}/rendered.stamp)
endfunction()
