// SPDX-License-Identifier: Apache-2.0
// system_parts_test.cpp: parts of a GPU that ask NVML when called.
#include "cucore/system_parts.hpp"

#include "cucore/driver.hpp"
#include "system_support.hpp"

namespace cucore {
namespace {

using testing::expect_an_answer;
using testing::first_gpu;
using testing::SystemTest;

TEST_F(SystemTest, EveryQueryOfAPartAnswersOrIsNotSupported) {
  const system::Device d = first_gpu();
#define ASK(expression) expect_an_answer([&] { return expression; }, #expression)
  ASK(d.temperature().get_sensor());
  ASK(d.temperature().margin());
  ASK(d.temperature().get_threshold(system::TemperatureThresholds::shutdown));
  ASK(d.temperature().is_threshold_deprecated(system::TemperatureThresholds::gps_curr));
  ASK(d.temperature().get_thermal_settings(15));
  ASK(d.power().usage_mw());
  ASK(d.power().limit_mw());
  ASK(d.power().total_energy_mj());
  ASK(d.get_clock(system::ClockType::memory).get_max_mhz());
  ASK(d.get_clock(system::ClockType::memory).get_max_customer_boost_mhz());
  ASK(d.get_clock(system::ClockType::memory).get_min_max_clock_of_pstate_mhz(0));
  ASK(d.get_clock(system::ClockType::memory).get_offsets(0));
  ASK(d.pci_info().max_link_generation());
  ASK(d.pci_info().link_generation());
  ASK(d.pci_info().max_link_width());
  ASK(d.pci_info().current_link_generation());
  ASK(d.pci_info().current_link_width());
  ASK(d.pci_info().replay_counter());
  ASK(d.pci_info().tx_throughput());
  ASK(d.pci_info().rx_throughput());
  ASK(d.inforom().get_version(system::InforomObject::ecc));
  ASK(d.inforom().image_version());
  ASK(d.inforom().configuration_checksum());
  ASK(d.inforom().board_part_number());
  ASK(d.inforom().bbx_flush_time());
  ASK((d.inforom().validate(), 0));
  ASK(d.mig().mode());
  ASK(d.mig().pending_mode());
  ASK(d.mig().device_count());
  ASK(d.mig().get_all_devices());
  ASK(d.mig().get_device_by_index(0));
  ASK(d.mig().parent());
  ASK(system::NvlinkInfo(d.handle(), 0).state());
  ASK(system::NvlinkInfo(d.handle(), 0).version());
#undef ASK
}

TEST_F(SystemTest, ClocksRun) {
  EXPECT_GT(first_gpu().get_clock(system::ClockType::sm).get_current_mhz(), 0u);
}

TEST_F(SystemTest, PciInfoKnowsItsPlace) {
  const system::PciInfo pci = first_gpu().pci_info();
  EXPECT_EQ(pci.bus_id, first_gpu().pci_bus_id());
  EXPECT_EQ(pci.handle, first_gpu().handle());
  if (driver_info().kind == DeviceKind::gpu) {
    EXPECT_EQ(pci.vendor_id, 0x10DEu);
  }
}

TEST_F(SystemTest, AWholeGpuIsNoMigDevice) {
  EXPECT_FALSE(first_gpu().mig().is_mig_device());
  EXPECT_THROW((void)first_gpu().mig().parent(), NVMLError);
}

}  // namespace
}  // namespace cucore
