// SPDX-License-Identifier: Apache-2.0
// cpu/image/link_state.hpp: the inputs of a link (cuLinkCreate) and its output.
#pragma once

#include <string>
#include <vector>

#include "cpu/base/object.hpp"
#include "cpu/image/jit_options.hpp"

namespace cucpu::driver {

class LinkState final : public Handled<LinkState, CUlinkState, Kind::link> {
 public:
  LinkState(unsigned count, CUjit_option* options, void** values)
      : options{count, options, values} {
    this->options.load.info_log = &this->options.info;
  }
  JitOptions options;  // the caller keeps its lists and buffers until cuLinkDestroy
  std::vector<std::string> texts;
  std::size_t machine_code_members = 0;  ///< members of archives that hold no PTX
  std::string output;
};

}  // namespace cucpu::driver
