// Which CUDA libraries would be used here, and why: example_find_libraries [name ...]
#include <cstdio>
#include <string>
#include <vector>

#include "cucore/cucore.hpp"

int main(int count, char** arguments) try {
  namespace pathfinder = cucore::pathfinder;
  const std::vector<std::string> names(arguments + 1, arguments + count);
  for (const std::string& name : names) std::puts(pathfinder::explain(name).str().c_str());
  if (!names.empty()) return 0;
  for (const std::string& name : pathfinder::supported(pathfinder::Kind::dynamic_lib, true)) {
    const pathfinder::SearchReport report = pathfinder::explain(name);
    const std::string where =
        report.abs_path.empty() ? "not found, " + std::to_string(report.attempts.size()) + " places"
                                : report.abs_path + " (" + report.found_via + ")";
    std::printf("%-12s %s\n", name.c_str(), where.c_str());
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
