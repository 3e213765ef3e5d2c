// SPDX-License-Identifier: Apache-2.0
// tensor_map.cpp: encodes descriptors for the Tensor Memory Accelerator (TMA).
#include "cucore/tensor_map.hpp"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "cucore/driver.hpp"
#include "cucore/error.hpp"

namespace cucore {
namespace {

std::string text_of(const std::vector<std::int64_t>& values, const char* open, const char* close) {
  std::string text = open;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  if (values.size() == 1 && *open == '(') text += ",";
  return text + close;
}

void check_values(const char* name, const std::vector<std::int64_t>& values, std::size_t rank,
                  std::int64_t most) {
  if (values.size() != rank) {
    throw std::invalid_argument{std::string{name} + " has " + std::to_string(values.size()) +
                                " values, the view " + std::to_string(rank) + " dimensions"};
  }
  const auto wrong =
      std::ranges::find_if(values, [&](std::int64_t n) { return n < 1 || n > most; });
  if (wrong != values.end()) {
    throw std::invalid_argument{std::string{name} + "[" + std::to_string(wrong - values.begin()) +
                                "] must be in 1.." + std::to_string(most) + ", not " +
                                std::to_string(*wrong)};
  }
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Reverses the order of the dimensions: the driver takes the innermost dimension first.
template <class To>
std::vector<To> reversed(const std::vector<std::int64_t>& values) {
  return {values.rbegin(), values.rend()};
}

/// Returns the strides in bytes of all dimensions except the last.
std::vector<std::int64_t> outer_strides(const TensorRef& tensor, std::size_t rank) {
  const auto strides = tensor.strides.empty() ? dense_strides(tensor.shape) : tensor.strides;
  if (strides.size() != rank) {
    throw std::invalid_argument{"strides has " + std::to_string(strides.size()) +
                                " values, the view " + std::to_string(rank) + " dimensions"};
  }
  if (strides.back() != 1) {
    throw std::invalid_argument{"the last dimension must be contiguous: its stride is " +
                                std::to_string(strides.back()) + ", not 1"};
  }
  const auto size = static_cast<std::int64_t>(element_bytes(tensor.data_type));
  std::vector<std::int64_t> outer;
  for (std::size_t i = 0; i + 1 < rank; ++i) outer.push_back(strides[i] * size);
  const auto is_wrong = [](std::int64_t s) { return s % 16 != 0 || s >= std::int64_t{1} << 40; };
  if (std::ranges::any_of(outer, is_wrong)) {
    throw std::invalid_argument{"strides must be multiples of 16 bytes, below 2**40, not " +
                                text_of(outer, "[", "]")};
  }
  return outer;
}

}  // namespace

std::size_t element_bytes(TensorMapDataType type) {
  switch (type) {
    case TensorMapDataType::uint8:
      return 1;
    case TensorMapDataType::uint16:
    case TensorMapDataType::float16:
    case TensorMapDataType::bfloat16:
      return 2;
    case TensorMapDataType::uint32:
    case TensorMapDataType::int32:
    case TensorMapDataType::float32:
    case TensorMapDataType::float32_ftz:
    case TensorMapDataType::tfloat32:
    case TensorMapDataType::tfloat32_ftz:
      return 4;
    case TensorMapDataType::uint64:
    case TensorMapDataType::int64:
    case TensorMapDataType::float64:
      return 8;
  }
  throw std::invalid_argument{std::to_string(static_cast<int>(type)) + " is no TensorMapDataType"};
}

std::optional<TensorMapDataType> tensor_map_type(dlpack::DLDataType type) noexcept {
  struct Row {
    dlpack::DLDataType type;
    TensorMapDataType is;
  };
  static constexpr Row kRows[] = {
      {{dlpack::kDLUInt, 8, 1}, TensorMapDataType::uint8},
      {{dlpack::kDLUInt, 16, 1}, TensorMapDataType::uint16},
      {{dlpack::kDLUInt, 32, 1}, TensorMapDataType::uint32},
      {{dlpack::kDLUInt, 64, 1}, TensorMapDataType::uint64},
      {{dlpack::kDLInt, 32, 1}, TensorMapDataType::int32},
      {{dlpack::kDLInt, 64, 1}, TensorMapDataType::int64},
      {{dlpack::kDLFloat, 16, 1}, TensorMapDataType::float16},
      {{dlpack::kDLFloat, 32, 1}, TensorMapDataType::float32},
      {{dlpack::kDLFloat, 64, 1}, TensorMapDataType::float64},
      {{dlpack::kDLBfloat, 16, 1}, TensorMapDataType::bfloat16},
  };
  for (const Row& row : kRows)
    if (dlpack::is_same(row.type, type)) return row.is;
  return std::nullopt;
}

TensorMapDescriptor::TensorMapDescriptor(const TensorRef& tensor,
                                         const TensorMapDescriptorOptions& options)
    : rank_{tensor.shape.size()}, data_type_{tensor.data_type} {
  if (rank_ < 1 || rank_ > 5) {
    throw std::invalid_argument{"a tensor map has 1 to 5 dimensions, not " + std::to_string(rank_)};
  }
  const auto steps = options.element_strides.empty() ? std::vector<std::int64_t>(rank_, 1)
                                                     : options.element_strides;
  check_values("box_dim", options.box_dim, rank_, 256);
  check_values("element_strides", steps, rank_, 8);
  if (tensor.ptr % 16 != 0) {
    char text[32];
    std::snprintf(text, sizeof text, "%#llx", static_cast<unsigned long long>(tensor.ptr));
    throw std::invalid_argument{std::string{"the address must be a multiple of 16, not "} + text};
  }
  const auto strides = reversed<cuuint64_t>(outer_strides(tensor, rank_));
  const auto dims = reversed<cuuint64_t>(tensor.shape);
  const auto box = reversed<cuuint32_t>(options.box_dim);
  const auto each = reversed<cuuint32_t>(steps);
  CUCORE_CALL(cuTensorMapEncodeTiled(
      &raw_, static_cast<CUtensorMapDataType>(tensor.data_type), static_cast<cuuint32_t>(rank_),
      reinterpret_cast<void*>(tensor.ptr), dims.data(), strides.data(), box.data(), each.data(),
      static_cast<CUtensorMapInterleave>(options.interleave),
      static_cast<CUtensorMapSwizzle>(options.swizzle),
      static_cast<CUtensorMapL2promotion>(options.l2_promotion),
      static_cast<CUtensorMapFloatOOBfill>(options.oob_fill)));
}

void TensorMapDescriptor::replace_address(CUdeviceptr ptr) {
  CUCORE_CALL(cuTensorMapReplaceAddress(&raw_, reinterpret_cast<void*>(ptr)));
}

}  // namespace cucore
