// The facts of api/ against real headers: every size, offset, value and prototype.
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

bool is_ours(const FactTable& table) {
  return std::string_view{table.header}.starts_with("cucore/abi/");
}

void expect_all_rows_agree(const FactTable& table) {
  EXPECT_GT(table.rows.size(), 10u) << table.library << " has hardly any facts";
  for (const FactRow& row : table.rows) {
    EXPECT_EQ(row.expected, row.actual)
        << table.library << ": " << row.text << " in <" << table.header << ">";
  }
}

TEST(Abi, OurHeadersSayWhatTheTablesSay) {
  for (const FactTable* table : kTables) {
    if (is_ours(*table)) expect_all_rows_agree(*table);
  }
}

TEST(Abi, RealHeadersSayWhatTheTablesSay) {
#ifndef CUCORE_HAVE_CUDA_HEADERS
  GTEST_SKIP() << "CUDA headers of the tables' version are not installed: pip install -r "
                  "tools/requirements.txt";
#endif
  int compared = 0;
  for (const FactTable* table : kTables) {
    if (is_ours(*table)) continue;
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

TEST(Abi, HeadersCompileAsC11) { EXPECT_EQ(cucore_c_headers_compile(), 8); }

TEST(Abi, OurDriverHeaderStandsBesideCudaH) {
  EXPECT_EQ(coexist_before(), 1);  // <cuda.h> first: ours adds nothing
  EXPECT_EQ(coexist_after(), 1);   // ours first: a later <cuda.h> is harmless
}
