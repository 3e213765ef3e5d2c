// SPDX-License-Identifier: Apache-2.0
// SHA-256 against the examples of its standard.
#include "core/sha256.hpp"

#include <gtest/gtest.h>

namespace cucore::detail {
namespace {

TEST(Sha256, AgreesWithTheStandardsExamples) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheSameDigestAsTheWhole) {
  const std::string text(1000, 'x');
  for (const std::size_t step : {1, 7, 63, 64, 65, 999}) {
    Sha256 hash;
    for (std::size_t i = 0; i < text.size(); i += step)
      hash.add(std::string_view{text}.substr(i, step));
    EXPECT_EQ(hash.digest(), sha256(text)) << step;
  }
}

TEST(Sha256, FieldsDoNotRunIntoEachOther) {
  EXPECT_NE(Sha256{}.add_field("ab").add_field("c").digest(),
            Sha256{}.add_field("a").add_field("bc").digest());
}

}  // namespace
}  // namespace cucore::detail
