// SPDX-License-Identifier: Apache-2.0
// cpu/base/object.hpp: reference-counted objects and their handles.
// A handle is the address of a slot in one reserved region. Any value a caller passes is therefore
// checked without an access to unmapped memory: a handle of the wrong kind, a stale handle or an
// arbitrary number is invalid and never dereferenced.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "cpu/base/error.hpp"
#include "cpu/mem/free_list.hpp"

namespace cucpu::driver {

enum class Kind : std::uint32_t {
  none,
  context,
  stream,
  event,
  module,
  function,
  library,
  kernel,
  graph,
  node,
  graph_exec,
  pool,
  array,
  mipmap,
  texture,
  surface,
  user_object,
  green_context,
  link,
  resource_desc,
  physical_memory,
  external_memory,
  external_semaphore,
  multicast,
};

/// Destroyed with its last Ref. The handle is one of the references; retire() releases it.
class Object : public FreeListAllocated {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  void retain(int times = 1) noexcept { refs_.fetch_add(times, std::memory_order_relaxed); }
  void release() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  virtual ~Object() = default;

 private:
  std::atomic<int> refs_{0};
};

/// A counted reference to an Object.
template <class T>
class Ref {
 public:
  constexpr Ref() noexcept = default;
  constexpr Ref(std::nullptr_t) noexcept {}
  explicit Ref(T* p) noexcept : p_{p} {
    if (p_) p_->retain();
  }
  Ref(const Ref& other) noexcept : Ref{other.p_} {}
  Ref(Ref&& other) noexcept : p_{std::exchange(other.p_, nullptr)} {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Ref(const Ref<U>& other)
  noexcept : Ref{static_cast<T*>(other.get())} {}
  template <class U>
  requires std::is_convertible_v<U*, T*> Ref(Ref<U>&& other)
  noexcept : p_{other.detach()} {}
  Ref& operator=(Ref other) noexcept {
    std::swap(p_, other.p_);
    return *this;
  }
  ~Ref() {
    if (p_) p_->release();
  }
  /// Takes over a reference that retain() counted.
  static Ref adopt(T* p) noexcept {
    Ref ref;
    ref.p_ = p;
    return ref;
  }
  T* get() const noexcept { return p_; }
  T* detach() noexcept { return std::exchange(p_, nullptr); }
  T* operator->() const noexcept { return p_; }
  T& operator*() const noexcept { return *p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

template <class T, class... Args>
Ref<T> make_object(Args&&... args) {
  return Ref<T>{new T(std::forward<Args>(args)...)};
}

/// The object of a key in a map. Without one, `make` makes it, and it gets a handle. An exception
/// leaves the map and the handles unchanged.
template <class Map, class Key, class Make>
auto& find_or_publish(Map& map, const Key& key, const Make& make) {
  if (const auto at = map.find(key); at != map.end()) return *at->second;
  auto made = make();
  made->publish();
  try {
    return *map.emplace(key, made).first->second;
  } catch (...) {
    made->retire();
    throw;
  }
}

struct alignas(64) Slot {
  std::atomic<Kind> kind{Kind::none};
  std::atomic<Object*> object{nullptr};
};

namespace handles {
inline constexpr std::size_t kRegionBytes = std::size_t{1} << 30;
extern Slot* g_region;
void reserve();                            ///< once, at cuInit
Slot* publish(Object* object, Kind kind);  ///< takes one reference
void abandon(Slot* slot) noexcept;         ///< ends a handle that owns no reference
bool retire(
    Slot* slot,
    Kind kind) noexcept;  ///< true for the one caller that ends the handle; releases its reference
inline Slot* slot_of(const void* handle) noexcept {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(g_region);
  if (offset >= kRegionBytes || offset % sizeof(Slot) != 0) return nullptr;
  return g_region + offset / sizeof(Slot);
}
}  // namespace handles

/// The live object a handle names, or nullptr.
template <class T>
T* find_object(const void* handle) noexcept {
  Slot* slot = handles::slot_of(handle);
  if (!slot || slot->kind.load(std::memory_order_acquire) != T::kKind) return nullptr;
  return static_cast<T*>(slot->object.load(std::memory_order_relaxed));
}

template <class T>
T& object_of(const void* handle, CUresult code = CUDA_ERROR_INVALID_HANDLE) {
  T* object = find_object<T>(handle);
  if (!object) [[unlikely]]
    fail(code);
  return *object;
}

/// As object_of(); a null handle fails with CUDA_ERROR_INVALID_VALUE.
template <class T>
T& nonnull_object_of(const void* handle, CUresult code = CUDA_ERROR_INVALID_HANDLE) {
  require(handle != nullptr);
  return object_of<T>(handle, code);
}

/// An Object with a handle. `Handle` is the CU* pointer type.
template <class Self, class Handle, Kind K, class Base = Object>
class Handled : public Base {
 public:
  static constexpr Kind kKind = K;
  Handle handle() const noexcept { return reinterpret_cast<Handle>(slot_); }
  Handle publish() {
    slot_ = handles::publish(static_cast<Self*>(this), K);
    return handle();
  }
  /// False when the handle was retired before: its slot may name another object.
  bool retire() noexcept { return is_published() && handles::retire(slot_, K); }
  /// For objects with an explicit use count: the handle names the object but owns no reference.
  Handle publish_unowned() {
    publish();
    this->release();
    return handle();
  }
  void abandon() noexcept {
    if (slot_) handles::abandon(slot_);
  }
  bool is_published() const noexcept {
    return slot_ && slot_->object.load(std::memory_order_relaxed) == this &&
           slot_->kind.load(std::memory_order_acquire) == K;
  }

 private:
  Slot* slot_ = nullptr;
};

}  // namespace cucpu::driver
