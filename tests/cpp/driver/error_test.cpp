// SPDX-License-Identifier: Apache-2.0
// error_test.cpp: names of result codes and the exceptions for them.
#include "cucore/error.hpp"

#include <gtest/gtest.h>

#include <string>

namespace cucore {
namespace {

TEST(Error, ResultNamesAndDescriptionsNeedNoDriver) {
  EXPECT_STREQ(result_name(CUDA_SUCCESS), "CUDA_SUCCESS");
  EXPECT_STREQ(result_name(CUDA_ERROR_ILLEGAL_ADDRESS), "CUDA_ERROR_ILLEGAL_ADDRESS");
  EXPECT_STREQ(result_text(CUDA_ERROR_INVALID_VALUE), "invalid value");
  EXPECT_STREQ(result_name(static_cast<CUresult>(123456)), "CUDA_ERROR_UNKNOWN_CODE");
}

// promise: An error has its CUDA code and name as attributes and names the call that failed
TEST(Error, ErrorHasCodeNameAndFunction) {
  try {
    check(CUDA_ERROR_INVALID_VALUE, "cuMemcpyAsync(dst, src, n, stream)");
    FAIL() << "check() did not throw";
  } catch (const CUDAError& error) {
    EXPECT_EQ(error.code(), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(error.name(), "CUDA_ERROR_INVALID_VALUE");
    EXPECT_NE(std::string{error.what()}.find("(cuMemcpyAsync)"), std::string::npos) << error.what();
    EXPECT_EQ(error.call(), "cuMemcpyAsync");
    EXPECT_EQ(error.object(), "");
  }
}

TEST(Error, AnErrorWithMoreTextKeepsItsCodeCallObjectAndNotes) {
  CUDAError first{1, "NAME", "text", "cuLaunchKernel"};
  first.add_note("note");
  const CUDAError more{first, "text and more", "kernel k"};
  EXPECT_EQ(more.code(), 1);
  EXPECT_EQ(more.name(), "NAME");
  EXPECT_STREQ(more.what(), "text and more");
  EXPECT_EQ(more.call(), "cuLaunchKernel");
  EXPECT_EQ(more.object(), "kernel k");
  EXPECT_EQ(more.notes(), first.notes());
  EXPECT_EQ((CUDAError{more, "again", "kernel other"}).object(), "kernel k");
}

TEST(Error, OutOfMemoryThrowsItsOwnType) {
  EXPECT_THROW(check(CUDA_ERROR_OUT_OF_MEMORY, "cuMemAlloc"), OutOfMemoryError);
}

TEST(Error, SuccessDoesNotThrow) { EXPECT_NO_THROW(check(CUDA_SUCCESS, "cuInit")); }

TEST(Error, MissingContextErrorNamesTheRemedy) {
  try {
    check(CUDA_ERROR_INVALID_CONTEXT, "cuStreamCreate");
    FAIL();
  } catch (const CUDAError& error) {
    EXPECT_NE(std::string{error.what()}.find("set_current()"), std::string::npos);
  }
}

}  // namespace
}  // namespace cucore
