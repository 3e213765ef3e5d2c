// SPDX-License-Identifier: Apache-2.0
// graph_builder.cpp: captures streams into graphs.
#include "cucore/graph_builder.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

#include "core/captured_free.hpp"
#include "cucore/device.hpp"
#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {

CaptureInfo capture_info(StreamRef stream) {
  CaptureInfo info;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* data = nullptr;
  std::size_t count = 0;
  CUCORE_CALL(cuStreamGetCaptureInfo(stream.handle(), &info.status, &info.id, &info.graph, &nodes,
                                     &data, &count));
  info.after.assign(nodes, nodes + count);
  return info;
}

GraphDefinition begin_capture(StreamRef stream, CUstreamCaptureMode mode) {
  CUCORE_CALL(cuStreamBeginCapture(stream.handle(), mode));
  return GraphDefinition::view(capture_info(stream).graph, GraphDefinition{});
}

void begin_capture_to(StreamRef stream, CUgraph graph, CUstreamCaptureMode mode) {
  CUCORE_CALL(cuStreamBeginCaptureToGraph(stream.handle(), graph, nullptr, nullptr, 0, mode));
}

CUgraph end_capture(StreamRef stream) {
  CUgraph graph = nullptr;
  const CUresult code = driver().cuStreamEndCapture(stream.handle(), &graph);
  detail::free_after_captures();
  check(code, "cuStreamEndCapture");
  return graph;
}

void continue_capture_after(StreamRef stream, std::span<const CUgraphNode> nodes) {
  std::vector<CUgraphNode> list(nodes.begin(), nodes.end());
  CUCORE_CALL(cuStreamUpdateCaptureDependencies(stream.handle(), list.data(), nullptr, list.size(),
                                                CU_STREAM_SET_CAPTURE_DEPENDENCIES));
}

struct GraphBuilder::State {
  enum class Kind { primary, branch, body };
  enum class Phase { fresh, building, ended, closed };

  Stream stream;
  Kind kind = Kind::primary;
  std::atomic<Phase> phase{Phase::fresh};  // atomic: read by threads that do not modify the builder
  GraphDefinition definition;              // the graph; for a body, part of its parent's graph
  // Branches that split() created in this capture; they end with it.
  std::vector<std::weak_ptr<State>> branches;
  std::weak_ptr<State> root;  // of a branch: the state whose `branches` contains it

  void close_branches() noexcept {
    for (const auto& branch : branches) {
      if (const auto open = branch.lock()) {
        open->phase = Phase::closed;
        open->stream = Stream{};
      }
    }
    branches.clear();
  }
  [[nodiscard]] bool is_capturing() const noexcept {
    CUstreamCaptureStatus status{};
    return driver().cuStreamIsCapturing(stream.handle(), &status) == CUDA_SUCCESS &&
           status != CU_STREAM_CAPTURE_STATUS_NONE;
  }
};

GraphBuilder::GraphBuilder(const Stream& stream) : state_{std::make_shared<State>()} {
  state_->stream = stream;
}
GraphBuilder::GraphBuilder(std::shared_ptr<State> state) : state_{std::move(state)} {}
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&& other) noexcept {
  if (this != &other) {
    close();
    state_ = std::move(other.state_);
  }
  return *this;
}
GraphBuilder::~GraphBuilder() { close(); }

const Stream& GraphBuilder::stream() const {
  if (is_closed()) throw InvalidStateError{"the graph builder is closed"};
  return state_->stream;
}

bool GraphBuilder::is_building() const noexcept {
  return state_ != nullptr && state_->phase == State::Phase::building;
}
bool GraphBuilder::is_built() const noexcept {
  return state_ != nullptr && state_->phase == State::Phase::ended;
}
bool GraphBuilder::is_closed() const noexcept {
  return state_ == nullptr || state_->phase == State::Phase::closed;
}
bool GraphBuilder::is_primary() const noexcept {
  return state_ != nullptr && state_->kind == State::Kind::primary;
}
bool GraphBuilder::is_join_required() const noexcept {
  return is_building() && state_->kind == State::Kind::branch;
}

GraphBuilder::State& GraphBuilder::building() const {
  static_cast<void>(stream());
  if (!is_building()) {
    throw InvalidStateError{"the graph builder is not building: call begin_building() first"};
  }
  return *state_;
}

GraphDefinition GraphBuilder::graph_definition() const {
  static_cast<void>(stream());
  if (state_->phase == State::Phase::building)
    throw InvalidStateError{"the graph is still being built: call end_building() first"};
  if (state_->phase == State::Phase::fresh && state_->kind != State::Kind::body) {
    throw InvalidStateError{
        "nothing was built: call begin_building(), queue work, and call end_building()"};
  }
  return state_->definition;
}

GraphDefinition GraphBuilder::unfinished_definition() const {
  static_cast<void>(stream());
  return state_->definition;
}

GraphDefinition GraphBuilder::built() const {
  static_cast<void>(stream());
  if (state_->phase == State::Phase::fresh) {
    throw InvalidStateError{
        "nothing was built: call begin_building(), queue work, and call end_building()"};
  }
  return graph_definition();
}

GraphDefinition GraphBuilder::completed() const {
  static_cast<void>(stream());
  if (!is_primary())
    throw InvalidStateError{"only the builder that began the graph can complete it"};
  return built();
}

GraphBuilder& GraphBuilder::begin_building(CUstreamCaptureMode mode) {
  const Stream& from = stream();
  State& state = *state_;
  if (state.kind == State::Kind::branch)
    throw InvalidStateError{"a builder that split() made is building already"};
  if (state.phase == State::Phase::building)
    throw InvalidStateError{"the graph builder is building already"};
  if (state.kind == State::Kind::body) {
    if (state.phase == State::Phase::ended)
      throw InvalidStateError{"the body of a conditional node can be built once only"};
    begin_capture_to(from, state.definition.handle(), mode);
  } else {
    state.definition = begin_capture(from, mode);
  }
  state.phase = State::Phase::building;
  return *this;
}

GraphBuilder& GraphBuilder::end_building() {
  State& state = building();
  if (state.kind == State::Kind::branch)
    throw InvalidStateError{"a builder that split() made ends by GraphBuilder.join()"};
  const bool is_primary = state.kind == State::Kind::primary;
  CUgraph graph = nullptr;
  try {
    graph = end_capture(state.stream);
  } catch (...) {
    // Still capturing, for example if called from another thread: nothing has ended.
    if (state.is_capturing()) throw;
    if (is_primary) state.definition.own(nullptr);  // the driver has destroyed the graph
    state.definition = GraphDefinition{};
    state.phase = is_primary ? State::Phase::fresh : State::Phase::closed;
    state.close_branches();
    throw;
  }
  if (is_primary) state.definition.own(graph);
  state.phase = State::Phase::ended;
  return *this;
}

Graph GraphBuilder::complete(const GraphCompleteOptions& options) const {
  return completed().instantiate(options);
}

/// A capture that a forbidden call has invalidated has no graph: throw before the driver is called
/// to change it.
std::vector<CUgraphNode> GraphBuilder::captured() const {
  CaptureInfo info = capture_info(building().stream);
  if (info.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    throw InvalidStateError{
        "the capture has ended: a call that is not allowed while capturing broke it, or the "
        "builder that began it was closed; close this builder and begin again"};
  }
  return std::move(info.after);
}

void GraphBuilder::callback(std::function<void()> function) {
  static_cast<void>(captured());  // without a capture, the stream would run the callback
  State& state = building();
  auto kept = std::make_shared<std::function<void()>>(std::move(function));
  const auto call = [](void* data) noexcept { (*static_cast<std::function<void()>*>(data))(); };
  state.stream.call_host(call, kept.get());
  const auto made = captured();
  state.definition.keep_beside(std::move(kept), made.size() == 1 ? made.front() : nullptr);
}

CUgraphNode GraphBuilder::callback(CUhostFn function, void* data) {
  static_cast<void>(captured());  // without a capture, the stream would run the callback
  building().stream.call_host(function, data);
  return captured().front();
}

void GraphBuilder::embed(const GraphDefinition& child) {
  const auto after = captured();
  State& state = building();
  const CUgraphNode node = state.definition.add_child(after, child);
  continue_capture_after(state.stream, {&node, 1});
}

std::vector<GraphBuilder> GraphBuilder::split(int count) {
  State& state = building();
  if (count < 2) {
    throw std::invalid_argument{"split() needs at least 2 branches, not " + std::to_string(count)};
  }
  const auto root = state.kind == State::Kind::branch ? state.root.lock() : state_;
  std::vector<GraphBuilder> made;
  for (int i = 1; i < count; ++i) {
    auto branch = std::make_shared<State>();
    branch->stream = Stream::create(state.stream.context());
    branch->stream.wait(state.stream);
    branch->kind = State::Kind::branch;
    branch->phase = State::Phase::building;
    branch->definition = state.definition;
    branch->root = root;
    if (root != nullptr) root->branches.push_back(branch);
    made.push_back(GraphBuilder{std::move(branch)});
  }
  return made;
}

void GraphBuilder::join(std::span<GraphBuilder> others) {
  std::vector<GraphBuilder*> list;
  for (GraphBuilder& other : others) list.push_back(&other);
  join(std::span<GraphBuilder* const>{list});
}

void GraphBuilder::join(std::span<GraphBuilder* const> others) {
  State& state = building();
  for (auto at = others.begin(); at != others.end(); ++at) {
    const State& branch = (*at)->building();
    if (&branch == &state || branch.kind != State::Kind::branch ||
        std::find(others.begin(), at, *at) != at)
      throw std::invalid_argument{"join() takes builders that split() made, each of them once"};
  }
  for (GraphBuilder* const other : others) {
    State& branch = *other->state_;
    state.stream.wait(branch.stream);
    // Keep the stream alive until the capture ends.
    state.definition.keep_beside(std::make_shared<Stream>(branch.stream));
    branch.phase = State::Phase::closed;
    branch.stream = Stream{};
  }
}

GraphBuilder& GraphBuilder::join_all(std::span<GraphBuilder* const> builders) {
  if (builders.size() < 2) throw std::invalid_argument{"join() needs at least 2 builders"};
  for (const GraphBuilder* builder : builders) static_cast<void>(builder->building());
  const auto made_elsewhere = std::find_if(builders.begin(), builders.end(), [](const auto* b) {
    return b->state_->kind != State::Kind::branch;
  });
  GraphBuilder& root = made_elsewhere != builders.end() ? **made_elsewhere : *builders.front();
  std::vector<GraphBuilder*> others;
  for (GraphBuilder* builder : builders)
    if (builder != &root) others.push_back(builder);
  root.join(std::span<GraphBuilder* const>{others});
  return root;
}

GraphCondition GraphBuilder::create_condition(std::optional<unsigned> default_value) {
  static_cast<void>(captured());
  return GraphCondition{
      building().definition.create_condition(default_value.value_or(0), default_value.has_value())};
}

std::vector<GraphBuilder> GraphBuilder::conditional(GraphCondition condition,
                                                    CUgraphConditionalNodeType type,
                                                    unsigned count) {
  const auto after = captured();
  State& state = building();
  std::vector<CUgraph> bodies;
  const CUgraphNode node =
      state.definition.add_conditional(after, condition.handle(), type, count, bodies);
  continue_capture_after(state.stream, {&node, 1});
  std::vector<GraphBuilder> made;
  for (const CUgraph body : bodies) {
    auto part = std::make_shared<State>();
    part->stream = Stream::create(state.stream.context());
    part->kind = State::Kind::body;
    part->definition = state.definition.inside(node, body);
    made.push_back(GraphBuilder{std::move(part)});
  }
  return made;
}

GraphBuilder GraphBuilder::if_then(GraphCondition condition) {
  return std::move(conditional(condition, CU_GRAPH_COND_TYPE_IF, 1).front());
}
std::pair<GraphBuilder, GraphBuilder> GraphBuilder::if_else(GraphCondition condition) {
  auto bodies = conditional(condition, CU_GRAPH_COND_TYPE_IF, 2);
  return {std::move(bodies[0]), std::move(bodies[1])};
}
GraphBuilder GraphBuilder::while_loop(GraphCondition condition) {
  return std::move(conditional(condition, CU_GRAPH_COND_TYPE_WHILE, 1).front());
}
std::vector<GraphBuilder> GraphBuilder::switch_case(GraphCondition condition, unsigned count) {
  return conditional(condition, CU_GRAPH_COND_TYPE_SWITCH, count);
}

void GraphBuilder::close() noexcept {
  if (state_ == nullptr) return;
  State& state = *state_;
  const State::Phase before = state.phase.exchange(State::Phase::closed);
  if (before == State::Phase::closed) return;
  if (before == State::Phase::building && state.kind != State::Kind::branch && detail::may_free()) {
    CUgraph graph = nullptr;
    try {  // an invalidated capture ends too, with an error
      graph = end_capture(state.stream);
    } catch (...) {
    }
    if (state.kind == State::Kind::primary) state.definition.own(graph);
    state.close_branches();
  }
  state.definition = GraphDefinition{};
  state.stream = Stream{};
}

}  // namespace cucore
