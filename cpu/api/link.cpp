// SPDX-License-Identifier: Apache-2.0
// cuLink*: links PTX, containers, object files and archives into one container.
#include "cpu/device/context.hpp"
#include "cpu/device/guard.hpp"
#include "cpu/device/module.hpp"
#include "cpu/image/container.hpp"
#include "cpu/image/image.hpp"
#include "cpu/image/link_state.hpp"

using namespace cucpu::driver;

namespace {

void add(LinkState& state, CUjitInputType type, const void* data, std::size_t size) {
  require(data && size > 0);
  require(type >= 0 && type < CU_JIT_NUM_INPUT_TYPES);
  if (type == CU_JIT_INPUT_NVVM)
    throw cucpu::LoadError{CUDA_ERROR_NOT_SUPPORTED,
                           "error: LTO IR is not linked on the CPU device; turn it into PTX first "
                           "(nvJitLink with -ptx does that)"};
  state.options.logged([&] {
    const std::uint32_t target = state.options.load.target;
    const std::string_view archive{static_cast<const char*>(data), size};
    auto texts = type == CU_JIT_INPUT_LIBRARY
                     ? ptx_of_archive(archive, target, state.machine_code_members)
                     : ptx_of_image(data, size, target);
    if (type == CU_JIT_INPUT_PTX) state.options.apply(texts);  // other inputs were compiled before
    for (std::string& text : texts) state.texts.push_back(std::move(text));
    return 0;
  });
}

/// Loads the result of a link once: undefined symbols are errors of the link, not of the load. A
/// symbol may be missing because a library holds its machine code only; the error says so then.
Ref<LoadedModule> load_result(const LinkState& state) {
  const std::string note =
      std::to_string(state.machine_code_members) +
      " members of the linked libraries hold machine code for GPUs only, which the CPU device "
      "cannot link. Build the library with PTX (nvcc -rdc=true -gencode "
      "arch=compute_90,code=compute_90)";
  if (state.texts.empty())
    throw cucpu::LoadError{CUDA_ERROR_NO_BINARY_FOR_GPU, "error: no PTX to link: " + note};
  try {
    return make_object<LoadedModule>(nullptr, state.texts, state.options.load);
  } catch (const cucpu::LoadError& error) {
    if (state.machine_code_members == 0) throw;
    throw cucpu::LoadError{error.code, std::string{error.what()} + "\nnote: " + note};
  }
}

}  // namespace

extern "C" {

CUresult cuLinkCreate(unsigned int count, CUjit_option* options, void** values, CUlinkState* out) {
  return guarded([&] {
    require(out != nullptr);
    const Context& context = current_context();
    auto state = make_object<LinkState>(count, options, values);
    state->options.load.target = target_of(context.device);
    *out = state->publish();
  });
}

CUresult cuLinkAddData(CUlinkState handle, CUjitInputType type, void* data, size_t size,
                       const char*, unsigned int count, CUjit_option* options, void** values) {
  return guarded([&] {
    LinkState& state = object_of<LinkState>(handle);
    const JitOptions checked{count, options, values};
    add(state, type, data, size);
  });
}

CUresult cuLinkAddFile(CUlinkState handle, CUjitInputType type, const char* path,
                       unsigned int count, CUjit_option* options, void** values) {
  return guarded([&] {
    LinkState& state = object_of<LinkState>(handle);
    const JitOptions checked{count, options, values};
    const std::string bytes = read_image_file(path);
    add(state, type, bytes.data(), bytes.size());
  });
}

CUresult cuLinkComplete(CUlinkState handle, void** out, size_t* size) {
  return guarded([&] {
    LinkState& state = object_of<LinkState>(handle);
    require(out && (!state.texts.empty() || state.machine_code_members != 0));
    state.options.logged([&] { return load_result(state); });
    state.output = make_container(state.texts);
    *out = state.output.data();
    if (size) *size = state.output.size();
  });
}

CUresult cuLinkDestroy(CUlinkState handle) {
  return guarded(
      [&] { require(object_of<LinkState>(handle).retire(), CUDA_ERROR_INVALID_HANDLE); });
}

}  // extern "C"
