// SPDX-License-Identifier: Apache-2.0
// cucore/graph_builder.hpp: turns calls into nodes of a graph: branches, conditional bodies, child
// graphs, functions of the host.
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

/// Where the capture of a stream stands.
struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;  ///< whether there is one
  cuuint64_t id = 0;                                             ///< of the capture
  CUgraph graph = nullptr;                                       ///< that is made
  std::vector<CUgraphNode> after;                                ///< what the next node comes after
};
/// Asks the driver.
[[nodiscard]] CUCORE_EXPORT CaptureInfo capture_info(StreamRef stream);
/// Starts a capture; the graph that is made becomes the result, which owns it once end_capture()
/// has answered: result.own(handle).
[[nodiscard]] CUCORE_EXPORT GraphDefinition begin_capture(StreamRef stream,
                                                          CUstreamCaptureMode mode);
/// The same into a graph that is there: the body of a conditional node.
CUCORE_EXPORT void begin_capture_to(StreamRef stream, CUgraph graph, CUstreamCaptureMode mode);
/// Ends a capture and answers its graph. Throws CUDAError where a forbidden call has broken it.
[[nodiscard]] CUCORE_EXPORT CUgraph end_capture(StreamRef stream);
/// The next node of a capture comes after these.
CUCORE_EXPORT void continue_capture_after(StreamRef stream, std::span<const CUgraphNode> nodes);

/// What a conditional node decides by; kernels are given it and set it.
class GraphCondition {
 public:
  explicit GraphCondition(CUgraphConditionalHandle raw) noexcept : raw_{raw} {}  ///< By its handle.
  [[nodiscard]] CUgraphConditionalHandle handle() const noexcept { return raw_; }  ///< the driver's
  /// What launch() passes.
  [[nodiscard]] CUgraphConditionalHandle kernel_argument() const noexcept { return raw_; }

 private:
  CUgraphConditionalHandle raw_;
};

/// Turns calls into nodes: between begin_building() and end_building() pass it where a stream is
/// expected.
///
///     GraphBuilder builder{device.create_stream()};
///     builder.begin_building();
///     launch(builder, config, kernel, buffer, 1);
///     const Graph graph = builder.end_building().complete();
///
/// Moves, never copies. Functions and child graphs are kept by the graph; kernels and buffers are
/// the caller's. Used by one thread at a time.
class CUCORE_EXPORT GraphBuilder {
 public:
  explicit GraphBuilder(const Stream& stream);  ///< Captures from this stream.
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;
  ~GraphBuilder();

  /// The stream that work is captured from. Throws InvalidStateError when closed.
  [[nodiscard]] const Stream& stream() const;
  operator StreamRef() const { return stream(); }   // NOLINT: stands for its stream
  [[nodiscard]] bool is_building() const noexcept;  ///< between begin and end
  [[nodiscard]] bool is_built() const noexcept;     ///< after end
  [[nodiscard]] bool is_closed() const noexcept;    ///< after close(), or joined
  /// False for builders that split() made, and for bodies of conditional nodes.
  [[nodiscard]] bool is_primary() const noexcept;
  /// True for a builder that split() made, until it is joined.
  [[nodiscard]] bool is_join_required() const noexcept;
  /// The graph as nodes. Of a body of a conditional node also before begin_building(), so that it
  /// can be filled node by node. Throws InvalidStateError while it is being captured, when the
  /// driver's graph must not be touched, for a builder that split() made, and where nothing was
  /// built.
  [[nodiscard]] GraphDefinition graph_definition() const;
  /// The same in every phase, for keeping what the graph uses. Its nodes must not be read before it
  /// is built.
  [[nodiscard]] GraphDefinition unfinished_definition() const;
  /// The same once it is built; throws InvalidStateError before.
  [[nodiscard]] GraphDefinition built() const;
  /// The same of the builder that began the graph; throws InvalidStateError for others.
  [[nodiscard]] GraphDefinition completed() const;

  /// Starts: from now on calls with this builder become nodes.
  GraphBuilder& begin_building(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED);
  /// Stops. Throws CUDAError where a forbidden call has broken the capture.
  GraphBuilder& end_building();
  /// Makes the graph ready to launch.
  [[nodiscard]] Graph complete(const GraphCompleteOptions& options = {}) const;

  /// Calls a function on the host at this point. It must not throw and must not call CUDA.
  void callback(std::function<void()> function);
  /// The same with a function of C; `data` must live as long as graphs made of this run. Returns
  /// the node.
  CUgraphNode callback(CUhostFn function, void* data);
  /// The nodes that the next one comes after. Throws InvalidStateError where a forbidden call has
  /// ended the capture.
  [[nodiscard]] std::vector<CUgraphNode> captured() const;
  /// Runs a copy of another graph at this point.
  void embed(const GraphDefinition& child);
  /// Forks the capture into `count` parallel branches: this builder, and those that it returns.
  [[nodiscard]] std::vector<GraphBuilder> split(int count);
  /// Joins the other branches into this one, which continues after all of them. Closes the others.
  void join(std::span<GraphBuilder> others);
  void join(std::span<GraphBuilder* const> others);  ///< the same, wherever they are
  /// Joins branches into one, which continues after all of them: the first that split() did not
  /// make, else the first. Closes the others. Throws std::invalid_argument below 2.
  static GraphBuilder& join_all(std::span<GraphBuilder* const> builders);

  /// What a conditional node decides by; it starts every launch at the default, if one is given.
  [[nodiscard]] GraphCondition create_condition(std::optional<unsigned> default_value = {});
  /// A builder for what runs when the condition is not zero.
  [[nodiscard]] GraphBuilder if_then(GraphCondition condition);
  /// Builders for what runs when the condition is not zero, and when it is.
  [[nodiscard]] std::pair<GraphBuilder, GraphBuilder> if_else(GraphCondition condition);
  /// A builder for what runs as long as the condition is not zero.
  [[nodiscard]] GraphBuilder while_loop(GraphCondition condition);
  /// Builders for `count` branches; the condition's value names the one that runs.
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
