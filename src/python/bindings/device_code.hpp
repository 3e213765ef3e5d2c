// SPDX-License-Identifier: Apache-2.0
// device_code.hpp: machine code that also runs on the CPU device.
#pragma once
#include <string_view>

namespace cucore::bindings {

/// The function to call instead of this one of NVRTC or nvJitLink, which is at `address`, or null.
/// On the CPU device the cubins they return are containers with PTX, as those of cuda.core are;
/// with a GPU the replacements call the library's own functions and nothing else.
void* device_code_in_place_of(std::string_view function, void* address);

/// Stores the options of an NVRTC program until the program is destroyed.
void note_compilation(void* program, int count, const char* const* options);
void forget_compilation(void* program);

}  // namespace cucore::bindings
