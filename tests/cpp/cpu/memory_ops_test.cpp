// SPDX-License-Identifier: Apache-2.0
// Memory operations of streams and graphs: all kinds, all conditions, and errors.
#include "support.hpp"

namespace {

class MemoryOps : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    word_ = words(16);
  }
  CUstreamBatchMemOpParams wait(bool wide, cuuint64_t value, unsigned flags) const {
    CUstreamBatchMemOpParams op{};
    op.waitValue.operation = wide ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32;
    op.waitValue.address = address(word_);
    op.waitValue.value64 = value;
    op.waitValue.flags = flags;
    return op;
  }
  CUstreamBatchMemOpParams write(bool wide, cuuint64_t value) const {
    CUstreamBatchMemOpParams op{};
    op.writeValue.operation =
        wide ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op.writeValue.address = address(word_);
    op.writeValue.value64 = value;
    return op;
  }
  CUstreamBatchMemOpParams reduce(bool wide, cuuint64_t value,
                                  CUstreamAtomicReductionOpType how) const {
    CUstreamBatchMemOpParams op{};
    op.atomicReduction.operation = CU_STREAM_MEM_OP_ATOMIC_REDUCTION;
    op.atomicReduction.reductionOp = how;
    op.atomicReduction.dataType =
        wide ? CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64 : CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32;
    op.atomicReduction.address = address(word_);
    op.atomicReduction.value = value;
    return op;
  }
  void set(cuuint64_t value) {
    std::atomic_ref{*reinterpret_cast<cuuint64_t*>(word_)}.store(value);
  }
  [[nodiscard]] cuuint64_t get() const {
    return std::atomic_ref{*reinterpret_cast<cuuint64_t*>(word_)}.load();
  }
  CUresult in_stream(CUstreamBatchMemOpParams op) { return cuStreamBatchMemOp(stream_, 1, &op, 0); }
  CUresult in_graph(CUstreamBatchMemOpParams op, unsigned flags = 0) {
    CUgraph graph = nullptr;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphCreate(&graph, 0));
    const CUDA_BATCH_MEM_OP_NODE_PARAMS params{context_, 1, &op, flags};
    const CUresult code = cuGraphAddBatchMemOpNode(&node, graph, nullptr, 0, &params);
    if (code == CUDA_SUCCESS) {
      CUgraphExec exec = nullptr;
      EXPECT_OK(cuGraphInstantiate(&exec, graph, 0));
      EXPECT_OK(cuGraphLaunch(exec, stream_));
      EXPECT_OK(cuGraphExecDestroy(exec));
    }
    EXPECT_OK(cuGraphDestroy(graph));
    return code;
  }

  CUstream stream_ = nullptr;
  unsigned* word_ = nullptr;
};

TEST_F(MemoryOps, WaitsForEveryConditionComplete) {
  constexpr cuuint64_t kHigh = cuuint64_t{1} << 40;
  const struct {
    unsigned flags;
    cuuint64_t before, wanted, after;
  } cases[] = {
      {CU_STREAM_WAIT_VALUE_EQ, 4, 5, 5},
      {CU_STREAM_WAIT_VALUE_GEQ, 4, 5, 7},
      {CU_STREAM_WAIT_VALUE_GEQ, ~cuuint64_t{0}, 5, 6},  // compares the difference, which may wrap
      {CU_STREAM_WAIT_VALUE_AND, 8, 6, 2},
      {CU_STREAM_WAIT_VALUE_NOR, ~cuuint64_t{6}, 6, ~cuuint64_t{7}},
      {CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_FLUSH, 1, 0, 0},
  };
  for (const auto& c : cases)
    for (const bool wide : {false, true})
      for (const bool as_graph : {false, true}) {
        SCOPED_TRACE(testing::Message() << c.flags << " " << wide << " " << as_graph);
        const bool shifted =
            wide && c.flags == CU_STREAM_WAIT_VALUE_EQ;  // the upper half is compared
        set(c.before);
        const auto op = wait(wide, c.wanted + (shifted ? kHigh : 0), c.flags);
        ASSERT_OK(as_graph ? in_graph(op) : in_stream(op));
        EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream_));
        set(c.after + (shifted ? kHigh : 0));
        ASSERT_OK(cuStreamSynchronize(stream_));
      }
}

TEST_F(MemoryOps, WritesAndReductionsSucceed) {
  const struct {
    CUstreamAtomicReductionOpType how;
    cuuint64_t before, value, narrow, wide;
  } cases[] = {
      {CU_STREAM_ATOMIC_REDUCTION_OP_ADD, 0xffffffff, 2, 1, 0x100000001},
      {CU_STREAM_ATOMIC_REDUCTION_OP_AND, 0xff00ff00ff, 0x0f, 0xff0000000f, 0x0f},
      {CU_STREAM_ATOMIC_REDUCTION_OP_OR, 1, 0x4000000002, 3, 0x4000000003},
  };
  for (const auto& c : cases)
    for (const bool wide : {false, true})
      for (const bool as_graph : {false, true}) {
        SCOPED_TRACE(testing::Message() << c.how << " " << wide << " " << as_graph);
        const auto run = [&](const CUstreamBatchMemOpParams& op) {
          ASSERT_OK(as_graph ? in_graph(op) : in_stream(op));
          ASSERT_OK(cuStreamSynchronize(stream_));
        };
        set(0);
        run(write(true, c.before));
        EXPECT_EQ(c.before, get());
        run(reduce(wide, c.value, c.how));
        EXPECT_EQ(wide ? c.wide : c.narrow, get());
        run(write(false, 0));
        if (!wide) {
          EXPECT_EQ(c.before >> 32 << 32, get());  // the other half is unchanged
        }
      }
}

TEST_F(MemoryOps, BarriersAndFlushesRunInOrder) {
  CUstreamBatchMemOpParams list[4] = {
      write(false, 3), {}, {}, reduce(false, 4, CU_STREAM_ATOMIC_REDUCTION_OP_ADD)};
  list[1].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  list[1].memoryBarrier.flags = CU_STREAM_MEMORY_BARRIER_TYPE_SYS;
  list[2].flushRemoteWrites.operation = CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES;
  ASSERT_OK(cuStreamBatchMemOp(stream_, 4, list, 0));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(7u, get());
}

TEST_F(MemoryOps, InvalidOperationsFailInStreamsAndGraphs) {
  const auto refused = [&](const char* what, const CUstreamBatchMemOpParams& op) {
    SCOPED_TRACE(what);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_stream(op));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_graph(op));
  };
  auto op = write(false, 1);
  op.operation = static_cast<CUstreamBatchMemOpType>(9999);
  refused("no operation", op);
  op = write(true, 1);
  op.writeValue.address += 4;
  refused("not aligned", op);
  op = write(false, 1);
  op.writeValue.address = 0;
  refused("nowhere", op);
  op = write(false, 1);
  op.writeValue.flags = 0x80;
  refused("unknown flags of a write", op);
  refused("unknown flags of a wait", wait(false, 1, 0x80));
  op = reduce(false, 1, static_cast<CUstreamAtomicReductionOpType>(9999));
  refused("no reduction", op);
  op = reduce(false, 1, CU_STREAM_ATOMIC_REDUCTION_OP_ADD);
  op.atomicReduction.dataType = static_cast<CUstreamAtomicReductionDataType>(9999);
  refused("no type", op);
  op = reduce(false, 1, CU_STREAM_ATOMIC_REDUCTION_OP_ADD);
  op.atomicReduction.flags = 1;
  refused("unknown flags of a reduction", op);
  op = {};
  op.memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  op.memoryBarrier.flags = 99;
  refused("no barrier", op);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, in_graph(write(false, 1), 1));
  auto good = write(false, 1);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream_, 1, &good, 1));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream_, 1, nullptr, 0));
  std::vector<CUstreamBatchMemOpParams> many(257, good);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream_, 257, many.data(), 0));
  EXPECT_OK(cuStreamBatchMemOp(stream_, 256, many.data(), 0));
  EXPECT_OK(cuStreamBatchMemOp(stream_, 0, nullptr, 0));
}

}  // namespace
