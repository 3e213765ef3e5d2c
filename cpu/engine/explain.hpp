// SPDX-License-Identifier: Apache-2.0
// cpu/engine/explain.hpp: `cucore explain`: how a kernel is compiled for a block shape. No LLVM in
// this header.
#pragma once

#include <string>
#include <string_view>

#include "cpu/engine/engine.hpp"

namespace cucpu {

/// Compiles a kernel of a PTX text and describes the result as JSON: path, width, accesses,
/// branches, lines, assembly. An empty name: the first kernel. Nothing is cached. Throws LoadError.
std::string explain_kernel(std::string_view ptx, const std::string& kernel, const Dim3& block);

}  // namespace cucpu
