// SPDX-License-Identifier: Apache-2.0
// Streams, events, host functions and memory operations: order, concurrency and waits.
#include <atomic>
#include <thread>

#include "support.hpp"

namespace {

class Streams : public DriverTest {
 protected:
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream s = nullptr;
    EXPECT_OK(cuStreamCreate(&s, flags));
    return s;
  }
  CUevent event(unsigned flags = 0) {
    CUevent e = nullptr;
    EXPECT_OK(cuEventCreate(&e, flags));
    return e;
  }
};

TEST_F(Streams, OperationsRunInOrder) {
  const CUstream s = stream();
  unsigned* log = words(200);
  for (unsigned i = 0; i < 100; ++i) ASSERT_OK(launch(kernel("append"), 1, s, log, i));
  ASSERT_OK(cuStreamSynchronize(s));
  ASSERT_EQ(100u, log[0]);
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(i, log[1 + i]);
}

TEST_F(Streams, WorkIsAsynchronousAndQueriesReturnNotReady) {
  const CUstream s = stream();
  unsigned* flag = words(1);
  ASSERT_OK(launch(kernel("spin"), 1, s, flag));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
  const CUevent e = event();
  ASSERT_OK(cuEventRecord(e, s));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(e));
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuEventSynchronize(e));
  EXPECT_OK(cuEventQuery(e));
  EXPECT_OK(cuStreamQuery(s));
}

TEST_F(Streams, KernelsOfDifferentStreamsOverlap) {
  const CUstream a = stream(), b = stream(), c = stream();
  unsigned* flags = words(3);
  // Each kernel waits for the next stream: hangs if the streams run one after the other.
  ASSERT_OK(launch(kernel("spin"), 1, a, flags));
  ASSERT_OK(launch(kernel("spin"), 1, b, flags + 1));
  ASSERT_OK(launch(kernel("spin"), 1, c, flags + 2));
  const CUstream d = stream();
  ASSERT_OK(launch(kernel("store"), 1, d, flags + 2, 1u));
  ASSERT_OK(cuStreamSynchronize(c));
  ASSERT_OK(launch(kernel("store"), 1, d, flags + 1, 1u));
  ASSERT_OK(launch(kernel("store"), 1, d, flags, 1u));
  ASSERT_OK(cuCtxSynchronize());
}

TEST_F(Streams, EveryBlockRunsOnce) {
  unsigned* sum = words(1);
  ASSERT_OK(launch(kernel("add"), 10000, nullptr, sum, 3u));
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(30000u, *sum);
}

// A worker may join a grid that has just ended, when the stream is already destroyed. A sanitizer
// reports a use after free.
TEST_F(Streams, DestructionWhileAWorkerJoinsTheKernelIsSafe) {
  unsigned* count = words(1);
  for (int i = 0; i < 500; ++i) {
    const CUstream s = stream();
    ASSERT_OK(launch(kernel("add"), 3, s, count, 1u));
    ASSERT_OK(cuStreamSynchronize(s));
    ASSERT_OK(cuStreamDestroy(s));
  }
  EXPECT_EQ(1500u, std::atomic_ref{*count}.load());
}

TEST_F(Streams, WaitingThreadReplacesAWorker) {
  const CUstream s = stream();
  unsigned* counts = words(3);
  for (unsigned i = 0; i < 50; ++i) {
    ASSERT_OK(launch(kernel("crowd"), 64, s, counts));
    ASSERT_OK(cuStreamSynchronize(s));
    ASSERT_EQ(64 * (i + 1), counts[2]);
  }
  for (unsigned i = 0; i < 50; ++i) ASSERT_OK(launch(kernel("crowd"), 64, s, counts));
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(6400u, counts[2]);
  EXPECT_EQ(0u, counts[0]);
  EXPECT_LE(counts[1], std::thread::hardware_concurrency());
}

TEST_F(Streams, StreamWaitsForEventsOfOtherStreams) {
  const CUstream a = stream(), b = stream();
  unsigned* flag = words(1);
  unsigned* log = words(8);
  const CUevent e = event(CU_EVENT_DISABLE_TIMING);
  ASSERT_OK(launch(kernel("spin"), 1, a, flag));
  ASSERT_OK(launch(kernel("append"), 1, a, log, 1u));
  ASSERT_OK(cuEventRecord(e, a));
  ASSERT_OK(cuStreamWaitEvent(b, e, 0));
  ASSERT_OK(launch(kernel("append"), 1, b, log, 2u));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuStreamSynchronize(b));
  EXPECT_EQ(2u, log[0]);
  EXPECT_EQ(1u, log[1]);
  EXPECT_EQ(2u, log[2]);
}

TEST_F(Streams, LegacyDefaultStreamWaitsForBlockingStreamsAndTheyForIt) {
  const CUstream blocking = stream(CU_STREAM_DEFAULT), free = stream();
  unsigned* flag = words(1);
  unsigned* log = words(8);
  ASSERT_OK(launch(kernel("spin"), 1, blocking, flag));
  ASSERT_OK(launch(kernel("append"), 1, nullptr, log, 1u));
  ASSERT_OK(launch(kernel("append"), 1, blocking, log, 2u));
  ASSERT_OK(launch(kernel("noop"), 1, free));
  ASSERT_OK(cuStreamSynchronize(free));  // does not help
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuStreamSynchronize(nullptr));
  ASSERT_OK(cuStreamSynchronize(blocking));
  EXPECT_EQ(1u, log[1]);
  EXPECT_EQ(2u, log[2]);
}

TEST_F(Streams, PerThreadDefaultStreamIsPerThread) {
  unsigned long long mine = 0, legacy = 0, other = 0;
  ASSERT_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
  ASSERT_OK(cuStreamGetId(nullptr, &legacy));
  EXPECT_NE(mine, legacy);
  unsigned long long again = 0;
  ASSERT_OK(cuStreamGetId_ptsz(nullptr, &again));
  EXPECT_EQ(mine, again);
  std::thread{[&] {
    ASSERT_OK(cuCtxSetCurrent(context_));
    EXPECT_OK(cuStreamGetId(CU_STREAM_PER_THREAD, &other));
    unsigned* sum = words(1);
    EXPECT_OK(launch(kernel("add"), 4, CU_STREAM_PER_THREAD, sum, 1u));
    EXPECT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_EQ(4u, *sum);
  }}.join();
  EXPECT_NE(mine, other);
}

TEST_F(Streams, EventsMeasureTime) {
  const CUevent start = event(), end = event(), plain = event(CU_EVENT_DISABLE_TIMING);
  float ms = -1;
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, start, end));
  const CUstream s = stream();
  unsigned* flag = words(1);
  ASSERT_OK(cuEventRecord(start, s));
  ASSERT_OK(launch(kernel("spin"), 1, s, flag));
  ASSERT_OK(cuEventRecord(end, s));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, start, end));
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuStreamSynchronize(s));
  ASSERT_OK(cuEventElapsedTime(&ms, start, end));
  EXPECT_GE(ms, 20.0f);
  ASSERT_OK(cuEventRecord(plain, s));
  EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, start, plain));
}

TEST_F(Streams, HostFunctionsRunInOrderAndMayNotCallCuda) {
  struct Seen {
    CUresult inside = CUDA_SUCCESS;
    unsigned value = 0;
    unsigned* word;
  } seen;
  seen.word = words(1);
  const CUstream s = stream();
  ASSERT_OK(launch(kernel("store"), 1, s, seen.word, 42u));
  ASSERT_OK(cuLaunchHostFunc(
      s,
      [](void* data) {
        auto& out = *static_cast<Seen*>(data);
        out.value = *out.word;
        out.inside = cuCtxSynchronize();
      },
      &seen));
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(42u, seen.value);
  EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, seen.inside);
}

TEST_F(Streams, ManyBlockedHostFunctionsDoNotStarveKernels) {
  static std::atomic<bool> go;
  go = false;
  for (int i = 0; i < 16; ++i)
    ASSERT_OK(cuLaunchHostFunc(
        stream(), [](void*) { go.wait(false); }, nullptr));
  unsigned* sum = words(1);
  const CUstream s = stream();
  ASSERT_OK(launch(kernel("add"), 8, s, sum, 1u));
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(8u, *sum);
  go = true;
  go.notify_all();
  ASSERT_OK(cuCtxSynchronize());
}

TEST_F(Streams, ValueWaitsAndWritesSucceed) {
  const CUstream a = stream(), b = stream();
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 16));
  unsigned* log = words(8);
  ASSERT_OK(cuStreamWaitValue32(a, p, 5, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_OK(launch(kernel("append"), 1, a, log, 2u));
  ASSERT_OK(launch(kernel("append"), 1, b, log, 1u));
  ASSERT_OK(cuStreamSynchronize(b));
  EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(a));
  ASSERT_OK(cuStreamWriteValue32(b, p, 7, 0));
  ASSERT_OK(cuStreamSynchronize(a));
  EXPECT_EQ(1u, log[1]);
  EXPECT_EQ(2u, log[2]);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32(a, p + 2, 5, 0));
}

TEST_F(Streams, PageableSourceMayChangeAfterTheCall) {
  const CUstream s = stream();
  unsigned* flag = words(1);
  CUdeviceptr p = 0;
  ASSERT_OK(cuMemAlloc(&p, 4));
  ASSERT_OK(launch(kernel("spin"), 1, s, flag));
  int value = 11, back = 0;
  ASSERT_OK(cuMemcpyHtoDAsync(p, &value, 4, s));
  value = 99;
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuMemcpyDtoHAsync(&back, p, 4, s));
  EXPECT_EQ(11, back);  // a pageable destination is written when the call returns
}

TEST_F(Streams, DestroyedStreamFinishesItsWork) {
  const CUstream s = stream();
  unsigned* flag = words(2);
  ASSERT_OK(launch(kernel("spin"), 1, s, flag));
  ASSERT_OK(launch(kernel("store"), 1, s, flag + 1, 9u));
  ASSERT_OK(cuStreamDestroy(s));
  std::atomic_ref{* flag} = 1u;
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(9u, flag[1]);
}

// promise: Threads can compile, launch, capture and close concurrently
TEST_F(Streams, CallsFromManyThreadsSucceed) {
  constexpr int kThreads = 8, kRounds = 200;
  kernel("add");
  unsigned* sum = words(1);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      ASSERT_OK(cuCtxSetCurrent(context_));
      CUstream s = nullptr;
      ASSERT_OK(cuStreamCreate(&s, t % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
      CUevent e = nullptr;
      ASSERT_OK(cuEventCreate(&e, 0));
      for (int i = 0; i < kRounds; ++i) {
        ASSERT_OK(launch(kernel("add"), 2, i % 3 ? s : nullptr, sum, 1u));
        ASSERT_OK(cuEventRecord(e, s));
        ASSERT_OK(cuStreamWaitEvent(nullptr, e, 0));
        if (i % 16 == 0) {
          ASSERT_OK(cuStreamSynchronize(s));
        }
      }
      ASSERT_OK(cuStreamDestroy(s));
      ASSERT_OK(cuEventDestroy(e));
    });
  for (auto& thread : threads) thread.join();
  ASSERT_OK(cuCtxSynchronize());
  EXPECT_EQ(2u * kThreads * kRounds, *sum);
}

/// Nothing but queueing, so that threads meet in the queue all the time.
// promise: Threads can compile, launch, capture and close concurrently
TEST_F(Streams, ManyThreadsQueueIntoOneStream) {
  constexpr unsigned kThreads = 4, kRounds = 20'000;
  CUstream s = nullptr;
  ASSERT_OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  unsigned calls = 0;  // a stream runs one function at a time
  const auto count = [](void* at) { ++*static_cast<unsigned*>(at); };
  std::atomic<unsigned> ready{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      ASSERT_OK(cuCtxSetCurrent(context_));
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      for (unsigned i = 0; i < kRounds; ++i) ASSERT_OK(cuLaunchHostFunc(s, count, &calls));
    });
  for (auto& thread : threads) thread.join();
  ASSERT_OK(cuStreamSynchronize(s));
  EXPECT_EQ(kThreads * kRounds, calls);
  ASSERT_OK(cuStreamDestroy(s));
}

}  // namespace
