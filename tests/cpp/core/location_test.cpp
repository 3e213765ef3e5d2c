// SPDX-License-Identifier: Apache-2.0
#include "cucore/location.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <unordered_set>

namespace cucore {
namespace {

TEST(LocationTest, PlacesOfTheHostAreChosenByNodeAndThread) {
  EXPECT_EQ(Location::host_of(std::nullopt, false), Location::host());
  EXPECT_EQ(Location::host_of(std::nullopt, true), Location::host_numa_current());
  EXPECT_EQ(Location::host_of(2, false), Location::host_numa(2));
  EXPECT_EQ(Location::host_of(2, false).numa_id(), 2);
  EXPECT_EQ(Location::host().numa_id(), std::nullopt);
  EXPECT_EQ(Location::device(2).numa_id(), std::nullopt);
  EXPECT_TRUE(Location::host_numa_current().is_numa_current());
}

TEST(LocationTest, AWrongPlaceOfTheHostIsRefused) {
  EXPECT_THROW((void)Location::host_of(-1, false), std::invalid_argument);
  EXPECT_THROW((void)Location::host_of(0, true), std::invalid_argument);
}

TEST(LocationTest, TextNamesThePlace) {
  EXPECT_EQ(Location::device(3).text(), "Device 3");
  EXPECT_EQ(Location::host().text(), "Host()");
  EXPECT_EQ(Location::host_numa(1).text(), "Host(numa_id=1)");
  EXPECT_EQ(Location::host_numa_current().text(), "Host.numa_current()");
}

TEST(LocationTest, EqualPlacesAreOneInASet) {
  const std::unordered_set<Location> places{Location::host(),
                                            Location::host_of(std::nullopt, false),
                                            Location::device(0), Location::host_numa(0)};
  EXPECT_EQ(places.size(), 3U);
}

}  // namespace
}  // namespace cucore
