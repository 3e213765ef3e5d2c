// SPDX-License-Identifier: Apache-2.0
// fact_rows.hpp: one row per fact of api/ with the value of the table and that of the compiled
// header.
#pragma once
#include <span>

struct FactRow {
  const char* text;    ///< "offsetof(CUuuid, bytes)"
  long long expected;  ///< value in api/
  long long actual;    ///< value in the header
};

struct FactTable {
  const char* library;
  const char* header;
  std::span<const FactRow> rows;
};
