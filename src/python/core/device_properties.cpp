// SPDX-License-Identifier: Apache-2.0
// device_properties.cpp: cuda.core.Device.properties, a driver attribute per name.
#include "device_properties.hpp"

#include <atomic>

#include "cucore/device.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

struct Property {
  const char* name;
  CUdevice_attribute attribute;
  bool is_flag;  // a Boolean, not a number
};

constexpr Property kProperties[] = {
    {"async_engine_count", CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, false},
    {"can_flush_remote_writes", CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, true},
    {"can_map_host_memory", CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, true},
    {"can_tex2d_gather", CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, true},
    {"can_use_64_bit_stream_mem_ops", CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, true},
    {"can_use_host_pointer_for_registered_mem",
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, true},
    {"can_use_stream_wait_value_nor", CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, true},
    {"clock_rate", CU_DEVICE_ATTRIBUTE_CLOCK_RATE, false},
    {"cluster_launch", CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, true},
    {"compute_capability_major", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, false},
    {"compute_capability_minor", CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, false},
    {"compute_mode", CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, false},
    {"compute_preemption_supported", CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, true},
    {"concurrent_kernels", CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, true},
    {"concurrent_managed_access", CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, true},
    {"cooperative_launch", CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, true},
    {"d3d12_cig_supported", CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED, true},
    {"deferred_mapping_cuda_array_supported",
     CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, true},
    {"direct_managed_mem_access_from_host", CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
     true},
    {"dma_buf_supported", CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, true},
    {"ecc_enabled", CU_DEVICE_ATTRIBUTE_ECC_ENABLED, true},
    {"generic_compression_supported", CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, true},
    {"global_l1_cache_supported", CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, true},
    {"global_memory_bus_width", CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, false},
    {"gpu_direct_rdma_flush_writes_options",
     CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, false},
    {"gpu_direct_rdma_supported", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, true},
    {"gpu_direct_rdma_with_cuda_vmm_supported",
     CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, true},
    {"gpu_direct_rdma_writes_ordering", CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING, false},
    {"gpu_overlap", CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, true},
    {"gpu_pci_device_id", CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID, false},
    {"gpu_pci_subsystem_id", CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID, false},
    {"handle_type_fabric_supported", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, true},
    {"handle_type_posix_file_descriptor_supported",
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, true},
    {"handle_type_win32_handle_supported", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED,
     true},
    {"handle_type_win32_kmt_handle_supported",
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, true},
    {"host_alloc_dma_buf_supported", CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, true},
    {"host_memory_pools_supported", CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, true},
    {"host_native_atomic_supported", CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, true},
    {"host_numa_id", CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, false},
    {"host_numa_memory_pools_supported", CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
     true},
    {"host_numa_multinode_ipc_supported", CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED,
     true},
    {"host_numa_virtual_memory_management_supported",
     CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, true},
    {"host_register_supported", CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, true},
    {"host_virtual_memory_management_supported",
     CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, true},
    {"integrated", CU_DEVICE_ATTRIBUTE_INTEGRATED, true},
    {"ipc_event_supported", CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, true},
    {"kernel_exec_timeout", CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, true},
    {"l2_cache_size", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, false},
    {"local_l1_cache_supported", CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, true},
    {"managed_memory", CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, true},
    {"max_access_policy_window_size", CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, false},
    {"max_block_dim_x", CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, false},
    {"max_block_dim_y", CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, false},
    {"max_block_dim_z", CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, false},
    {"max_blocks_per_multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, false},
    {"max_grid_dim_x", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, false},
    {"max_grid_dim_y", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, false},
    {"max_grid_dim_z", CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, false},
    {"max_persisting_l2_cache_size", CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, false},
    {"max_pitch", CU_DEVICE_ATTRIBUTE_MAX_PITCH, false},
    {"max_registers_per_block", CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, false},
    {"max_registers_per_multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
     false},
    {"max_shared_memory_per_block", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, false},
    {"max_shared_memory_per_block_optin", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
     false},
    {"max_shared_memory_per_multiprocessor",
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, false},
    {"max_threads_per_block", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, false},
    {"max_threads_per_multiprocessor", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, false},
    {"maximum_surface1d_layered_layers", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS,
     false},
    {"maximum_surface1d_layered_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, false},
    {"maximum_surface1d_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, false},
    {"maximum_surface2d_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, false},
    {"maximum_surface2d_layered_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT,
     false},
    {"maximum_surface2d_layered_layers", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS,
     false},
    {"maximum_surface2d_layered_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, false},
    {"maximum_surface2d_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, false},
    {"maximum_surface3d_depth", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, false},
    {"maximum_surface3d_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, false},
    {"maximum_surface3d_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, false},
    {"maximum_surfacecubemap_layered_layers",
     CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, false},
    {"maximum_surfacecubemap_layered_width",
     CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, false},
    {"maximum_surfacecubemap_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, false},
    {"maximum_texture1d_layered_layers", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS,
     false},
    {"maximum_texture1d_layered_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, false},
    {"maximum_texture1d_linear_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, false},
    {"maximum_texture1d_mipmapped_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH,
     false},
    {"maximum_texture1d_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, false},
    {"maximum_texture2d_gather_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, false},
    {"maximum_texture2d_gather_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, false},
    {"maximum_texture2d_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, false},
    {"maximum_texture2d_layered_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT,
     false},
    {"maximum_texture2d_layered_layers", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS,
     false},
    {"maximum_texture2d_layered_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, false},
    {"maximum_texture2d_linear_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, false},
    {"maximum_texture2d_linear_pitch", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, false},
    {"maximum_texture2d_linear_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, false},
    {"maximum_texture2d_mipmapped_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT,
     false},
    {"maximum_texture2d_mipmapped_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH,
     false},
    {"maximum_texture2d_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, false},
    {"maximum_texture3d_depth", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, false},
    {"maximum_texture3d_depth_alternate", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE,
     false},
    {"maximum_texture3d_height", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, false},
    {"maximum_texture3d_height_alternate", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE,
     false},
    {"maximum_texture3d_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, false},
    {"maximum_texture3d_width_alternate", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE,
     false},
    {"maximum_texturecubemap_layered_layers",
     CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, false},
    {"maximum_texturecubemap_layered_width",
     CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, false},
    {"maximum_texturecubemap_width", CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, false},
    {"mem_decompress_algorithm_mask", CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK, false},
    {"mem_decompress_maximum_length", CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH, false},
    {"mem_sync_domain_count", CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, false},
    {"memory_clock_rate", CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, false},
    {"memory_pools_supported", CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, true},
    {"mempool_supported_handle_types", CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, false},
    {"mps_enabled", CU_DEVICE_ATTRIBUTE_MPS_ENABLED, true},
    {"multi_gpu_board", CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, true},
    {"multi_gpu_board_group_id", CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID, false},
    {"multicast_supported", CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, true},
    {"multiprocessor_count", CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, false},
    {"numa_config", CU_DEVICE_ATTRIBUTE_NUMA_CONFIG, false},
    {"numa_id", CU_DEVICE_ATTRIBUTE_NUMA_ID, false},
    {"only_partial_host_native_atomic_supported",
     CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED, true},
    {"pageable_memory_access", CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, true},
    {"pageable_memory_access_uses_host_page_tables",
     CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, true},
    {"pci_bus_id", CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, false},
    {"pci_device_id", CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, false},
    {"pci_domain_id", CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, false},
    {"read_only_host_register_supported", CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
     true},
    {"reserved_shared_memory_per_block", CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
     false},
    {"single_to_double_precision_perf_ratio",
     CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, false},
    {"sparse_cuda_array_supported", CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, true},
    {"stream_priorities_supported", CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, true},
    {"surface_alignment", CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, false},
    {"tcc_driver", CU_DEVICE_ATTRIBUTE_TCC_DRIVER, true},
    {"tensor_map_access_supported", CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED, true},
    {"texture_alignment", CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, false},
    {"texture_pitch_alignment", CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, false},
    {"timeline_semaphore_interop_supported",
     CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, true},
    {"total_constant_memory", CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, false},
    {"unified_addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, true},
    {"unified_function_pointers", CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, true},
    {"virtual_memory_management_supported", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
     true},
    {"vulkan_cig_supported", CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED, true},
    {"warp_size", CU_DEVICE_ATTRIBUTE_WARP_SIZE, false},
};

PyObject* get(PyObject* self, void* closure) noexcept {
  try {
    const auto& property = *static_cast<const Property*>(closure);
    const int value = self_of<DeviceProperties>(self).value(property.attribute);
    return property.is_flag ? PyBool_FromLong(value) : PyLong_FromLong(value);
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

}  // namespace

int DeviceProperties::value(CUdevice_attribute attribute) {
  std::atomic<long>& slot = (*cache_)[static_cast<std::size_t>(attribute)];
  const long known = slot.load(std::memory_order_relaxed);
  if (known != kUnknown) return static_cast<int>(known);
  const int value = Device{device_}.attribute_or(attribute, 0);
  slot.store(value, std::memory_order_relaxed);
  return value;
}

void bind_device_properties(nb::module_& m) {
  nb::class_<DeviceProperties> cls(m, "DeviceProperties",
                                   "Device attributes, queried once and cached.");
  forbid_new<"Device.properties">(cls);
  set_module(cls);
  for (const Property& property : kProperties) {
    auto* definition =
        new PyGetSetDef{property.name, &get, nullptr, nullptr, const_cast<Property*>(&property)};
    PyObject* made = PyDescr_NewGetSet(reinterpret_cast<PyTypeObject*>(cls.ptr()), definition);
    if (made == nullptr) throw nb::python_error();
    nb::object held = nb::steal(made);
    nb::setattr(cls, property.name, held);
  }
  cls.def("__repr__", [](const DeviceProperties& p) {
    return "<DeviceProperties of device " + std::to_string(p.device()) + ">";
  });
}
CUCORE_BIND(kBindDevice, bind_device_properties)

}  // namespace cucore::python
