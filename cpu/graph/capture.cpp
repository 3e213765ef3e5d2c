// SPDX-License-Identifier: Apache-2.0
// Stream capture: operations become nodes instead of work.
#include "cpu/graph/capture.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <set>

#include "cpu/device/capture.hpp"
#include "cpu/device/kernel_op.hpp"
#include "cpu/graph/nodes.hpp"
#include "protection.hpp"

namespace cucpu::driver {

/// One capture: its graph, and the streams that add nodes. Guarded by graph_mutex().
class Capture final : public Object {
 public:
  struct Tail {
    std::vector<Edge> edges;
    std::vector<CUgraphNode> listed;  // result of the last cuStreamGetCaptureInfo
    std::vector<CUgraphEdgeData> listed_data;
  };
  std::uint64_t id = 0;
  Ref<Graph> graph;
  bool owns_graph = true;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::uint64_t thread = 0;
  Stream* origin = nullptr;
  bool broken = false;
  std::map<Stream*, Tail> tails;
  std::vector<std::weak_ptr<std::vector<Edge>>> marks;  // edges of the events recorded in it
  std::vector<Ref<Stream>> streams;

  /// A capture into an existing graph: captured operations are matched with its nodes in their
  /// order.
  struct Recapture {
    std::size_t next = 0;
    CUgraphRecaptureCallback callback = nullptr;
    void* data = nullptr;
  };
  std::optional<Recapture> recapture;
};

std::atomic<int> g_active_captures{0};

namespace {

std::atomic<std::uint64_t> g_next_id{1};

struct State {
  std::set<Ref<Capture>,
           decltype([](const Ref<Capture>& a, const Ref<Capture>& b) { return a.get() < b.get(); })>
      captures;
};
State& state() {
  static State& s = *new State;
  return s;
}

thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::uint64_t this_thread() {
  static std::atomic<std::uint64_t> next{1};
  static thread_local const std::uint64_t id = next.fetch_add(1);
  return id;
}

/// The state of an event recorded in a capture.
class Mark final : public Object {
 public:
  Ref<Capture> capture;
  std::shared_ptr<std::vector<Edge>>
      edges;  // shared with the capture, which removes destroyed nodes
};

Capture& of(Stream& stream) { return *stream.capture.load(std::memory_order_acquire); }
bool is_capturing(Stream& stream) {
  return stream.capture.load(std::memory_order_acquire) != nullptr;
}

void require_valid(Capture& capture) {
  require(!capture.broken, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

void add_edge(std::vector<Edge>& edges, const Edge& edge) {
  if (std::none_of(edges.begin(), edges.end(), [&](const Edge& e) { return e.from == edge.from; }))
    edges.push_back(edge);
}

[[noreturn]] void fail_recapture(Capture& capture) {
  capture.broken = true;
  fail(CUDA_ERROR_GRAPH_RECAPTURE_FAILURE,
       "the captured operations differ in structure from the graph that is captured again");
}

/// The node that matches a captured operation in a recapture. The program's callback gets changed
/// parameters and may end the capture; the node takes them over.
GraphNode& match_recaptured_node(Capture& capture, const std::vector<Edge>& edges, Ref<NodeOp> op) {
  Capture::Recapture& r = *capture.recapture;
  if (r.next >= capture.graph->nodes.size())
    fail_recapture(capture);  // nodes may have been destroyed
  GraphNode& node = *capture.graph->nodes[r.next++];
  const CUgraphNodeType type = op->type();
  if (node.op->type() != type || node.dependencies.size() != edges.size()) fail_recapture(capture);
  for (const Edge& edge : edges)
    if (std::none_of(node.dependencies.begin(), node.dependencies.end(),
                     [&](const Edge& e) { return e.from == edge.from; }))
      fail_recapture(capture);
  if (is_same_op(*node.op, *op)) return node;
  if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE)
    fail_recapture(capture);
  const bool updatable = type != CU_GRAPH_NODE_TYPE_CONDITIONAL && type != CU_GRAPH_NODE_TYPE_GRAPH;
  const CUgraphNodeParams before = params_of(*node.op), after = params_of(*op);
  if (r.callback) {
    const auto status = updatable ? CU_GRAPH_RECAPTURE_ELIGIBLE_FOR_UPDATE
                                  : CU_GRAPH_RECAPTURE_INELIGIBLE_FOR_UPDATE;
    if (r.callback(r.data, node.handle(), &before, &after, status) != CUDA_SUCCESS) {
      capture.broken = true;
      fail(CUDA_ERROR_GRAPH_RECAPTURE_FAILURE, "the recapture callback rejected a changed node");
    }
  }
  node.graph.replace(node, std::move(op));
  return node;
}

/// The edges of a captured node. A kernel with programmatic stream serialization waits for the
/// trigger of the kernels ahead of it, not for their end.
std::vector<Edge> edges_to(const NodeOp& op, std::vector<Edge> edges) {
  const auto* kernel = dynamic_cast<const KernelOp*>(&op);
  if (!kernel) return edges;
  const bool is_programmatic = std::any_of(
      kernel->attributes.begin(), kernel->attributes.end(), [](const CUlaunchAttribute& a) {
        return a.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
               a.value.programmaticStreamSerializationAllowed != 0;
      });
  if (!is_programmatic) return edges;
  for (Edge& edge : edges) {
    if (edge.from->op->type() != CU_GRAPH_NODE_TYPE_KERNEL || edge.data.type != 0) continue;
    edge.data.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    edge.data.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
  }
  return edges;
}

GraphNode& append(Capture& capture, Stream& stream, Ref<NodeOp> op) {
  Capture::Tail& tail = capture.tails[&stream];
  if (capture.recapture) {
    GraphNode& node = match_recaptured_node(capture, tail.edges, std::move(op));
    tail.edges = {{&node, {}}};
    return node;
  }
  const std::vector<Edge> edges = edges_to(*op, tail.edges);
  GraphNode& node = capture.graph->add(std::move(op), edges);
  tail.edges = {{&node, {}}};
  return node;
}

/// Work in the legacy stream waits for blocking streams, which is impossible while one of them is
/// captured.
void require_no_implicit_wait(Stream& stream) {
  if (stream.role() != StreamRole::legacy) return;
  for (const auto& capture : state().captures)
    for (const auto& other : capture->streams)
      if (&context_of(*other) == &context_of(stream) && other->is_blocking()) {
        capture->broken = true;
        fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
      }
}

/// Removes all streams from the capture.
void finish(Capture& capture) {
  const Ref<Capture> keep{&capture};
  for (auto& stream : capture.streams) stream->capture.store(nullptr, std::memory_order_release);
  capture.streams.clear();
  if (state().captures.erase(keep)) --g_active_captures;
}

/// Destroys the graph of a failed capture and its nodes, whose handles own references, even if the
/// program has the graph's handle. Call without the lock: destructors of user objects are functions
/// of the program.
void destroy_failed_graph(const Ref<Capture>& capture) noexcept {
  if (!capture) return;
  const Ref<Graph> graph = std::move(capture->graph);
  if (capture->owns_graph) graph->retire_all();
}

/// True when all streams have joined: every last node leads to the last node of the origin stream.
bool is_joined(Capture& capture) {
  std::set<const GraphNode*> reached;
  std::vector<const GraphNode*> open;
  for (const Edge& edge : capture.tails[capture.origin].edges) open.push_back(edge.from);
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!reached.insert(node).second) continue;
    for (const Edge& edge : node->dependencies) open.push_back(edge.from);
  }
  for (const auto& [stream, tail] : capture.tails)
    for (const Edge& edge : tail.edges)
      if (!reached.contains(edge.from)) return false;
  return true;
}

}  // namespace

void begin_capture(Stream& stream, CUstreamCaptureMode mode, Ref<Graph> graph,
                   std::vector<Edge> edges, bool owns, const RecaptureCallback* recapture) {
  require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
  require(stream.role() != StreamRole::legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const std::lock_guard lock{graph_mutex()};
  require(!is_capturing(stream) && !is_captured_into(*graph), CUDA_ERROR_ILLEGAL_STATE);
  auto capture = make_object<Capture>();
  capture->id = g_next_id.fetch_add(1);
  capture->graph = std::move(graph);
  capture->owns_graph = owns;
  if (recapture) capture->recapture = Capture::Recapture{0, recapture->function, recapture->data};
  capture->mode = mode;
  capture->thread = this_thread();
  capture->origin = &stream;
  capture->tails[&stream].edges = std::move(edges);
  capture->streams.emplace_back(&stream);
  state().captures.insert(capture);
  ++g_active_captures;
  stream.capture.store(capture.get(), std::memory_order_release);
}

void end_capture(Stream& stream, CUgraph* out) {
  Ref<Capture> capture;  // destroyed after the lock is released, because its members may be
  Ref<Graph> graph;      // moved out of the capture: an event in the graph may own the capture
  std::unique_lock lock{graph_mutex()};
  require(stream.capture.load() != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  if (out) *out = nullptr;
  capture = Ref<Capture>{stream.capture.load()};
  if (capture->origin != &stream) {
    capture->broken = true;
    fail(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    require(capture->thread == this_thread(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  const bool broken = capture->broken, joined = broken || is_joined(*capture);
  const bool whole =
      !capture->recapture || capture->recapture->next == capture->graph->nodes.size();
  finish(*capture);
  if (broken || !joined || !whole) {
    lock.unlock();
    destroy_failed_graph(capture);
    fail(broken   ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
         : joined ? CUDA_ERROR_GRAPH_RECAPTURE_FAILURE
                  : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  }
  graph = std::move(capture->graph);
  const bool has_handle = !capture->owns_graph || graph->is_published();
  if (out) {
    *out = has_handle ? graph->handle() : graph->publish();
  } else if (!has_handle) {
    lock.unlock();
    graph->retire_all();  // nothing names the graph any more
  }
}

CUstreamCaptureStatus capture_status(Stream& stream) {
  if (!stream.capture.load(std::memory_order_acquire)) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture.load()->broken ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void capture_info(Stream& stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                  const CUgraphNode** dependencies, const CUgraphEdgeData** data,
                  std::size_t* count) {
  const std::lock_guard lock{graph_mutex()};
  *status = capture_status(stream);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
  Capture& capture = *stream.capture.load();
  if (id) *id = capture.id;
  if (graph)
    *graph = capture.graph->is_published() ? capture.graph->handle() : capture.graph->publish();
  Capture::Tail& tail = capture.tails[&stream];
  tail.listed.clear();
  tail.listed_data.clear();
  for (const Edge& edge : tail.edges) {
    tail.listed.push_back(edge.from->handle());
    tail.listed_data.push_back(edge.data);
  }
  if (dependencies) *dependencies = tail.listed.data();
  if (data) *data = tail.listed_data.data();
  if (count) *count = tail.listed.size();
}

void update_capture_dependencies(Stream& stream, const CUgraphNode* dependencies,
                                 const CUgraphEdgeData* data, std::size_t count, unsigned flags) {
  const std::lock_guard lock{graph_mutex()};
  require(stream.capture.load() != nullptr, CUDA_ERROR_ILLEGAL_STATE);
  require((dependencies || count == 0) && flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  Capture& capture = *stream.capture.load();
  require_valid(capture);
  std::vector<Edge> edges;
  if (flags == CU_STREAM_ADD_CAPTURE_DEPENDENCIES) edges = capture.tails[&stream].edges;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode& node = node_of(dependencies[i]);
    require(&node.graph == capture.graph.get());
    add_edge(edges, {&node, data ? data[i] : CUgraphEdgeData{}});
  }
  capture.tails[&stream].edges = std::move(edges);
}

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode) noexcept {
  return std::exchange(t_mode, mode);
}

bool capture_node(Stream& stream, const Ref<NodeOp>& op) {
  if (!is_capture_active()) [[likely]]
    return false;
  const std::lock_guard lock{graph_mutex()};
  if (is_capturing(stream)) {
    require_valid(of(stream));
    append(of(stream), stream, op);
    return true;
  }
  require_no_implicit_wait(stream);
  return false;
}

void require_capture_safe() {
  if (!CUCORE_PROTECTION("capture-forbids-unsafe-calls") || !is_capture_active() ||
      t_mode == CU_STREAM_CAPTURE_MODE_RELAXED) [[likely]]
    return;
  const std::lock_guard lock{graph_mutex()};
  for (const auto& capture : state().captures) {
    if (capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
    const bool mine = capture->thread == this_thread();
    const bool others_count =
        t_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!mine && !others_count) continue;
    capture->broken = true;
    fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
}

void require_not_capturing(Stream& stream) {
  if (!is_capture_active()) [[likely]]
    return;
  const std::lock_guard lock{graph_mutex()};
  if (is_capturing(stream)) {
    of(stream).broken = true;
    fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  require_no_implicit_wait(stream);
}

void require_not_capturing(Context& context) {
  if (!is_capture_active()) [[likely]]
    return;
  const std::lock_guard lock{graph_mutex()};
  for (const auto& capture : state().captures)
    for (const auto& stream : capture->streams)
      if (&context_of(*stream) == &context) {
        capture->broken = true;
        fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
      }
}

void remove_from_captures(const GraphNode& node) noexcept {
  const auto leaves_it = [&](const Edge& edge) { return edge.from == &node; };
  for (const auto& capture : state().captures) {
    for (auto& [stream, tail] : capture->tails) std::erase_if(tail.edges, leaves_it);
    for (const auto& mark : capture->marks)
      if (const auto edges = mark.lock()) std::erase_if(*edges, leaves_it);
  }
}

bool is_captured_into(const Graph& graph) noexcept {
  const auto& captures = state().captures;
  return std::any_of(captures.begin(), captures.end(),
                     [&](const auto& capture) { return capture->graph.get() == &graph; });
}

void break_captures_into(const Graph& graph) noexcept {
  for (const auto& capture : state().captures)
    if (capture->graph.get() == &graph) capture->broken = true;
}

void abandon_capture(Stream& stream) noexcept {
  if (!is_capture_active()) [[likely]]
    return;
  Ref<Capture> ended;
  {
    const std::lock_guard lock{graph_mutex()};
    if (!is_capturing(stream)) return;
    Capture& capture = of(stream);
    if (capture.origin != &stream)
      return;  // its nodes stay; the end of the capture checks that it was joined
    capture.broken = true;
    ended = Ref<Capture>{&capture};
    finish(capture);
  }
  destroy_failed_graph(ended);
}

bool capture_record(Stream& stream, Event& event, bool external) {
  if (!is_capture_active()) [[likely]]
    return false;
  const std::lock_guard lock{graph_mutex()};
  if (!is_capturing(stream)) return false;
  Capture& capture = of(stream);
  require_valid(capture);
  if (external) {
    append(capture, stream, make_object<EventRecordOp>(Ref<Event>{&event}));
    return true;
  }
  auto mark = make_object<Mark>();
  mark->capture = Ref<Capture>{&capture};
  mark->edges = std::make_shared<std::vector<Edge>>(capture.tails[&stream].edges);
  if (std::has_single_bit(capture.marks.size()))  // amortized cleanup
    std::erase_if(capture.marks, [](const auto& known) { return known.expired(); });
  capture.marks.push_back(mark->edges);
  event.set_captured(mark);
  return true;
}

bool capture_wait(Stream& stream, Event& event, bool external) {
  if (!is_capture_active() && !event.is_captured()) [[likely]]
    return false;
  const std::lock_guard lock{graph_mutex()};
  const bool capturing = is_capturing(stream);
  if (external) {
    require(capturing);
    require_valid(of(stream));
    append(of(stream), stream, make_object<EventWaitOp>(Ref<Event>{&event}));
    return true;
  }
  const Ref<Object> kept = event.captured();
  const auto* mark = static_cast<const Mark*>(kept.get());
  if (!mark) {
    if (!capturing) return false;
    of(stream).broken = true;
    fail(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  Capture& capture = *mark->capture;
  require(!capture.streams.empty(), CUDA_ERROR_CAPTURED_EVENT);  // that capture has ended
  require_valid(capture);
  if (capturing && &of(stream) != &capture) {
    of(stream).broken = capture.broken = true;
    fail(CUDA_ERROR_STREAM_CAPTURE_MERGE);
  }
  if (!capturing) {
    if (stream.role() == StreamRole::legacy) {
      capture.broken = true;
      fail(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    capture.streams.emplace_back(&stream);
    capture.tails[&stream].edges.clear();
    stream.capture.store(&capture, std::memory_order_release);
  }
  for (const Edge& edge : *mark->edges) add_edge(capture.tails[&stream].edges, edge);
  return true;
}

CUdeviceptr capture_alloc(Stream& stream, std::size_t bytes, const CUmemPoolProps& pool) {
  if (!is_capture_active()) [[likely]]
    return 0;
  const std::lock_guard lock{graph_mutex()};
  if (!is_capturing(stream)) return 0;
  require_valid(of(stream));
  CUgraphNodeParams p{};
  p.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  p.alloc.poolProps = pool;
  p.alloc.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  p.alloc.bytesize = bytes;
  GraphNode& node = append(of(stream), stream, make_node_op(p));
  return static_cast<AllocOp&>(*node.op).params.dptr;  // a recapture keeps the existing memory
}

bool capture_free(Stream& stream, CUdeviceptr address) {
  if (!is_capture_active()) [[likely]]
    return false;
  const std::lock_guard lock{graph_mutex()};
  if (!is_capturing(stream)) return false;
  require_valid(of(stream));
  append(of(stream), stream, make_object<FreeOp>(address));
  return true;
}

}  // namespace cucpu::driver
