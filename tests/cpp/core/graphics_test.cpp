// SPDX-License-Identifier: Apache-2.0
// graphics_test.cpp: memory of OpenGL. No OpenGL context is current here: what is needed is said.
#include "cucore/graphics.hpp"

#include <string>

#include "support.hpp"

namespace cucore {
namespace {

static_assert(!std::is_copy_constructible_v<GraphicsResource> &&
              std::is_nothrow_move_constructible_v<GraphicsResource>);

class GraphicsTest : public testing::WithDevice {};

TEST_F(GraphicsTest, ARegistrationWithoutAnOpenGLContextSaysWhatIsNeeded) {
  for (const bool is_image : {false, true}) {
    try {
      is_image ? GraphicsResource::from_gl_image(1, 0x0DE1) : GraphicsResource::from_gl_buffer(1);
      FAIL();
    } catch (const CUDAError& error) {
      EXPECT_NE(std::string{error.what()}.find("OpenGL context"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace cucore
