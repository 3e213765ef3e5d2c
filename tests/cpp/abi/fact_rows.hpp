// One row per fact of api/, compiled against one header: what the table says and what the compiler
// says.
#pragma once
#include <span>

struct FactRow {
  const char* text;    ///< "offsetof(CUuuid, bytes)"
  long long expected;  ///< what api/ says
  long long actual;    ///< what the header gives
};

struct FactTable {
  const char* library;
  const char* header;
  std::span<const FactRow> rows;
};
