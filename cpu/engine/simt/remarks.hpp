// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/remarks.hpp: what the analyses know of each access, branch and source line of a
// kernel, for `cucore explain`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu/engine/engine.hpp"

namespace llvm {
class Function;
}

namespace cucpu::simt {

struct RemarkPlace {
  std::string file;
  unsigned line = 0, column = 0;
  unsigned depth = 0;  ///< of loops around it
};

struct AccessRemark {
  RemarkPlace place;
  const char* what;     ///< load, store or atomic
  std::string space;    ///< global, shared, local, ...
  const char* pattern;  ///< uniform, contiguous, strided or varying
  std::int64_t stride;  ///< bytes from lane to lane, where the pattern is contiguous or strided
  std::uint64_t bytes;  ///< of one thread
};

struct BranchRemark {
  RemarkPlace place;
  bool loop, divergent;
};

struct LineRemark {
  RemarkPlace place;  ///< with the largest depth
  unsigned uniform = 0, strided = 0, varying = 0, barriers = 0, calls = 0;
};

struct Remarks {
  std::vector<AccessRemark> accesses;
  std::vector<BranchRemark> branches;
  std::vector<LineRemark> lines;
};

/// Requires: prepared thread code, as vectorize() takes it. Changes nothing.
Remarks find_remarks(llvm::Function& thread, unsigned width, const Dim3& block);

}  // namespace cucpu::simt
