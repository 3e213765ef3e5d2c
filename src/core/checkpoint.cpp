// SPDX-License-Identifier: Apache-2.0
// checkpoint.cpp: checkpoints and restores the CUDA state of a process.
#include "cucore/checkpoint.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore::checkpoint {

Process::Process(int pid) : pid_{pid} {
  if (pid <= 0) throw std::invalid_argument{"pid must be positive, not " + std::to_string(pid)};
}

CUprocessState Process::state() const {
  CUprocessState state{};
  CUCORE_CALL(cuCheckpointProcessGetState(pid_, &state));
  return state;
}

int Process::restore_thread_id() const {
  int thread = 0;
  CUCORE_CALL(cuCheckpointProcessGetRestoreThreadId(pid_, &thread));
  return thread;
}

void Process::lock(unsigned timeout_ms) const {
  CUcheckpointLockArgs args{};
  args.timeoutMs = timeout_ms;
  CUCORE_CALL(cuCheckpointProcessLock(pid_, &args));
}

void Process::checkpoint() const {
  CUcheckpointCheckpointArgs args{};
  CUCORE_CALL(cuCheckpointProcessCheckpoint(pid_, &args));
}

void Process::restore(std::span<const std::pair<Uuid, Uuid>> gpu_mapping) const {
  std::vector<CUcheckpointGpuPair> pairs;
  for (const auto& [before, after] : gpu_mapping) {
    CUcheckpointGpuPair pair{};
    static_assert(sizeof pair.oldUuid == sizeof before);
    std::memcpy(&pair.oldUuid, before.data(), sizeof pair.oldUuid);
    std::memcpy(&pair.newUuid, after.data(), sizeof pair.newUuid);
    pairs.push_back(pair);
  }
  CUcheckpointRestoreArgs args{};
  args.gpuPairs = pairs.empty() ? nullptr : pairs.data();
  args.gpuPairsCount = static_cast<unsigned>(pairs.size());
  CUCORE_CALL(cuCheckpointProcessRestore(pid_, &args));
}

void Process::unlock() const {
  CUcheckpointUnlockArgs args{};
  CUCORE_CALL(cuCheckpointProcessUnlock(pid_, &args));
}

}  // namespace cucore::checkpoint
