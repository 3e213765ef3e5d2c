// SPDX-License-Identifier: Apache-2.0
// abi_test.cpp: compares every size, offset, value and prototype of api/ with the rendered headers
// and with NVIDIA's.
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "fact_rows.hpp"

#define CUCORE_TABLE(name) extern const FactTable name;
#include "tables.inc"
#undef CUCORE_TABLE

namespace {

const std::vector<const FactTable*> kTables = {
#define CUCORE_TABLE(name) &name,
#include "tables.inc"
#undef CUCORE_TABLE
};

bool is_rendered(const FactTable& table) {
  return std::string_view{table.header}.starts_with("cucore/abi/");
}

void expect_all_rows_agree(const FactTable& table) {
  EXPECT_GT(table.rows.size(), 10u) << table.library << " has too few facts";
  for (const FactRow& row : table.rows) {
    EXPECT_EQ(row.expected, row.actual)
        << table.library << ": " << row.text << " in <" << table.header << ">";
  }
}

TEST(Abi, RenderedHeadersMatchTheFacts) {
  for (const FactTable* table : kTables) {
    if (is_rendered(*table)) expect_all_rows_agree(*table);
  }
}

TEST(Abi, NvidiaHeadersMatchTheFacts) {
#ifndef CUCORE_HAVE_CUDA_HEADERS
  GTEST_SKIP() << "CUDA headers of the facts' version are not installed: pip install -r "
                  "tools/requirements.txt";
#endif
  int compared = 0;
  for (const FactTable* table : kTables) {
    if (is_rendered(*table)) continue;
    expect_all_rows_agree(*table);
    compared += static_cast<int>(table->rows.size());
  }
  EXPECT_GT(compared, 5000);
  RecordProperty("facts_compared", compared);
}

}  // namespace

extern "C" int cucore_c_headers_compile(void);
int coexist_before();
int coexist_after();

TEST(Abi, RenderedHeadersCompileAsC11) { EXPECT_EQ(cucore_c_headers_compile(), 8); }

TEST(Abi, RenderedDriverHeaderCompilesBeforeAndAfterCudaH) {
  EXPECT_EQ(coexist_before(), 1);  // <cuda.h> first: the rendered header adds nothing
  EXPECT_EQ(coexist_after(), 1);   // rendered header first: <cuda.h> adds nothing
}
