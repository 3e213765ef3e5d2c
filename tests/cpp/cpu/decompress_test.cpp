// SPDX-License-Identifier: Apache-2.0
// cuMemBatchDecompressAsync: deflate, Snappy and LZ4, whole and damaged.
#include <numeric>
#include <string>

#include "support.hpp"

namespace {

using Bytes = std::vector<unsigned char>;

/// Output of zlib for plain(): dynamic Huffman codes and overlapping copies.
const Bytes kDeflated = {
    75,  204, 201, 81,  40,  207, 47,  202, 86,  72,  204, 75,  81,  200, 203, 87,  40,  200, 73,
    172, 84,  200, 77,  204, 78,  45,  86,  72,  84,  72,  41,  5,   202, 166, 164, 150, 101, 38,
    167, 90,  43,  36,  142, 170, 28,  85,  57,  170, 114, 84,  229, 168, 202, 81,  149, 163, 42,
    71,  85,  142, 170, 28,  85,  57,  170, 114, 84,  229, 168, 202, 81,  149, 163, 42,  71,  85,
    142, 170, 28,  85,  57,  170, 114, 84,  229, 168, 202, 81,  149, 163, 42,  71,  85,  142, 170,
    28,  85,  57,  170, 114, 84,  229, 168, 202, 81,  149, 163, 42,  71,  85,  210, 69,  37,  3,
    35,  19,  51,  11,  43,  27,  59,  7,   39,  23,  55,  15,  47,  31,  191, 128, 160, 144, 176,
    136, 168, 152, 184, 132, 164, 148, 180, 140, 172, 156, 188, 130, 162, 146, 178, 138, 170, 154,
    186, 134, 166, 150, 182, 142, 174, 158, 190, 129, 161, 145, 177, 137, 169, 153, 185, 133, 165,
    149, 181, 141, 173, 157, 189, 131, 163, 147, 179, 139, 171, 155, 187, 135, 167, 151, 183, 143,
    175, 159, 127, 64,  96,  80,  112, 72,  104, 88,  120, 68,  100, 84,  116, 76,  108, 92,  124,
    66,  98,  82,  114, 74,  106, 90,  122, 70,  102, 86,  118, 78,  110, 94,  126, 65,  97,  81,
    113, 73,  105, 89,  121, 69,  101, 85,  117, 77,  109, 93,  125, 67,  99,  83,  115, 75,  107,
    91,  123, 71,  103, 87,  119, 79,  111, 95,  255, 132, 137, 147, 38,  79,  153, 58,  109, 250,
    140, 153, 179, 102, 207, 153, 59,  111, 254, 130, 133, 139, 22,  47,  89,  186, 108, 249, 138,
    149, 171, 86,  175, 89,  187, 110, 253, 134, 141, 155, 54,  111, 217, 186, 109, 251, 142, 157,
    187, 118, 239, 217, 187, 111, 255, 129, 131, 135, 14,  31,  57,  122, 236, 248, 137, 147, 167,
    78,  159, 57,  123, 238, 252, 133, 139, 151, 46,  95,  185, 122, 237, 250, 141, 155, 183, 110,
    223, 185, 123, 239, 254, 131, 135, 143, 30,  63,  121, 250, 236, 249, 139, 151, 175, 94,  191,
    121, 251, 238, 253, 135, 143, 159, 62,  127, 249, 250, 237, 251, 143, 159, 191, 126, 255, 249,
    251, 239, 255, 168, 255, 71,  182, 255, 1};

Bytes plain() {
  Bytes all;
  const std::string sentence = "all work and no play makes a dull device; ";
  for (int i = 0; i < 200; ++i) all.insert(all.end(), sentence.begin(), sentence.end());
  for (int i = 0; i < 3 * 256; ++i) all.push_back(static_cast<unsigned char>(i));
  return all;
}

Bytes bytes_of(const char* text) { return {text, text + std::char_traits<char>::length(text)}; }

class Decompression : public DriverTest {
 protected:
  /// The decompressed bytes; their number is in `actual_`.
  Bytes decompress(const Bytes& packed, std::size_t room, CUmemDecompressAlgorithm algorithm) {
    EXPECT_OK(cuMemAlloc(&source_, packed.size()));
    EXPECT_OK(cuMemAlloc(&target_, room));
    EXPECT_OK(cuMemcpyHtoD(source_, packed.data(), packed.size()));
    CUmemDecompressParams job{};
    job.src = reinterpret_cast<const void*>(source_);
    job.srcNumBytes = packed.size();
    job.dst = reinterpret_cast<void*>(target_);
    job.dstNumBytes = room;
    job.dstActBytes = words(1);
    job.algo = algorithm;
    EXPECT_OK(cuMemBatchDecompressAsync(&job, 1, 0, nullptr, nullptr));
    result_ = cuStreamSynchronize(nullptr);
    actual_ = *job.dstActBytes;
    Bytes out(actual_);
    if (result_ == CUDA_SUCCESS) {
      EXPECT_OK(cuMemcpyDtoH(out.data(), target_, out.size()));
    }
    return out;
  }
  CUdeviceptr source_ = 0, target_ = 0;
  std::size_t actual_ = 0;
  CUresult result_ = CUDA_SUCCESS;
};

TEST_F(Decompression, DeflateBlocksOfEveryKindDecompress) {
  EXPECT_EQ(plain(), decompress(kDeflated, 1 << 16, CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE));
  EXPECT_EQ(bytes_of("stored"), decompress({1, 6, 0, 249, 255, 115, 116, 111, 114, 101, 100}, 64,
                                           CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE));
  EXPECT_EQ(bytes_of("fixed fixed fixed"), decompress({75, 203, 172, 72, 77, 81, 72, 67, 144, 0},
                                                      17, CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE));
}

TEST_F(Decompression, SnappyDecompresses) {
  // 20 bytes: "cuco" as a literal, then a copy of 11 from 4 back, then "!?" and a copy of 3 with
  // two bytes of offset.
  const Bytes packed = {20, 3 << 2, 'c', 'u', 'c',          'o', (7 << 2) | 1,
                        4,  1 << 2, '!', '?', (2 << 2) | 2, 2,   0};
  EXPECT_EQ(bytes_of("cucocucocucocuc!?!?!"),
            decompress(packed, 64, CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY));
}

TEST_F(Decompression, Lz4BlocksDecompress) {
  const Bytes packed = {0x44, 'a', 'b',  'c', 'd',
                        4,    0,   0x10, '.'};  // four literals, eight more from four back, a dot
  EXPECT_EQ(bytes_of("abcdabcdabcd."), decompress(packed, 64, CU_MEM_DECOMPRESS_ALGORITHM_LZ4));
}

TEST_F(Decompression, DamagedDataFailsWithoutOtherWrites) {
  for (const std::size_t cut : {1u, 40u, 300u}) {
    Bytes short_one{kDeflated.begin(), kDeflated.begin() + static_cast<std::ptrdiff_t>(cut)};
    CUcontext own = nullptr;
    ASSERT_OK(cuCtxCreate(&own, nullptr, 0, 0));
    decompress(short_one, 1 << 16, CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE);
    EXPECT_EQ(CUDA_ERROR_EXTERNAL_DEVICE, result_);
    EXPECT_EQ(0u, actual_);
    ASSERT_OK(cuCtxDestroy(own));
  }
  CUcontext own = nullptr;
  ASSERT_OK(cuCtxCreate(&own, nullptr, 0, 0));
  decompress(kDeflated, 100, CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE);  // does not fit
  EXPECT_EQ(CUDA_ERROR_EXTERNAL_DEVICE, result_);
  ASSERT_OK(cuCtxDestroy(own));
}

TEST_F(Decompression, InvalidRequestReportsItsIndex) {
  ASSERT_OK(cuMemAlloc(&source_, 64));
  CUmemDecompressParams jobs[2] = {};
  for (auto& job : jobs) {
    job.src = reinterpret_cast<const void*>(source_);
    job.dst = reinterpret_cast<void*>(source_);
    job.srcNumBytes = job.dstNumBytes = 64;
    job.algo = CU_MEM_DECOMPRESS_ALGORITHM_LZ4;
  }
  jobs[1].algo = CU_MEM_DECOMPRESS_UNSUPPORTED;
  std::size_t index = 9;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemBatchDecompressAsync(jobs, 2, 0, &index, nullptr));
  EXPECT_EQ(1u, index);
  jobs[0].srcNumBytes = 65;
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemBatchDecompressAsync(jobs, 1, 0, &index, nullptr));
  EXPECT_EQ(0u, index);
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemBatchDecompressAsync(nullptr, 1, 0, nullptr, nullptr));
}

}  // namespace
