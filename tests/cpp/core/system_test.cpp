// SPDX-License-Identifier: Apache-2.0
// system_test.cpp: the system's GPUs as NVML sees them.
#include "cucore/system.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "cucore/buffer.hpp"
#include "cucore/driver.hpp"
#include "support.hpp"

namespace cucore {
namespace {

/// Skips where there is no NVML: containers may have the driver alone.
class SystemTest : public testing::WithDevice {
 protected:
  void SetUp() override {
    WithDevice::SetUp();
    if (IsSkipped()) return;
    try {
      (void)system::get_num_devices();
    } catch (const std::exception& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

TEST_F(SystemTest, VersionsAreNumbers) {
  EXPECT_GE(system::get_user_mode_driver_version().front(), 12);
  EXPECT_GE(system::get_kernel_mode_driver_version().front(), 500);
  EXPECT_GE(system::get_nvml_version().front(), 12);
  if (driver_info().kind == DeviceKind::cpu) {
    EXPECT_EQ(system::get_driver_branch(), "cucore");
  }
}

TEST_F(SystemTest, DevicesAreFoundByIndexUuidBusIdAndCudaDevice) {
  ASSERT_GE(system::get_num_devices(), 1);
  const auto all = system::Device::get_all_devices();
  ASSERT_EQ(static_cast<int>(all.size()), system::get_num_devices());
  const system::Device found = system::Device::from_cuda_device(Device{0});
  EXPECT_NE(std::find(all.begin(), all.end(), found), all.end());
  EXPECT_EQ(system::Device::from_uuid(found.uuid()), found);
  EXPECT_EQ(system::Device::from_uuid(found.uuid_without_prefix()), found);
  EXPECT_EQ(system::Device::from_pci_bus_id(found.pci_bus_id()), found);
  EXPECT_EQ(system::Device{found.index()}, found);
  EXPECT_EQ(found.to_cuda_device(), Device{0});
}

TEST_F(SystemTest, DeviceEqualsTheDriversDevice) {
  const system::Device found = system::Device::from_cuda_device(Device{0});
  EXPECT_EQ(found.name(), Device{0}.name());
  EXPECT_EQ(found.compute_capability(), Device{0}.compute_capability());
  EXPECT_NE(found.brand(), "");
  EXPECT_EQ(found.pci_info().bus_id, found.pci_bus_id());
  EXPECT_GE(found.performance_state(), 0);
  EXPECT_FALSE(found.supported_pstates().empty());
  EXPECT_FALSE(found.is_mig_device());
}

TEST_F(SystemTest, MemoryAndProcessesAreCounted) {
  const system::Device found = system::Device::from_cuda_device(Device{0});
  constexpr std::size_t kSize = std::size_t{64} << 20;
  const Stream stream = Device{0}.create_stream();
  const Buffer buffer = Device{0}.allocate(kSize, stream);
  stream.sync();
  const system::MemoryInfo memory = found.memory_info();
  EXPECT_GE(memory.used, kSize);
  EXPECT_GE(memory.total, memory.used);
  EXPECT_LE(found.utilization().gpu, 100u);
  const auto processes = found.compute_running_processes();
  if (driver_info().kind ==
      DeviceKind::cpu) {  // a container hides the numbers of a GPU's processes
    const auto mine = std::find_if(processes.begin(), processes.end(), [](const auto& process) {
      return process.pid == static_cast<unsigned>(getpid());
    });
    ASSERT_NE(mine, processes.end());
    EXPECT_GE(mine->used_gpu_memory, kSize);
    EXPECT_FALSE(mine->gpu_instance_id);
    EXPECT_NE(system::get_process_name(mine->pid).find("core_tests"), std::string::npos);
  }
}

TEST_F(SystemTest, ClocksAndNeighboursAreKnown) {
  const system::Device found = system::Device::from_cuda_device(Device{0});
  EXPECT_GT(found.get_clock(system::ClockType::sm).get_current_mhz(), 0u);
  EXPECT_FALSE(found.get_cpu_affinity().empty());
  const auto all = system::Device::get_all_devices();
  if (all.size() > 1) {
    (void)system::get_topology_common_ancestor(all[0], all[1]);
    (void)system::get_p2p_status(all[0], all[1], system::GpuP2PCapsIndex::read);
  }
  EXPECT_THROW((void)found.get_fan(found.num_fans()), std::invalid_argument);
}

TEST_F(SystemTest, AFailedQueryCarriesCodeNameAndCall) {
  try {
    (void)system::Device{9999};
    FAIL();
  } catch (const NVMLError& error) {
    EXPECT_EQ(error.code(), 2);
    EXPECT_EQ(error.name(), "NVML_ERROR_INVALID_ARGUMENT");
    EXPECT_EQ(error.call(), "nvmlDeviceGetHandleByIndex_v2");
  }
}

/// An answer, or NVML's word that this device has no such thing.
template <class Ask>
void expect_an_answer(Ask ask, const char* what) {
  try {
    static_cast<void>(ask());
  } catch (const NVMLError& error) {
    EXPECT_TRUE(error.name() == "NVML_ERROR_NOT_SUPPORTED" ||
                error.name() == "NVML_ERROR_FUNCTION_NOT_FOUND" ||
                error.name() == "NVML_ERROR_INVALID_ARGUMENT")
        << what << ": " << error.what();
  }
}

TEST_F(SystemTest, EveryQueryAnswersOrIsNotSupported) {
  const system::Device d = system::Device::from_cuda_device(Device{0});
#define ASK(expression) expect_an_answer([&] { return expression; }, #expression)
  ASK(d.serial());
  ASK(d.minor_number());
  ASK(d.module_id());
  ASK(d.numa_node_id());
  ASK(d.pcie_link());
  ASK(d.pcie_replay_counter());
  ASK(d.pcie_tx_throughput());
  ASK(d.pcie_rx_throughput());
  ASK(d.bar1_memory_info());
  ASK(d.attributes());
  ASK(d.dynamic_pstates_info());
  ASK(d.cooler());
  ASK(d.repair_status());
  ASK(d.current_clock_event_reasons());
  ASK(d.supported_clock_event_reasons());
  ASK(d.is_auto_boosted_clocks_enabled());
  ASK(d.is_persistence_mode_enabled());
  ASK(d.is_c2c_enabled());
  ASK(d.is_display_active());
  ASK(d.is_display_connected());
  ASK(d.addressing_mode());
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
  ASK(d.inforom_version(system::InforomObject::ecc));
  ASK(d.inforom_image_version());
  ASK(d.inforom_configuration_checksum());
  ASK(d.board_part_number());
  ASK(d.get_nvlink_count());
  ASK(d.get_nvlink_state(0));
  ASK(d.get_nvlink_version(0));
  ASK(d.get_topology_nearest_gpus(system::GpuTopologyLevel::system));
  ASK(d.get_memory_affinity());
  ASK(d.mig_mode());
  ASK(d.mig_devices());
  ASK(d.mig_parent());
  ASK(system::Device::get_all_devices_with_cpu_affinity(0));
#undef ASK
}

TEST_F(SystemTest, FieldValuesKeepTheirOwnStatus) {
  const system::Device found = system::Device::from_cuda_device(Device{0});
  const std::array fields{system::FieldId{91, 0}, system::FieldId{0xFFFF, 0}};
  const auto values = found.get_field_values(fields);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].field_id, 91u);
  EXPECT_NE(values[1].status, 0);
  EXPECT_TRUE(found.get_field_values({}).empty());
}

TEST_F(SystemTest, WaitingForEventsEndsWithNothing) {
  const system::Device found = system::Device::from_cuda_device(Device{0});
  // A GPU that works changes its clocks and power states at any time; it has no critical errors.
  constexpr std::uint64_t kCriticalErrors = 8;  // nvmlEventTypeXidCriticalError
  const std::uint64_t supported = found.get_supported_event_types() & kCriticalErrors;
  try {
    const system::DeviceEvents events{found, supported};
    EXPECT_FALSE(events.wait(1));
  } catch (const NVMLError& error) {
    EXPECT_EQ(error.name(), "NVML_ERROR_NOT_SUPPORTED") << error.what();
  }
  try {
    const std::array kinds{system::SystemEventType::bind, system::SystemEventType::unbind};
    const system::SystemEvents events{kinds};
    EXPECT_TRUE(events.wait(1).empty());
  } catch (const NVMLError& error) {
    EXPECT_TRUE(error.name() == "NVML_ERROR_NOT_SUPPORTED" ||
                error.name() == "NVML_ERROR_NO_PERMISSION")
        << error.what();
  }
}

}  // namespace
}  // namespace cucore
