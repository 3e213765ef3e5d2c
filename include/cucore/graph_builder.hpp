// SPDX-License-Identifier: Apache-2.0
// cucore/graph_builder.hpp: graphs built by stream capture: branches, conditional nodes, callbacks.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cucore/abi/driver.h"
#include "cucore/export.hpp"
#include "cucore/graph.hpp"
#include "cucore/stream.hpp"

namespace cucore {

/// State of a stream's capture.
struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;  ///< none, active or invalidated
  cuuint64_t id = 0;                                             ///< ID of the capture
  CUgraph graph = nullptr;                                       ///< graph being captured
  std::vector<CUgraphNode> after;                                ///< dependencies of the next node
};
/// Returns the capture state of a stream. Queries the driver.
[[nodiscard]] CUCORE_EXPORT CaptureInfo capture_info(StreamRef stream);
/// Begins a capture. Returns a view of the graph being captured. The view becomes the owner when
/// own() is called with the result of end_capture().
[[nodiscard]] CUCORE_EXPORT GraphDefinition begin_capture(StreamRef stream,
                                                          CUstreamCaptureMode mode);
/// Begins a capture into an existing graph, such as the body of a conditional node.
CUCORE_EXPORT void begin_capture_to(StreamRef stream, CUgraph graph, CUstreamCaptureMode mode);
/// Ends a capture and returns its graph. Throws CUDAError if a prohibited call has invalidated the
/// capture.
[[nodiscard]] CUCORE_EXPORT CUgraph end_capture(StreamRef stream);
/// Sets the dependencies of the next node of a capture.
CUCORE_EXPORT void continue_capture_after(StreamRef stream, std::span<const CUgraphNode> nodes);

/// A conditional handle. Conditional nodes read its value; kernels receive it as an argument and
/// set its value.
class GraphCondition {
 public:
  /// Wraps a handle.
  explicit GraphCondition(CUgraphConditionalHandle raw) noexcept : raw_{raw} {}
  /// The driver's handle.
  [[nodiscard]] CUgraphConditionalHandle handle() const noexcept { return raw_; }
  /// The argument that launch() passes to a kernel.
  [[nodiscard]] CUgraphConditionalHandle kernel_argument() const noexcept { return raw_; }

 private:
  CUgraphConditionalHandle raw_;
};

/// Builds a graph by stream capture. Between begin_building() and end_building(), pass the builder
/// in place of a stream.
///
///     GraphBuilder builder{device.create_stream()};
///     builder.begin_building();
///     launch(builder, config, kernel, buffer, 1);
///     const Graph graph = builder.end_building().complete();
///
/// Move-only. The graph keeps callbacks and child graphs alive; the caller keeps kernels and
/// buffers alive. Must be used by one thread at a time.
class CUCORE_EXPORT GraphBuilder {
 public:
  explicit GraphBuilder(const Stream& stream);  ///< Captures from `stream`.
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;
  ~GraphBuilder();

  /// The stream that is captured. Throws InvalidStateError if the builder is closed.
  [[nodiscard]] const Stream& stream() const;
  operator StreamRef() const { return stream(); }  // NOLINT: passed as a stream
  /// True between begin_building() and end_building().
  [[nodiscard]] bool is_building() const noexcept;
  [[nodiscard]] bool is_built() const noexcept;   ///< true after end_building()
  [[nodiscard]] bool is_closed() const noexcept;  ///< true after close() or join()
  /// False for builders that split() returned, and for bodies of conditional nodes.
  [[nodiscard]] bool is_primary() const noexcept;
  /// True for a builder that split() returned, until it is joined.
  [[nodiscard]] bool is_join_required() const noexcept;
  /// Returns the graph. For the body of a conditional node also before begin_building(), so that
  /// nodes can be added explicitly. Throws InvalidStateError during capture, when the driver's
  /// graph must not be accessed; for a builder that split() returned; and if nothing was built.
  [[nodiscard]] GraphDefinition graph_definition() const;
  /// Returns the graph in every phase, for functions such as keep(). Its nodes must not be read
  /// before end_building().
  [[nodiscard]] GraphDefinition unfinished_definition() const;
  /// Returns the graph after end_building(); throws InvalidStateError before.
  [[nodiscard]] GraphDefinition built() const;
  /// As built(), for the primary builder; throws InvalidStateError for others.
  [[nodiscard]] GraphDefinition completed() const;

  /// Begins the capture: work enqueued with this builder becomes nodes.
  GraphBuilder& begin_building(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED);
  /// Ends the capture. Throws CUDAError if a prohibited call has invalidated it.
  GraphBuilder& end_building();
  /// Instantiates the graph.
  [[nodiscard]] Graph complete(const GraphCompleteOptions& options = {}) const;

  /// Adds a host node that calls `function`, which must not throw and must not call CUDA.
  void callback(std::function<void()> function);
  /// As above, with a C function. `data` must stay valid as long as graphs created from this one
  /// run. Returns the node.
  CUgraphNode callback(CUhostFn function, void* data);
  /// Returns the dependencies of the next node. Throws InvalidStateError if the capture has ended,
  /// for example because a prohibited call has invalidated it.
  [[nodiscard]] std::vector<CUgraphNode> captured() const;
  /// Adds a child graph node with a copy of `child`.
  void embed(const GraphDefinition& child);
  /// Forks the capture into `count` parallel branches: this builder and those that it returns.
  [[nodiscard]] std::vector<GraphBuilder> split(int count);
  /// Joins other branches into this one, which continues after all of them. Closes the others.
  void join(std::span<GraphBuilder> others);
  /// As above, with pointers to the branches.
  void join(std::span<GraphBuilder* const> others);
  /// Joins branches into one, which continues after all of them: the first that split() did not
  /// return, or else the first. Closes the others. Throws std::invalid_argument if there are fewer
  /// than 2.
  static GraphBuilder& join_all(std::span<GraphBuilder* const> builders);

  /// Creates a conditional handle. Every launch starts with the default value, if one is given.
  [[nodiscard]] GraphCondition create_condition(std::optional<unsigned> default_value = {});
  /// Adds an if node. Returns a builder of the body that runs if the condition is nonzero.
  [[nodiscard]] GraphBuilder if_then(GraphCondition condition);
  /// Adds an if node. Returns builders of the bodies that run if the condition is nonzero, and if
  /// it is zero.
  [[nodiscard]] std::pair<GraphBuilder, GraphBuilder> if_else(GraphCondition condition);
  /// Adds a while node. Returns a builder of the body that runs as long as the condition is
  /// nonzero.
  [[nodiscard]] GraphBuilder while_loop(GraphCondition condition);
  /// Adds a switch node. Returns builders of `count` bodies; the condition's value is the index of
  /// the body that runs.
  [[nodiscard]] std::vector<GraphBuilder> switch_case(GraphCondition condition, unsigned count);

  /// Ends a capture that is in progress and releases the graph. Idempotent.
  void close() noexcept;

 private:
  struct State;
  explicit GraphBuilder(std::shared_ptr<State> state);
  [[nodiscard]] State& building() const;
  [[nodiscard]] std::vector<GraphBuilder> conditional(GraphCondition condition,
                                                      CUgraphConditionalNodeType type,
                                                      unsigned count);
  std::shared_ptr<State> state_;
};

}  // namespace cucore
