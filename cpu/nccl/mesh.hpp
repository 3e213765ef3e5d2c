// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/mesh.hpp: TCP connections between all ranks of a communicator, in one process, on one
// machine or on several.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <vector>

#include "cpu/nccl/nccl.hpp"

namespace cucpu::nccl {

/// An error with its code.
struct Failure : std::runtime_error {
  Failure(ncclResult_t code, const std::string& text) : std::runtime_error{text}, code{code} {}
  ncclResult_t code;
};

/// A new identity: a thread of this process waits for the ranks that bring it.
ncclUniqueId make_identity();

class Mesh {
 public:
  /// Returns when all `size` ranks have come with the same identity.
  Mesh(const ncclUniqueId& identity, int rank, int size);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const int rank, size;

  /// One message. What a rank sends to another one arrives in the order of the sends.
  struct Piece {
    int peer;
    bool sends;
    void* data;
    std::size_t bytes;
  };
  /// Sends and receives all of them, all peers at a time. Throws Failure: for a peer that is gone,
  /// for a message of another size, and after abort().
  void transfer(const std::vector<Piece>& pieces);
  void abort() noexcept;  ///< Ends transfers, on any thread.

 private:
  void connect_all(const ncclUniqueId& identity);
  std::vector<int> sockets_;  // by rank; -1 for this one
  int wake_ = -1;             // readable after abort()
};

}  // namespace cucpu::nccl
