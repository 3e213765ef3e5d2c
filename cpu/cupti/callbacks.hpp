// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/callbacks.hpp: the subscriber of the callback API.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "cpu/cupti/cupti.hpp"

namespace cucpu::cupti {

class Subscriber {
 public:
  static Subscriber& instance();

  /// Fails with MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED.
  CUpti_SubscriberHandle subscribe(CUpti_CallbackFunc, void* userdata, const char* name);
  void unsubscribe(CUpti_SubscriberHandle);
  void clear();  ///< ends the subscription, if there is one
  void enable(CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId, bool on);
  void enable_all(CUpti_SubscriberHandle, CUpti_CallbackDomain, bool on);
  [[nodiscard]] bool is_enabled(CUpti_SubscriberHandle, CUpti_CallbackDomain,
                                CUpti_CallbackId) const;
  [[nodiscard]] bool is_there() const noexcept { return function_.load() != nullptr; }
  [[nodiscard]] std::string name() const;

  [[nodiscard]] bool wants(CUpti_CallbackDomain domain, CUpti_CallbackId id) const noexcept {
    return is_there() && id < on_[domain].size() && on_[domain][id].load(std::memory_order_relaxed);
  }
  void call(CUpti_CallbackDomain domain, CUpti_CallbackId id, const void* data) const noexcept;

 private:
  Subscriber();
  void require_subscribed(CUpti_SubscriberHandle) const;
  std::vector<std::atomic<bool>> on_[CUPTI_CB_DOMAIN_SIZE];
  std::atomic<CUpti_CallbackFunc> function_{nullptr};
  std::atomic<void*> userdata_{nullptr};
  mutable std::mutex mutex_;
  std::string name_;
};

}  // namespace cucpu::cupti
