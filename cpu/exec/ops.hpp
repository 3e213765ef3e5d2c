// SPDX-License-Identifier: Apache-2.0
// cpu/exec/ops.hpp: operations of streams and graph nodes: copies, fills, host functions, memory
// operations, event records.
#pragma once

#include <functional>
#include <vector>

#include "cpu/base/abi.hpp"
#include "cpu/exec/stream.hpp"
#include "cpu/exec/task.hpp"

namespace cucpu::driver {

/// An operation that can be a graph node. Immutable: a changed node gets another operation.
class NodeOp : public Op {
 public:
  [[nodiscard]] virtual CUgraphNodeType type() const noexcept = 0;
};

/// An operation that never waits and needs no worker, so it may also run in the calling thread.
class InstantOp : public NodeOp {
 public:
  virtual void execute() const = 0;
  Progress run(Task&) final {
    execute();
    return Progress::done;
  }
};

/// Copies a box of bytes.
struct BoxCopy {
  char* dst = nullptr;
  const char* src = nullptr;
  std::size_t dst_pitch = 0, dst_slice = 0, src_pitch = 0, src_slice = 0;
  std::size_t width = 0, height = 1, depth = 1;
  /// Throws IllegalAddress when either end is unmapped.
  void execute() const;

 private:
  void move() const;
};

class CopyOp final : public InstantOp {
 public:
  explicit CopyOp(const BoxCopy& box) : box{box} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_MEMCPY; }
  void execute() const override { box.execute(); }
  [[nodiscard]] trace::Label label() const override;

  BoxCopy box;
  CUDA_MEMCPY3D params{};  ///< the description that a graph node reports
  CUcontext context_handle = nullptr;
  std::vector<char> staged;       ///< the pageable source, copied during the call
  std::vector<Ref<Object>> keep;  ///< arrays
};

class FillOp final : public InstantOp {
 public:
  FillOp(const CUDA_MEMSET_NODE_PARAMS& params, CUcontext context)
      : params{params}, context_handle{context} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_MEMSET; }
  void execute() const override;
  [[nodiscard]] trace::Label label() const override;

  CUDA_MEMSET_NODE_PARAMS params;
  CUcontext context_handle;

 private:
  void write() const;
};

class EmptyOp final : public InstantOp {
 public:
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_EMPTY; }
  void execute() const override {}
  [[nodiscard]] trace::Label label() const override { return {"graph", "empty node"}; }
};

/// cuLaunchHostFunc: runs a function of the program on a worker. CUDA calls inside it fail.
class HostOp final : public NodeOp {
 public:
  HostOp(CUhostFn function, void* data) : params{function, data} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_HOST; }
  Progress run(Task&) override;
  [[nodiscard]] trace::Label label() const override { return {"host function", "host function"}; }

  CUDA_HOST_NODE_PARAMS params;
};

/// cuStreamAddCallback: runs after an error, too, and receives its code.
class CallbackOp final : public Op {
 public:
  CallbackOp(CUstreamCallback function, CUstream stream, void* data)
      : function_{function}, stream_{stream}, data_{data} {}
  bool runs_after_error() const noexcept override { return true; }
  Progress run(Task& task) override;
  [[nodiscard]] trace::Label label() const override { return {"host function", "callback"}; }

 private:
  CUstreamCallback function_;
  CUstream stream_;
  void* data_;
};

/// Marks a point in a stream for an event.
class RecordOp final : public Op {
 public:
  explicit RecordOp(Ref<Point> point) : point_{std::move(point)} {}
  bool runs_after_error() const noexcept override { return true; }
  Progress run(Task&) override {
    point_->nanoseconds.store(now_ns(), std::memory_order_relaxed);
    return Progress::done;
  }
  [[nodiscard]] trace::Label label() const override { return {"event", "event record"}; }

 private:
  Ref<Point> point_;
};

/// cuStreamWaitValue*, cuStreamWriteValue*, cuStreamBatchMemOp.
class MemoryOpsOp final : public NodeOp {
 public:
  explicit MemoryOpsOp(std::vector<CUstreamBatchMemOpParams> list) : list{std::move(list)} {}
  CUgraphNodeType type() const noexcept override { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
  Progress run(Task& task) override;
  [[nodiscard]] trace::Label label() const override { return {"wait", "memory operations"}; }

  std::vector<CUstreamBatchMemOpParams> list;
  CUcontext context_handle = nullptr;
  unsigned flags = 0;
};

/// Work of the driver itself, in stream order.
class CallOp final : public Op {
 public:
  explicit CallOp(std::function<void()> f, bool always = false)
      : f_{std::move(f)}, always_{always} {}
  bool runs_after_error() const noexcept override { return always_; }
  Progress run(Task&) override {
    f_();
    return Progress::done;
  }

 private:
  std::function<void()> f_;
  bool always_;
};

}  // namespace cucpu::driver
