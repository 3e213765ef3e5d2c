// SPDX-License-Identifier: Apache-2.0
// graph_owners.cpp: ownership of the resources that graphs use. The driver's user objects count the
// graphs that reference them.
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"
#include "cucore/graph.hpp"
#include "cucore/graph_node.hpp"
#include "driver/mutex.hpp"

namespace cucore {
namespace {

using Owner = std::shared_ptr<void>;

/// Owners that no graph references any more, to be released later. Never destroyed: the driver may
/// call back until the process ends.
struct DeferredOwners {
  cucore::detail::Mutex mutex;
  std::vector<Owner> owners;
  void (*notify)() = nullptr;
};
DeferredOwners& deferred_owners() {
  static DeferredOwners* const instance = new DeferredOwners;
  return *instance;
}

}  // namespace

// Runs on a thread of the driver or inside cuGraphDestroy. The destructor of an owner frees memory
// or unloads code, which is not allowed there, so the release is deferred.
void CUDA_CB release_owner(void* data) {
  auto* owner = static_cast<Owner*>(data);
  void (*notify)() = nullptr;
  {
    DeferredOwners& all = deferred_owners();
    const std::lock_guard lock{all.mutex};
    all.owners.push_back(std::move(*owner));
    notify = all.notify;
  }
  delete owner;
  if (notify != nullptr) notify();
}

void release_deferred_owners() {
  std::vector<Owner> owners;  // destroyed outside the lock: an owner may own graphs itself
  DeferredOwners& all = deferred_owners();
  const std::lock_guard lock{all.mutex};
  owners.swap(all.owners);
}

void set_release_hook(void (*notify)()) {
  DeferredOwners& all = deferred_owners();
  const std::lock_guard lock{all.mutex};
  all.notify = notify;
}

/// Returns the outermost graph of a body or child graph. It owns the resources of all graphs inside
/// it.
static detail::GraphBox* whole(detail::GraphBox* box) {
  while (box != nullptr && box->parent != nullptr) box = box->parent.get();
  return box;
}

/// Creates a user object that holds `owner`, and moves its reference to the graph.
static CUuserObject keep_in(detail::GraphBox* box, std::shared_ptr<void> owner) {
  auto data = std::make_unique<Owner>(owner);
  CUuserObject object = nullptr;
  CUCORE_CALL(cuUserObjectCreate(&object, data.get(), &release_owner, 1,
                                 CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  static_cast<void>(data.release());  // release_owner deletes it
  const CUresult code =
      driver().cuGraphRetainUserObject(box->part->handle, object, 1, CU_GRAPH_USER_OBJECT_MOVE);
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

void GraphDefinition::keep_beside(std::shared_ptr<void> owner, CUgraphNode node) {
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  box->beside.emplace_back(node, std::move(owner));
}

void GraphDefinition::share() const {
  detail::GraphBox* box = whole(box_.get());
  while (box != nullptr && box->part->handle != nullptr && !box->beside.empty()) {
    const auto& [node, owner] = box->beside.back();
    const CUuserObject object = keep_in(box, owner);
    if (node != nullptr) box->uses[node] = {object, box->part->handle};
    box->beside.pop_back();
  }
}

/// Releases the graph's reference to an object that keep_in() created.
static void release_from(detail::GraphBox* box, CUuserObject kept) {
  CUCORE_CALL(cuGraphReleaseUserObject(box->part->handle, kept, 1));
  std::erase_if(box->kept, [&](const auto& pair) { return pair.first == kept; });
}

void GraphDefinition::release(CUuserObject kept) {
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  release_from(box, kept);
  release_deferred_owners();
}

// ---- resources of single nodes

/// Releases the graph's reference to the resource of a node. If its holder is in `gone`, the
/// reference was released when that graph was destroyed.
static void end_use(detail::GraphBox* box, CUgraphNode node, const std::set<CUgraph>& gone) {
  std::erase_if(box->beside, [&](const auto& pair) { return pair.first == node; });
  const auto found = box->uses.find(node);
  if (found == box->uses.end()) return;
  const detail::NodeUse use = found->second;
  box->uses.erase(found);
  if (use.holder == box->part->handle) {
    release_from(box, use.object);
  } else if (!gone.contains(use.holder)) {
    CUCORE_CALL(cuGraphReleaseUserObject(use.holder, use.object, 1));
  }
}

void GraphDefinition::use(CUgraphNode node, std::shared_ptr<void> owner) {
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  const CUuserObject object = owner != nullptr ? keep(std::move(owner)) : nullptr;
  end_use(box, node, {});
  if (object != nullptr) box->uses[node] = {object, box->part->handle};
  release_deferred_owners();
}

GraphDefinition GraphDefinition::inside(CUgraphNode node, CUgraph handle) const {
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  GraphDefinition found = view(handle, *this);
  auto& parts = box->inside[node];
  for (const auto& part : parts) {
    if (part->handle != handle) continue;
    found.box_->part = part;
    return found;
  }
  parts.push_back(found.box_->part);
  return found;
}

namespace {

/// Returns the graphs inside a node: the clone of a child graph node, or the bodies of a
/// conditional node if this library created that node.
std::vector<CUgraph> graphs_of(const detail::GraphBox* box, CUgraphNode node) {
  const CUgraphNodeType type = GraphNodeRef{node}.type();
  std::vector<CUgraph> graphs;
  if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
    graphs.push_back(nullptr);
    CUCORE_CALL(cuGraphChildGraphNodeGetGraph(node, &graphs.back()));
  } else if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
    if (const auto found = box->inside.find(node); found != box->inside.end()) {
      for (const auto& part : found->second) graphs.push_back(part->handle);
    }
  }
  return graphs;
}

std::vector<CUgraphNode> nodes_in(CUgraph graph) {
  return GraphDefinition::view(graph, GraphDefinition{}).nodes();
}

/// All nodes and graphs nested in a node.
struct Contents {
  std::vector<CUgraphNode> nodes;
  std::set<CUgraph> graphs;
  void collect(const detail::GraphBox* box, CUgraphNode node) {
    for (const CUgraph graph : graphs_of(box, node)) {
      graphs.insert(graph);
      for (const CUgraphNode inner : nodes_in(graph)) {
        nodes.push_back(inner);
        collect(box, inner);
      }
    }
  }
};

/// Invalidates the references to the graphs inside a node after they are destroyed.
void end_parts(detail::GraphBox* box, CUgraphNode node) {
  const auto found = box->inside.find(node);
  if (found == box->inside.end()) return;
  for (const auto& part : found->second) {
    part->handle = nullptr;
    ++part->generation;
  }
  box->inside.erase(found);
  box->conditional_types.erase(node);
}

/// Retains, for this graph, an object that another graph holds as well.
detail::NodeUse share_object(detail::GraphBox* box, CUuserObject object) {
  CUCORE_CALL(cuGraphRetainUserObject(box->part->handle, object, 1, 0));
  return {object, box->part->handle};
}

/// Records the resources of the nodes of a clone. Its nodes are those of `source` in the same
/// order. If a driver uses another order, the resources are kept until the whole graph is
/// destroyed. `holders` maps graphs to their clones: a clone holds the same user objects as its
/// original.
void copy_uses_into(detail::GraphBox* box, CUgraph copy, const detail::GraphBox* from,
                    CUgraph source, std::map<CUgraph, CUgraph>& holders) {
  holders[source] = copy;
  const auto originals = nodes_in(source);
  const auto copies = nodes_in(copy);
  if (originals.size() != copies.size()) return;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (GraphNodeRef{originals[i]}.type() != GraphNodeRef{copies[i]}.type()) return;
  }
  for (std::size_t i = 0; i < copies.size(); ++i) {
    if (const auto used = from->uses.find(originals[i]); used != from->uses.end()) {
      const auto holder = holders.find(used->second.holder);
      box->uses[copies[i]] = holder != holders.end()
                                 ? detail::NodeUse{used->second.object, holder->second}
                                 : share_object(box, used->second.object);
    }
    const auto inner = graphs_of(from, originals[i]);
    const auto inner_copy = graphs_of(box, copies[i]);
    for (std::size_t k = 0; k < inner.size() && k < inner_copy.size(); ++k)
      copy_uses_into(box, inner_copy[k], from, inner[k], holders);
  }
}

}  // namespace

void GraphDefinition::note_conditional(CUgraphNode node, CUgraphConditionalNodeType type) {
  whole(box_.get())->conditional_types[node] = type;
}

std::optional<CUgraphConditionalNodeType> GraphDefinition::conditional_type(
    CUgraphNode node) const {
  const detail::GraphBox* const box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  const auto found = box->conditional_types.find(node);
  if (found == box->conditional_types.end()) return std::nullopt;
  return found->second;
}

std::vector<GraphDefinition> GraphDefinition::bodies(CUgraphNode node) const {
  const detail::GraphBox* const box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  std::vector<GraphDefinition> found;
  for (const CUgraph graph : graphs_of(box, node)) found.push_back(inside(node, graph));
  return found;
}

void GraphDefinition::remove(CUgraphNode node) {
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr) throw InvalidStateError("there is no graph");
  Contents inner;
  inner.collect(box, node);
  CUCORE_CALL(cuGraphDestroyNode(node));
  end_parts(box, node);
  end_use(box, node, inner.graphs);
  for (const CUgraphNode gone : inner.nodes) {
    end_parts(box, gone);
    end_use(box, gone, inner.graphs);
  }
  release_deferred_owners();
}

void GraphDefinition::set_child(CUgraphNode node, const GraphDefinition& child) {
  detail::GraphBox* box = whole(box_.get());
  if (box == nullptr || !child.is_valid()) throw InvalidStateError("there is no graph");
  const auto before = graphs_of(box, node);
  if ((!before.empty() && child.handle() == before.front()) || child.handle() == handle()) {
    constexpr CUresult kCode = CUDA_ERROR_INVALID_VALUE;
    throw CUDAError{kCode, result_name(kCode),
                    std::string{result_name(kCode)} +
                        ": update(): a node cannot be given the graph it runs or is part of, "
                        "which the driver would destroy while it reads it"};
  }
  Contents inner;
  inner.collect(box, node);
  CUgraphNodeParams params{};
  params.type = CU_GRAPH_NODE_TYPE_GRAPH;
  child.share();
  params.graph.graph = child.handle();
  CUCORE_CALL(cuGraphNodeSetParams(node, &params));
  for (const CUgraphNode gone : inner.nodes) {
    end_parts(box, gone);
    end_use(box, gone, inner.graphs);
  }
  const CUgraph now = graphs_of(box, node).front();
  for (const auto& part : box->inside[node]) {
    part->handle = now;
    ++part->generation;
  }
  copy_uses(node, child);
  release_deferred_owners();
}

void GraphDefinition::copy_uses(CUgraphNode node, const GraphDefinition& child) {
  detail::GraphBox* box = whole(box_.get());
  const detail::GraphBox* from = whole(child.box_.get());
  // User objects of the outermost graph are not cloned with a part of it.
  if (from->part != child.box_->part) {
    std::set<CUuserObject> of_nodes;
    for (const auto& [user, use] : from->uses) of_nodes.insert(use.object);
    for (const auto& [object, owner] : from->kept) {
      if (!of_nodes.contains(object)) share_object(box, object);
    }
  }
  if (from->uses.empty()) return;
  std::map<CUgraph, CUgraph> holders;
  copy_uses_into(box, graphs_of(box, node).front(), from, child.handle(), holders);
}

namespace {
/// Detaches the resources of a graph for the lifetime of this object, so that executable graphs
/// created or updated from it meanwhile do not retain them.
class Lifted {
 public:
  Lifted(detail::GraphBox* box, GraphOwners& owners) : box_{box} {
    if (box_ == nullptr) return;
    for (const auto& [node, owner] : box_->beside) owners.push_back(owner);
    for (const auto& [object, owner] : box_->kept) {
      if (driver().cuUserObjectRetain(object, 1) != CUDA_SUCCESS) break;
      if (driver().cuGraphReleaseUserObject(box_->part->handle, object, 1) != CUDA_SUCCESS) {
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
      if (driver().cuGraphRetainUserObject(box_->part->handle, object, 1,
                                           CU_GRAPH_USER_OBJECT_MOVE) == CUDA_SUCCESS)
        continue;
      // The driver no longer holds the owner, so this graph does.
      box_->beside.emplace_back(nullptr, std::move(owner));
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
  use(node, std::make_shared<Event>(event));
  return node;
}

CUgraphNode GraphDefinition::add_event_wait(Nodes after, const Event& event) {
  const CUgraphNode node = add_event_wait(after, EventRef{event.handle()});
  use(node, std::make_shared<Event>(event));
  return node;
}

}  // namespace cucore
