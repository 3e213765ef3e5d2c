// SPDX-License-Identifier: Apache-2.0
// system_device_test.cpp: a GPU as NVML sees it.
#include "cucore/system_device.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "cucore/buffer.hpp"
#include "cucore/driver.hpp"
#include "system_support.hpp"

namespace cucore {
namespace {

using testing::expect_an_answer;
using testing::first_gpu;
using testing::SystemTest;

TEST_F(SystemTest, DevicesAreFoundByIndexUuidBusIdAndCudaDevice) {
  ASSERT_GE(system::get_num_devices(), 1);
  const auto all = system::Device::get_all_devices();
  ASSERT_EQ(static_cast<int>(all.size()), system::get_num_devices());
  const system::Device found = first_gpu();
  EXPECT_NE(std::find(all.begin(), all.end(), found), all.end());
  EXPECT_EQ(system::Device::from_uuid(found.uuid()), found);
  EXPECT_EQ(system::Device::from_uuid(found.uuid_without_prefix()), found);
  EXPECT_EQ(system::Device::from_pci_bus_id(found.pci_bus_id()), found);
  EXPECT_EQ(system::Device{found.index()}, found);
  EXPECT_EQ(found.to_cuda_device(), Device{0});
}

TEST_F(SystemTest, DeviceEqualsTheDriversDevice) {
  const system::Device found = first_gpu();
  EXPECT_EQ(found.name(), Device{0}.name());
  EXPECT_EQ(found.compute_capability(), Device{0}.compute_capability());
  EXPECT_NE(found.brand(), "");
  EXPECT_EQ(found.pci_info().bus_id, found.pci_bus_id());
  EXPECT_GE(found.performance_state(), 0);
  EXPECT_FALSE(found.supported_pstates().empty());
  EXPECT_FALSE(found.mig().is_mig_device());
}

TEST_F(SystemTest, MemoryAndProcessesAreCounted) {
  const system::Device found = first_gpu();
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

TEST_F(SystemTest, EveryQueryOfADeviceAnswersOrIsNotSupported) {
  const system::Device d = first_gpu();
#define ASK(expression) expect_an_answer([&] { return expression; }, #expression)
  ASK(d.serial());
  ASK(d.minor_number());
  ASK(d.module_id());
  ASK(d.numa_node_id());
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
  ASK(d.get_nvlink_count());
  ASK(d.get_nvlinks());
  ASK(d.get_topology_nearest_gpus(system::GpuTopologyLevel::system));
  ASK(d.get_memory_affinity());
  ASK(system::Device::get_all_devices_with_cpu_affinity(0));
#undef ASK
}

TEST_F(SystemTest, FieldValuesKeepTheirOwnStatus) {
  const system::Device found = first_gpu();
  const std::array fields{system::FieldId{91, 0}, system::FieldId{0xFFFF, 0}};
  const auto values = found.get_field_values(fields);
  ASSERT_EQ(values.size(), 2u);
  EXPECT_EQ(values[0].field_id, 91u);
  EXPECT_NE(values[1].status, 0);
  EXPECT_THROW(values[1].validate(), NVMLError);
  EXPECT_TRUE(found.get_field_values({}).empty());
}

TEST_F(SystemTest, UnknownFieldsCannotBeCleared) {
  const std::array fields{system::FieldId{0xFFFF, 0}};
  EXPECT_THROW(first_gpu().clear_field_values(fields), NVMLError);
  first_gpu().clear_field_values({});
}

TEST_F(SystemTest, PartsAreFoundByNumber) {
  const system::Device found = first_gpu();
  EXPECT_THROW((void)found.get_fan(found.num_fans()), std::invalid_argument);
  EXPECT_THROW((void)found.get_fan(-1), std::invalid_argument);
  try {
    const int links = found.get_nvlink_count();
    EXPECT_EQ(found.get_nvlinks().size(), static_cast<std::size_t>(links));
    EXPECT_THROW((void)found.get_nvlink(links), std::invalid_argument);
  } catch (const NVMLError& error) {
    EXPECT_EQ(error.name(), "NVML_ERROR_NOT_SUPPORTED") << error.what();
  }
}

}  // namespace
}  // namespace cucore
