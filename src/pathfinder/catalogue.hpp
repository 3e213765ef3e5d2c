// SPDX-License-Identifier: Apache-2.0
// catalogue.hpp: the components that NVIDIA ships, their names, and the folders that installers
// use. The rows are in catalogue.cpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cucore/pathfinder.hpp"

namespace cucore::pathfinder {

/// The installer of a component: selects the folders to search and the SUPPORTED_* table that lists
/// it.
enum class Origin { toolkit, other, driver };

/// List elements are separated by spaces and searched in order. Folders are relative: `wheel` to a
/// site-packages folder, `conda` to CONDA_PREFIX, `root` to a toolkit root (CUDA_PATH) or to the
/// product's root. "@" in a folder is replaced by target_name() ("x86_64-linux", "sbsa-linux").
struct Entry {
  std::string_view name;
  Origin origin;
  std::string_view files;  ///< sonames, or the file whose presence identifies the component
  std::string_view wheel;
  std::string_view conda;
  std::string_view root;
  std::string_view needs = {};      ///< libraries to load first; for headers: the header set that
                                    ///< they include (compiler_headers)
  std::string_view variables = {};  ///< environment variables with the product's root
  std::string_view machine = {};    ///< the only supported architecture ("aarch64"); empty: all
};

std::span<const Entry> entries(Kind kind);
const Entry* find_entry(Kind kind, std::string_view name);
/// The compiler's headers (crt/), which the runtime's headers include. They have no public name:
/// toolkits install them with the runtime's headers, wheels in a separate package.
const Entry& compiler_headers();
std::vector<std::string_view> split(std::string_view list);

}  // namespace cucore::pathfinder
