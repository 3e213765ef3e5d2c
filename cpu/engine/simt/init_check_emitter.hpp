// SPDX-License-Identifier: Apache-2.0
// cpu/engine/simt/init_check_emitter.hpp: the tests of init checks in vector code.
#pragma once

#include <functional>

#include "cpu/engine/simt/check_part.hpp"

namespace cucpu::simt {

/// Tests and sets the bits that say which bytes of memory are initialized.
class InitCheckEmitter : public CheckPart {
 public:
  explicit InitCheckEmitter(EmitterParts& parts) : CheckPart{parts} {}

  /// Whether all bytes of an access are. `aligned`: its offset is a multiple of eight.
  Value* is_initialized(const CheckedGroup&, bool aligned = false);
  void set_initialized(const CheckedGroup&);

 private:
  void for_initialized_bits(const CheckedGroup&, bool aligned,
                            const std::function<void(Value*, Value*, Value*)>& visit);
};

}  // namespace cucpu::simt
