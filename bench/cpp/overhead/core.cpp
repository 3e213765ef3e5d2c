// core.cpp: what the cucore C++ library costs, under the names of raw.cpp.
#include <array>
#include <string>
#include <vector>

#include "cucore/device.hpp"
#include "cucore/graph.hpp"
#include "cucore/launch.hpp"
#include "cucore/object_code.hpp"
#include "timing.hpp"

using namespace cucore;

int main() {
  const Device device{0};
  device.set_current();
  const Stream stream = device.create_stream();
  const Stream other = device.create_stream();
  const auto drain = [&] { stream.sync(); };
  const ObjectCode code = ObjectCode::from_ptx(
      ".version 7.5\n.target sm_75\n.address_size 64\n"
      ".visible .entry k0() { ret; }\n"
      ".visible .entry k3(.param .u64 p0, .param .f32 p1, .param .u32 p2) { ret; }\n");
  const Kernel k0 = code.get_kernel("k0");
  const Kernel k3 = code.get_kernel("k3");
  const LaunchConfig config{.grid = {1}, .block = {32}};
  Buffer memory = device.allocate(1 << 20, stream);

  bench::Suite suite;
  suite.run("device", [] { return Device{0}; });
  suite.run("set_current", [&] { device.set_current(); });
  suite.run("launch_0", [&] { launch(stream, config, k0); }, drain, 400);
  suite.run("launch_3", [&] { launch(stream, config, k3, memory, 1.0F, 2); }, drain, 400);
  suite.run("get_kernel", [&] { (void)code.get_kernel("k3"); });
  suite.run("stream_create_close", [&] { device.create_stream().close(); }, 100);
  suite.run("event_create_close", [&] { device.create_event().close(); }, 300);
  const Event event = device.create_event();
  suite.run("event_record", [&] { stream.record(event); }, drain, 500);
  suite.run("stream_wait", [&] { other.wait(event); }, [&] { other.sync(); }, 500);
  suite.run("event_is_done", [&] { (void)event.is_done(); });
  const Event begin = stream.record(EventOptions{.timing_enabled = true});
  const Event end = stream.record(EventOptions{.timing_enabled = true});
  end.sync();
  suite.run("event_elapsed", [&] { (void)Event::elapsed_ms(begin, end); });
  suite.run("alloc_free_4k", [&] { device.allocate(4096, stream).close(); }, drain, 300);
  suite.run("alloc_free_1m", [&] { device.allocate(1 << 20, stream).close(); }, drain, 300);
  suite.run("fill_4k", [&] { memory.fill(0, stream); }, drain, 300);
  const auto make_graph = [&] {
    return capture(stream, [&] { for (int i = 0; i < 20; ++i) launch(stream, config, k0); }).instantiate();
  };
  suite.run("graph_build_20", [&] { make_graph().close(); }, drain, 10);
  const Graph graph = make_graph();
  suite.run("graph_launch_20", [&] { graph.launch(stream); }, drain, 50);
  return 0;
}
