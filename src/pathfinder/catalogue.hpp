// The catalogue: what NVIDIA ships, under which names, and where installers put it. Facts only;
// catalogue.cpp holds the rows.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cucore/pathfinder.hpp"

namespace cucore::pathfinder {

/// Who installs a component: it decides which places are searched, and which SUPPORTED_* table
/// shows it.
enum class Origin { toolkit, other, driver };

/// Lists are separated by blanks and are in the order in which they are tried. Folders are relative
/// to what they hang from: `wheel` to a site-packages folder, `conda` to CONDA_PREFIX, `root` to a
/// toolkit root (CUDA_PATH) or a product's own root.
/// "@" in a folder stands for the toolkit's target name of this machine ("x86_64-linux",
/// "sbsa-linux").
struct Entry {
  std::string_view name;
  Origin origin;
  std::string_view files;  ///< sonames, or the file that proves the component
  std::string_view wheel;
  std::string_view conda;
  std::string_view root;
  std::string_view needs = {};      ///< dynamic libraries that must be loaded first; for headers:
                                    ///< the set they include (compiler_headers)
  std::string_view variables = {};  ///< environment variables that name the product's own root
  std::string_view machine = {};    ///< only made for this machine ("aarch64"); empty: for all
};

std::span<const Entry> entries(Kind kind);
const Entry* find_entry(Kind kind, std::string_view name);
/// The headers of the compiler (crt/), which the runtime's headers include. Nobody asks for them by
/// name: toolkits have them beside the runtime's, wheels in a package of their own.
const Entry& compiler_headers();
std::vector<std::string_view> split(std::string_view list);

}  // namespace cucore::pathfinder
