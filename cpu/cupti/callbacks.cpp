// SPDX-License-Identifier: Apache-2.0
// cpu/cupti/callbacks.cpp: the callback API.
#include "cpu/cupti/callbacks.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/cupti/activity.hpp"

namespace cucpu::cupti {
namespace {

constexpr CUpti_CallbackDomain kDomains[] = {CUPTI_CB_DOMAIN_DRIVER_API,
                                             CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_RESOURCE,
                                             CUPTI_CB_DOMAIN_SYNCHRONIZE, CUPTI_CB_DOMAIN_STATE};

std::size_t ids_of(CUpti_CallbackDomain domain) {
  switch (domain) {
    case CUPTI_CB_DOMAIN_DRIVER_API:
      return CUPTI_DRIVER_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RUNTIME_API:
      return CUPTI_RUNTIME_TRACE_CBID_SIZE;
    case CUPTI_CB_DOMAIN_RESOURCE:
      return CUPTI_CBID_RESOURCE_SIZE;
    case CUPTI_CB_DOMAIN_SYNCHRONIZE:
      return CUPTI_CBID_SYNCHRONIZE_SIZE;
    case CUPTI_CB_DOMAIN_STATE:
      return CUPTI_CBID_STATE_SIZE;
    default:
      return 0;
  }
}

thread_local bool t_in_callback = false;

}  // namespace

Subscriber::Subscriber() {
  for (const CUpti_CallbackDomain domain : kDomains)
    on_[domain] = std::vector<std::atomic<bool>>(ids_of(domain));
}

Subscriber& Subscriber::instance() {
  static Subscriber& subscriber = *new Subscriber;  // calls may come after exit() has begun
  return subscriber;
}

CUpti_SubscriberHandle Subscriber::subscribe(CUpti_CallbackFunc function, void* userdata,
                                             const char* name) {
  require(function != nullptr);
  Driver::instance();
  const std::lock_guard lock{mutex_};
  require(!is_there(), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  userdata_ = userdata;
  name_ = name ? name : "";
  function_ = function;
  update_observation();
  return reinterpret_cast<CUpti_SubscriberHandle>(this);
}

void Subscriber::require_subscribed(CUpti_SubscriberHandle handle) const {
  require(is_there() &&
          handle == reinterpret_cast<CUpti_SubscriberHandle>(const_cast<Subscriber*>(this)));
}

void Subscriber::unsubscribe(CUpti_SubscriberHandle handle) {
  require_subscribed(handle);
  clear();
  update_observation();
}

void Subscriber::clear() {
  const std::lock_guard lock{mutex_};
  function_ = nullptr;
  for (auto& domain : on_)
    for (auto& id : domain) id = false;
}

void Subscriber::enable(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
                        CUpti_CallbackId id, bool on) {
  require_subscribed(handle);
  require(domain < CUPTI_CB_DOMAIN_SIZE && id < on_[domain].size());
  on_[domain][id] = on;
}

void Subscriber::enable_all(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain, bool on) {
  require_subscribed(handle);
  require(domain < CUPTI_CB_DOMAIN_SIZE && !on_[domain].empty());
  for (auto& id : on_[domain]) id = on;
}

bool Subscriber::is_enabled(CUpti_SubscriberHandle handle, CUpti_CallbackDomain domain,
                            CUpti_CallbackId id) const {
  require_subscribed(handle);
  require(domain < CUPTI_CB_DOMAIN_SIZE && id < on_[domain].size());
  return on_[domain][id];
}

std::string Subscriber::name() const {
  const std::lock_guard lock{mutex_};
  return name_;
}

void Subscriber::call(CUpti_CallbackDomain domain, CUpti_CallbackId id,
                      const void* data) const noexcept {
  const CUpti_CallbackFunc function = function_.load();
  if (!function || t_in_callback) return;
  t_in_callback = true;
  function(userdata_.load(), domain, id, data);
  t_in_callback = false;
}

}  // namespace cucpu::cupti

using namespace cucpu::cupti;

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                           void* userdata) {
  return guarded([&] {
    require(subscriber != nullptr);
    *subscriber = Subscriber::instance().subscribe(callback, userdata, nullptr);
  });
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                              void* userdata, CUpti_SubscriberParams* params) {
  return guarded([&] {
    require(subscriber && params);
    try {
      *subscriber = Subscriber::instance().subscribe(callback, userdata, params->subscriberName);
    } catch (const Failure& failure) {
      if (failure.code == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED &&
          params->oldSubscriberName && params->oldSubscriberSize > 0) {
        const std::string name = Subscriber::instance().name();
        const std::size_t n = std::min(name.size(), params->oldSubscriberSize - 1);
        std::memcpy(params->oldSubscriberName, name.c_str(), n);
        params->oldSubscriberName[n] = 0;
      }
      throw;
    }
  });
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  return guarded([&] { Subscriber::instance().unsubscribe(subscriber); });
}

CUptiResult cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  return guarded([&] { Subscriber::instance().enable(subscriber, domain, id, enable != 0); });
}

CUptiResult cuptiEnableDomain(std::uint32_t enable, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain) {
  return guarded([&] { Subscriber::instance().enable_all(subscriber, domain, enable != 0); });
}

CUptiResult cuptiEnableAllDomains(std::uint32_t enable, CUpti_SubscriberHandle subscriber) {
  return guarded([&] {
    for (const CUpti_CallbackDomain domain : kDomains)
      Subscriber::instance().enable_all(subscriber, domain, enable != 0);
  });
}

CUptiResult cuptiGetCallbackState(std::uint32_t* enable, CUpti_SubscriberHandle subscriber,
                                  CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  return guarded([&] {
    require(enable != nullptr);
    *enable = Subscriber::instance().is_enabled(subscriber, domain, id);
  });
}

CUptiResult cuptiSupportedDomains(std::size_t* count, CUpti_DomainTable* domains) {
  return guarded([&] {
    require(count && domains);
    static CUpti_CallbackDomain supported[std::size(kDomains)];
    std::copy(std::begin(kDomains), std::end(kDomains), supported);
    *count = std::size(kDomains);
    *domains = supported;
  });
}

}  // extern "C"
