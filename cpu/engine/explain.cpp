// SPDX-License-Identifier: Apache-2.0
// cpu/engine/explain.cpp
#include "cpu/engine/explain.hpp"

#include <llvm/Bitcode/BitcodeWriter.h>
#include <llvm/Support/JSON.h>

#include <algorithm>
#include <utility>

#include "cpu/base/compute_capability.hpp"
#include "cpu/engine/compile.hpp"
#include "cpu/engine/explanation.hpp"
#include "cpu/engine/jit/host_target.hpp"
#include "cpu/engine/pipeline.hpp"
#include "cpu/ptx/parser.hpp"

namespace cucpu {
namespace {

namespace json = llvm::json;

struct ThreadCodeOf {
  std::string bitcode;
  std::vector<KernelInfo> kernels;
};

ThreadCodeOf translate_text(std::string_view text, const Settings& settings) {
  ThreadCodeOf result;
  in_compiler("explain", text, settings, [&] {
    ptx::Diagnostics diagnostics{"ptx"};
    const ptx::Parsed parsed =
        ptx::parse_for_any(std::string{text}, diagnostics, environment::targets());
    if (diagnostics.failed() || !parsed.module)
      throw LoadError{parsed.code ? parsed.code : 218, diagnostics.log()};
    llvm::LLVMContext context;
    const ptx::Module* const modules[] = {parsed.module.get()};
    Translation translation = pipeline::thread_code(modules, context, {}, settings);
    llvm::raw_string_ostream out{result.bitcode};
    llvm::WriteBitcodeToFile(*translation.module, out);
    out.flush();
    result.kernels = std::move(translation.kernels);
  });
  return result;
}

json::Object to_json(const simt::RemarkPlace& place) {
  return json::Object{{"file", json::fixUTF8(place.file)},
                      {"line", place.line},
                      {"column", place.column},
                      {"depth", place.depth}};
}

json::Object to_json(const simt::Report& r) {
  return json::Object{{"width", r.width},
                      {"groups", r.groups},
                      {"regions", r.regions},
                      {"instructions", r.instructions},
                      {"uniform", r.uniform},
                      {"strided", r.strided},
                      {"varying", r.varying},
                      {"atomics", r.atomics},
                      {"warp_operations", r.warp_operations},
                      {"lane_calls", r.lane_calls},
                      {"divergent_branches", r.divergent_branches},
                      {"divergent_loops", r.divergent_loops},
                      {"masked_blocks", r.masked_blocks},
                      {"scratch_bytes", static_cast<std::int64_t>(r.scratch_bytes)}};
}

json::Object to_json(const Explanation& e) {
  json::Array accesses, branches, lines;
  for (const simt::AccessRemark& access : e.remarks.accesses) {
    json::Object row = to_json(access.place);
    row["what"] = access.what;
    row["space"] = access.space;
    row["pattern"] = access.pattern;
    row["stride"] = access.stride;
    row["bytes"] = static_cast<std::int64_t>(access.bytes);
    accesses.push_back(std::move(row));
  }
  for (const simt::BranchRemark& branch : e.remarks.branches) {
    json::Object row = to_json(branch.place);
    row["loop"] = branch.loop;
    row["divergent"] = branch.divergent;
    branches.push_back(std::move(row));
  }
  for (const simt::LineRemark& line : e.remarks.lines) {
    json::Object row = to_json(line.place);
    row["uniform"] = line.uniform;
    row["strided"] = line.strided;
    row["varying"] = line.varying;
    row["barriers"] = line.barriers;
    row["calls"] = line.calls;
    lines.push_back(std::move(row));
  }
  return json::Object{{"path", e.path},
                      {"refusal", e.refusal},
                      {"report", to_json(e.report)},
                      {"accesses", std::move(accesses)},
                      {"branches", std::move(branches)},
                      {"lines", std::move(lines)},
                      {"assembly", json::fixUTF8(e.assembly)}};
}

}  // namespace

std::string explain_kernel(std::string_view ptx, const std::string& kernel, const Dim3& block) {
  Settings settings = Settings::from_environment();
  const ThreadCodeOf code = translate_text(ptx, settings);
  const auto info = kernel.empty() ? code.kernels.begin()
                                   : std::ranges::find(code.kernels, kernel, &KernelInfo::name);
  json::Array names;
  for (const KernelInfo& other : code.kernels) names.push_back(other.name);
  if (info == code.kernels.end()) {
    std::string known;
    for (const KernelInfo& other : code.kernels) known += (known.empty() ? "" : ", ") + other.name;
    throw LoadError{500, "there is no kernel " + kernel + "; the kernels are " +
                             (known.empty() ? "none" : known)};
  }
  Explanation explanation;
  CompileJob job;
  job.bitcode = code.bitcode;
  job.kernel = info->name;
  job.block = info->required_block.value_or(block);
  job.explanation = &explanation;
  if (!compile_kernel(job, settings)) {
    job.block.reset();
    (void)compile_kernel(job, settings);
  }
  json::Object result = to_json(explanation);
  result["kernel"] = info->name;
  result["kernels"] = std::move(names);
  const Dim3 shape = info->required_block.value_or(block);
  result["block"] = json::Array{shape.x, shape.y, shape.z};
  result["shared_bytes"] = info->static_shared_bytes;
  result["local_bytes"] = info->local_bytes;
  result["host"] = host_target().cpu;
  std::string text;
  llvm::raw_string_ostream out{text};
  out << json::Value(std::move(result));
  return out.str();
}

}  // namespace cucpu
