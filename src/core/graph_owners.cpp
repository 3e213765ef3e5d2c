// SPDX-License-Identifier: Apache-2.0
// graph_owners.cpp: what graphs keep alive. The driver's user objects count the graphs that need
// it.
#include <mutex>
#include <utility>
#include <vector>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/graph.hpp"
#include "driver/mutex.hpp"

namespace cucore {
namespace {

using Owner = std::shared_ptr<void>;

/// Owners no graph needs any more. Never destroyed: the driver may call until the process ends.
struct Forgotten {
  cucore::detail::Mutex mutex;
  std::vector<Owner> owners;
  void (*notify)() = nullptr;
};
Forgotten& forgotten() {
  static Forgotten* const instance = new Forgotten;
  return *instance;
}

}  // namespace

// Runs on a thread of the driver or inside cuGraphDestroy. What an owner does when it goes (free
// memory, unload code) is not allowed there, so it waits.
void CUDA_CB forget_owner(void* data) {
  auto* owner = static_cast<Owner*>(data);
  void (*notify)() = nullptr;
  {
    Forgotten& all = forgotten();
    const std::lock_guard lock{all.mutex};
    all.owners.push_back(std::move(*owner));
    notify = all.notify;
  }
  delete owner;
  if (notify != nullptr) notify();
}

void release_deferred_owners() {
  std::vector<Owner> owners;  // dropped outside the lock: an owner may hold graphs of its own
  Forgotten& all = forgotten();
  const std::lock_guard lock{all.mutex};
  owners.swap(all.owners);
}

void set_release_hook(void (*notify)()) {
  Forgotten& all = forgotten();
  const std::lock_guard lock{all.mutex};
  all.notify = notify;
}

/// Bodies and child graphs are parts of a graph: what they use is kept by the whole.
static detail::GraphBox* whole(detail::GraphBox* box) {
  while (box != nullptr && box->parent != nullptr) box = box->parent.get();
  return box;
}

/// Makes the driver hold an owner for the graph.
static CUuserObject keep_in(detail::GraphBox* box, std::shared_ptr<void> owner) {
  auto data = std::make_unique<Owner>(owner);
  CUuserObject object = nullptr;
  CUCORE_CALL(
      cuUserObjectCreate(&object, data.get(), &forget_owner, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  static_cast<void>(data.release());  // forget_owner deletes it
  const CUresult code =
      driver().cuGraphRetainUserObject(box->handle, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
  if (code != CUDA_SUCCESS) {
    driver().cuUserObjectRelease(object, 1);
    fail(code, "cuGraphRetainUserObject");
  }
  box->kept.emplace_back(object, std::move(owner));
  return object;
}

CUuserObject GraphDefinition::keep(std::shared_ptr<void> owner) {
  release_deferred_owners();
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  return keep_in(box, std::move(owner));
}

void GraphDefinition::keep_beside(std::shared_ptr<void> owner) {
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  box->beside.push_back(std::move(owner));
}

void GraphDefinition::share() const {
  detail::GraphBox* box = whole(box_.get());
  while (box != nullptr && box->handle != nullptr && !box->beside.empty()) {
    keep_in(box, box->beside.back());
    box->beside.pop_back();
  }
}

void GraphDefinition::forget(CUuserObject kept) {
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  CUCORE_CALL(cuGraphReleaseUserObject(box->handle, kept, 1));
  std::erase_if(box->kept, [&](const auto& pair) { return pair.first == kept; });
  release_deferred_owners();
}

namespace {
/// Takes out of a graph what it keeps, for a scope: what is made from it meanwhile keeps nothing.
class Lifted {
 public:
  Lifted(detail::GraphBox* box, GraphOwners& owners) : box_{box} {
    if (box_ == nullptr) return;
    owners.insert(owners.end(), box_->beside.begin(), box_->beside.end());
    for (const auto& [object, owner] : box_->kept) {
      if (driver().cuUserObjectRetain(object, 1) != CUDA_SUCCESS) break;
      if (driver().cuGraphReleaseUserObject(box_->handle, object, 1) != CUDA_SUCCESS) {
        driver().cuUserObjectRelease(object, 1);
        break;
      }
      ++count_;
      owners.push_back(owner);
    }
  }
  Lifted(const Lifted&) = delete;
  Lifted& operator=(const Lifted&) = delete;
  ~Lifted() {
    for (std::size_t i = count_; i-- > 0;) {
      auto& [object, owner] = box_->kept[i];
      if (driver().cuGraphRetainUserObject(box_->handle, object, 1, CU_GRAPH_USER_OBJECT_MOVE) ==
          CUDA_SUCCESS)
        continue;
      box_->beside.push_back(std::move(owner));  // the driver does not keep it any more: we do
      driver().cuUserObjectRelease(object, 1);
      box_->kept.erase(box_->kept.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }

 private:
  detail::GraphBox* box_;
  std::size_t count_ = 0;
};
}  // namespace

Graph GraphDefinition::instantiate(const GraphCompleteOptions& options, GraphOwners& owners) const {
  const Lifted lifted{whole(box_.get()), owners};
  return make(options);
}

void Graph::update(const GraphDefinition& source, GraphOwners& owners) const {
  const Lifted lifted{whole(source.box_.get()), owners};
  take_over(source);
}

Graph GraphDefinition::instantiate(const GraphCompleteOptions& options) const {
  share();
  return make(options);
}

void Graph::update(const GraphDefinition& source) const {
  source.share();
  take_over(source);
}

CUgraphNode GraphDefinition::add_event_record(Nodes after, const Event& event) {
  const CUgraphNode node = add_event_record(after, EventRef{event.handle()});
  keep(std::make_shared<Event>(event));
  return node;
}

CUgraphNode GraphDefinition::add_event_wait(Nodes after, const Event& event) {
  const CUgraphNode node = add_event_wait(after, EventRef{event.handle()});
  keep(std::make_shared<Event>(event));
  return node;
}

}  // namespace cucore
