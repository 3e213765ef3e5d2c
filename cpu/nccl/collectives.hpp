// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/collectives.hpp: the algorithms, over messages between ranks.
#pragma once

#include <cstddef>
#include <memory>

#include "cpu/nccl/communicator.hpp"

namespace cucpu::nccl {

/// How elements are combined.
struct Operator {
  ncclRedOp_t op = ncclSum;  ///< ncclAvg is a sum that is divided in the end
  std::shared_ptr<const Communicator::Factor> factor;  ///< multiplies every input first
};

struct Elements {
  std::size_t count;
  ncclDataType_t type;
};

void all_gather(Mesh& mesh, const void* from, void* into, std::size_t bytes);
void broadcast(Mesh& mesh, const void* from, void* into, std::size_t bytes, int root);
void all_reduce(Mesh& mesh, const void* from, void* into, Elements elements, const Operator& op);
void reduce_to(Mesh& mesh, const void* from, void* into, Elements elements, const Operator& op,
               int root);
/// `elements` are those of one rank's result.
void reduce_scatter(Mesh& mesh, const void* from, void* into, Elements elements,
                    const Operator& op);
void all_to_all(Mesh& mesh, const void* from, void* into, std::size_t bytes);
void gather(Mesh& mesh, const void* from, void* into, std::size_t bytes, int root);
void scatter(Mesh& mesh, const void* from, void* into, std::size_t bytes, int root);

}  // namespace cucpu::nccl
