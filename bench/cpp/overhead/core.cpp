// SPDX-License-Identifier: Apache-2.0
// core.cpp: measures the cucore C++ library, with the row names of raw.cpp.
#include <array>
#include <string>
#include <tuple>
#include <utility>

#include "cucore/device.hpp"
#include "cucore/graph.hpp"
#include "cucore/launch.hpp"
#include "cucore/object_code.hpp"
#include "cucore/program.hpp"
#include "cucore/program_cache.hpp"
#include "timing.hpp"

using namespace cucore;

int main() {
  const Device device{0};
  device.set_current();
  const Stream stream = device.create_stream();
  const Stream other = device.create_stream();
  const auto drain = [&] { stream.sync(); };
  const ObjectCode code = ObjectCode::from_ptx(bench::ptx());
  const Kernel k0 = code.get_kernel("k0");
  const Kernel k3 = code.get_kernel("k3");
  const LaunchConfig config{.grid = {1}, .block = {32}};
  Buffer memory = device.allocate(1 << 20, stream);
  Buffer small = device.allocate(4096, stream);

  bench::Suite suite;
  suite.run("device", [] { return Device{0}; });
  suite.run("device_current", [] { return Device::current(); });
  suite.run("set_current", [&] { device.set_current(); });
  for (const char* name : {"launch_config", "launch_config_3d"}) {
    suite.run(name, [] {
      const LaunchConfig made{.grid = {8, 8, 1}, .block = {32, 4, 1}, .shmem_size = 1024};
      asm volatile("" : : "r"(&made) : "memory");
    });
  }
  suite.run(
      "launch_0", [&] { launch(stream, config, k0); }, drain, 400);
  suite.run(
      "launch_3", [&] { launch(stream, config, k3, memory, 1.0F, 2); }, drain, 400);
  const auto mixed = [&]<std::size_t... I>(const Kernel& kernel, std::index_sequence<I...>) {
    const auto values = std::tie(memory, bench::kFloat, bench::kInt, bench::kDouble);
    launch(stream, config, kernel, std::get<I % 4>(values)...);
  };
  const Kernel k8 = code.get_kernel("k8");
  const Kernel k16 = code.get_kernel("k16");
  suite.run(
      "launch_8", [&] { mixed(k8, std::make_index_sequence<8>{}); }, drain, 400);
  suite.run(
      "launch_16", [&] { mixed(k16, std::make_index_sequence<16>{}); }, drain, 400);
  const Kernel k256 = code.get_kernel("k256");
  suite.run(
      "launch_256", [&] { mixed(k256, std::make_index_sequence<256>{}); }, drain, 400);
  suite.run(
      "module_load", [] { (void)ObjectCode::from_ptx(bench::ptx()).get_kernel("k0"); }, 1);
  suite.run("stream_sync", drain);
  suite.run("get_kernel", [&] { (void)code.get_kernel("k3"); });
  suite.run(
      "stream_create_close", [&] { device.create_stream().close(); }, 100);
  suite.run(
      "event_create_close", [&] { device.create_event().close(); }, 300);
  const Event event = device.create_event();
  suite.run(
      "event_record", [&] { stream.record(event); }, drain, 500);
  suite.run(
      "stream_wait", [&] { other.wait(event); }, [&] { other.sync(); }, 500);
  suite.run("event_is_done", [&] { (void)event.is_done(); });
  const Event begin = stream.record(EventOptions{.timing_enabled = true});
  const Event end = stream.record(EventOptions{.timing_enabled = true});
  end.sync();
  suite.run("event_elapsed", [&] { (void)Event::elapsed_ms(begin, end); });
  suite.run(
      "alloc_free_4k", [&] { device.allocate(4096, stream).close(); }, drain, 300);
  suite.run(
      "alloc_free_1m", [&] { device.allocate(1 << 20, stream).close(); }, drain, 300);
  suite.run(
      "fill_4k", [&] { small.fill(0, stream); }, drain, 300);
  for (const std::size_t size : {std::size_t{4}, std::size_t{1} << 20}) {
    const auto host = std::make_shared<Buffer>(
        Buffer::allocate(std::make_shared<LegacyPinnedMemory>(), size, stream));
    const auto there = std::make_shared<Buffer>(device.allocate(size, stream));
    const std::string name = size == 4 ? "copy_4_to_" : "copy_1m_to_";
    const int batch = size == 4 ? 300 : 20;
    suite.run(
        name + "device", [=, &stream] { there->copy_from(*host, stream); }, drain, batch);
    suite.run(
        name + "host", [=, &stream] { there->copy_to(*host, stream); }, drain, batch);
  }
  const auto captured = [&](int launches = 20) {
    return capture(stream, [&] {
      for (int i = 0; i < launches; ++i) launch(stream, config, k0);
    });
  };
  suite.run(
      "graph_build_20", [&] { captured().instantiate().close(); }, drain, 10);
  suite.run(
      "graph_capture_20", [&] { (void)captured(); }, drain, 10);
  const GraphDefinition definition = captured();
  suite.run(
      "graph_instantiate_20", [&] { definition.instantiate().close(); }, drain, 10);
  Graph graph = definition.instantiate();
  suite.run(
      "graph_update_20", [&] { graph.update(definition); }, drain, 10);
  suite.run(
      "graph_launch_20", [&] { graph.launch(stream); }, drain, 50);
  suite.run(
      "graph_capture_1000", [&] { (void)captured(1000); }, drain, 1);
  const GraphDefinition large_definition = captured(1000);
  Graph large_graph = large_definition.instantiate();
  suite.run(
      "graph_update_1000", [&] { large_graph.update(large_definition); }, drain, 1);
  suite.run(
      "graph_launch_1000", [&] { large_graph.launch(stream); }, drain, 1);
  if (bench::nvrtc_library() != nullptr) {
    ProgramOptions options;
    options.arch = "compute_" + device.arch();
    const auto program = [=] { return Program{bench::kSource, SourceType::cxx, options}; };
    suite.run(
        "compile", [=] { (void)program().compile(CodeType::ptx); }, 1);
    const auto cache = std::make_shared<InMemoryProgramCache>();
    suite.run(
        "compile_cached",
        [=] {
          Program made = program();
          const std::string key =
              make_program_cache_key(bench::kSource, SourceType::cxx, options, CodeType::ptx);
          (void)compile_cached(*cache, made, key, CodeType::ptx);
        },
        50);
  }
  suite.serve();
  return 0;
}
