// SPDX-License-Identifier: Apache-2.0
// cpu/nccl/collectives.cpp: rings for reductions and gathers; all other messages go directly.
#include "cpu/nccl/collectives.hpp"

#include <cstring>
#include <vector>

#include "cpu/nccl/reduction.hpp"

namespace cucpu::nccl {
namespace {

char* at(void* base, std::size_t bytes) { return static_cast<char*>(base) + bytes; }
const char* at(const void* base, std::size_t bytes) {
  return static_cast<const char*>(base) + bytes;
}
/// Messages are sent from memory that is not changed.
void* unconst(const void* data) { return const_cast<void*>(data); }

/// An array in one part per rank; parts differ by at most one element.
struct Parts {
  std::size_t count, size, ranks;
  [[nodiscard]] std::size_t first(std::size_t rank) const { return count * rank / ranks; }
  [[nodiscard]] std::size_t length(std::size_t rank) const { return first(rank + 1) - first(rank); }
  [[nodiscard]] std::size_t offset(std::size_t rank) const { return first(rank) * size; }
  [[nodiscard]] std::size_t bytes(std::size_t rank) const { return length(rank) * size; }
};

struct Ring {
  explicit Ring(const Mesh& mesh)
      : size{static_cast<std::size_t>(mesh.size)},
        rank{static_cast<std::size_t>(mesh.rank)},
        next{(mesh.rank + 1) % mesh.size},
        previous{(mesh.rank + mesh.size - 1) % mesh.size} {}
  std::size_t size, rank;
  int next, previous;
  [[nodiscard]] std::size_t back(std::size_t steps) const {
    return (rank + 2 * size - steps) % size;
  }
};

/// This rank's own input, multiplied by the operator's factor.
std::vector<char> prepared(const void* from, std::size_t count, ncclDataType_t type,
                           const Operator& op) {
  const std::size_t bytes = count * size_of(type);
  std::vector<char> copy(bytes);
  if (bytes != 0) std::memcpy(copy.data(), from, bytes);
  if (op.factor != nullptr)
    scale(copy.data(), op.factor->address != nullptr ? op.factor->address : op.factor->value.data(),
          count, type);
  return copy;
}

/// Afterwards the part of this rank holds the result for all ranks.
void reduce_ring(Mesh& mesh, char* data, const Parts& parts, ncclDataType_t type,
                 const Operator& op) {
  const Ring ring{mesh};
  std::vector<char> received;
  for (std::size_t step = 0; step + 1 < ring.size; ++step) {
    const std::size_t mine = ring.back(step + 1), theirs = ring.back(step + 2);
    received.resize(parts.bytes(theirs));
    mesh.transfer({{ring.next, true, data + parts.offset(mine), parts.bytes(mine)},
                   {ring.previous, false, received.data(), received.size()}});
    reduce(data + parts.offset(theirs), received.data(), parts.length(theirs), type, op.op);
  }
  if (op.op == ncclAvg)
    divide(data + parts.offset(ring.rank), mesh.size, parts.length(ring.rank), type);
}

/// Every rank has its own part; afterwards all of them.
void gather_ring(Mesh& mesh, char* data, const Parts& parts) {
  const Ring ring{mesh};
  for (std::size_t step = 0; step + 1 < ring.size; ++step) {
    const std::size_t mine = ring.back(step), theirs = ring.back(step + 1);
    mesh.transfer({{ring.next, true, data + parts.offset(mine), parts.bytes(mine)},
                   {ring.previous, false, data + parts.offset(theirs), parts.bytes(theirs)}});
  }
}

Parts parts_of(const Mesh& mesh, Elements elements) {
  return {elements.count, size_of(elements.type), static_cast<std::size_t>(mesh.size)};
}

}  // namespace

void all_gather(Mesh& mesh, const void* from, void* into, std::size_t bytes) {
  const auto ranks = static_cast<std::size_t>(mesh.size);
  std::memmove(at(into, bytes * static_cast<std::size_t>(mesh.rank)), from, bytes);
  gather_ring(mesh, static_cast<char*>(into), {bytes * ranks, 1, ranks});
}

void broadcast(Mesh& mesh, const void* from, void* into, std::size_t bytes, int root) {
  std::vector<Mesh::Piece> pieces;
  if (mesh.rank == root) {
    for (int peer = 0; peer < mesh.size; ++peer)
      if (peer != root) pieces.push_back({peer, true, unconst(from), bytes});
    if (into != from) std::memmove(into, from, bytes);
  } else {
    pieces.push_back({root, false, into, bytes});
  }
  mesh.transfer(pieces);
}

void all_reduce(Mesh& mesh, const void* from, void* into, Elements elements, const Operator& op) {
  const Parts parts = parts_of(mesh, elements);
  std::vector<char> data = prepared(from, elements.count, elements.type, op);
  reduce_ring(mesh, data.data(), parts, elements.type, op);
  gather_ring(mesh, data.data(), parts);
  std::memcpy(into, data.data(), data.size());
}

void reduce_to(Mesh& mesh, const void* from, void* into, Elements elements, const Operator& op,
               int root) {
  const Parts parts = parts_of(mesh, elements);
  const auto mine = static_cast<std::size_t>(mesh.rank);
  std::vector<char> data = prepared(from, elements.count, elements.type, op);
  reduce_ring(mesh, data.data(), parts, elements.type, op);
  std::vector<Mesh::Piece> pieces;
  if (mesh.rank != root) {
    pieces.push_back({root, true, data.data() + parts.offset(mine), parts.bytes(mine)});
  } else {
    std::memcpy(at(into, parts.offset(mine)), data.data() + parts.offset(mine), parts.bytes(mine));
    for (std::size_t peer = 0; peer < parts.ranks; ++peer)
      if (peer != mine)
        pieces.push_back(
            {static_cast<int>(peer), false, at(into, parts.offset(peer)), parts.bytes(peer)});
  }
  mesh.transfer(pieces);
}

void reduce_scatter(Mesh& mesh, const void* from, void* into, Elements elements,
                    const Operator& op) {
  const std::size_t all = elements.count * static_cast<std::size_t>(mesh.size);
  const Parts parts = parts_of(mesh, {all, elements.type});
  std::vector<char> data = prepared(from, all, elements.type, op);
  reduce_ring(mesh, data.data(), parts, elements.type, op);
  const auto mine = static_cast<std::size_t>(mesh.rank);
  std::memcpy(into, data.data() + parts.offset(mine), parts.bytes(mine));
}

void all_to_all(Mesh& mesh, const void* from, void* into, std::size_t bytes) {
  std::vector<char> copy;
  if (from == into) {  // messages of other ranks must not overwrite what is still to be sent
    copy.assign(static_cast<const char*>(from),
                at(from, bytes * static_cast<std::size_t>(mesh.size)));
    from = copy.data();
  }
  std::vector<Mesh::Piece> pieces;
  for (int peer = 0; peer < mesh.size; ++peer) {
    const std::size_t offset = bytes * static_cast<std::size_t>(peer);
    pieces.push_back({peer, true, unconst(at(from, offset)), bytes});
    pieces.push_back({peer, false, at(into, offset), bytes});
  }
  mesh.transfer(pieces);
}

void gather(Mesh& mesh, const void* from, void* into, std::size_t bytes, int root) {
  std::vector<Mesh::Piece> pieces{{root, true, unconst(from), bytes}};
  if (mesh.rank == root)
    for (int peer = 0; peer < mesh.size; ++peer)
      pieces.push_back({peer, false, at(into, bytes * static_cast<std::size_t>(peer)), bytes});
  mesh.transfer(pieces);
}

void scatter(Mesh& mesh, const void* from, void* into, std::size_t bytes, int root) {
  std::vector<Mesh::Piece> pieces{{root, false, into, bytes}};
  if (mesh.rank == root)
    for (int peer = 0; peer < mesh.size; ++peer)
      pieces.push_back(
          {peer, true, unconst(at(from, bytes * static_cast<std::size_t>(peer))), bytes});
  mesh.transfer(pieces);
}

}  // namespace cucpu::nccl
