// A custom memory resource that counts allocations.
#include <atomic>
#include <cstdio>
#include <memory>

#include "cucore/cucore.hpp"

/// Takes memory from another resource and keeps books. Safe to use from several threads.
class Counting final : public cucore::MemoryResource {
 public:
  explicit Counting(std::shared_ptr<cucore::MemoryResource> upstream)
      : upstream_{std::move(upstream)} {}
  CUdeviceptr allocate(std::size_t size, cucore::StreamRef stream) override {
    const CUdeviceptr ptr = upstream_->allocate(size, stream);
    live_ += size;
    return ptr;
  }
  void deallocate(CUdeviceptr ptr, std::size_t size, cucore::StreamRef stream) override {
    upstream_->deallocate(ptr, size, stream);
    live_ -= size;
  }
  bool is_device_accessible() const noexcept override { return upstream_->is_device_accessible(); }
  bool is_host_accessible() const noexcept override { return upstream_->is_host_accessible(); }
  int device_id() const noexcept override { return upstream_->device_id(); }
  std::size_t live() const { return live_; }

 private:
  std::shared_ptr<cucore::MemoryResource> upstream_;
  std::atomic<std::size_t> live_ = 0;
};

int main() try {
  const cucore::Device device;
  device.set_current();
  const cucore::Stream stream = device.create_stream();
  const auto counting = std::make_shared<Counting>(device.memory_resource());
  const cucore::Buffer kept = cucore::Buffer::allocate(counting, 1000, stream);
  std::size_t most = 0;
  {
    cucore::Buffer passing = cucore::Buffer::allocate(counting, 5000, stream);
    passing.fill(0, stream);
    most = counting->live();
  }  // freed here, after the fill
  std::printf("%s: at most %zu bytes, %zu now\n", device.name().c_str(), most, counting->live());
  return most == 6000 && counting->live() == 1000 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
