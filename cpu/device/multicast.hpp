// SPDX-License-Identifier: Apache-2.0
// cpu/device/multicast.hpp: multicast objects: one address range for memory of several devices.
// multimem instructions access every copy; other accesses use the first one.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "cpu/device/physical_memory.hpp"

namespace cucpu::driver {

class MulticastObject final : public Handled<MulticastObject, void*, Kind::multicast> {
 public:
  explicit MulticastObject(const CUmulticastObjectProp& prop) : prop{prop} {}
  ~MulticastObject() override;
  const CUmulticastObjectProp prop;

  void add_device(int device);
  void bind(int device, std::size_t offset, Ref<PhysicalMemory> memory, std::size_t memory_offset,
            std::size_t size);
  void unbind(int device, std::size_t offset, std::size_t size);

  // -- for cuMemMap and cuMemSetAccess
  void map(std::uintptr_t address, std::size_t size);  ///< inaccessible until protect()
  void protect(std::uintptr_t address, int protection);
  void unmap(std::uintptr_t address);
  int first_device() const;

  /// Writes the addresses of the copies of the byte at `offset`; returns their number.
  unsigned copies(std::size_t offset, std::uintptr_t* out, unsigned room) const;

 private:
  struct Binding {
    std::size_t offset, size;  // in the object
    Ref<PhysicalMemory> memory;
    std::size_t memory_offset;
    std::uintptr_t private_map;  // the driver's private mapping of this copy
  };
  struct View {
    std::size_t size;
    int protection;
  };
  void show(std::uintptr_t address, const View& view) const;

  mutable std::mutex mutex_;
  std::set<int> devices_;
  std::map<int, std::vector<Binding>> bindings_;  // by device
  std::map<std::uintptr_t, View> views_;
};

MulticastObject* find_multicast(CUmemGenericAllocationHandle handle) noexcept;

/// Hooks::multicast: the copies of an address of a mapped multicast object; 0 for other addresses.
unsigned multicast_copies(std::uintptr_t address, std::uintptr_t* out, unsigned room);

}  // namespace cucpu::driver
