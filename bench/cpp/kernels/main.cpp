// bench/cpp/kernels/main.cpp: ten kernels on the CPU device against native C++, interleaved in one process; prints ratios, never times.
//   bench_kernels DRIVER NVRTC [kernel...]     (bench/python/kernels.py finds the libraries)
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "device.hpp"
#include "native.hpp"

namespace {

const std::string kSource =
#include "source.inc"
    ;

struct Case {
  const char* name;
  double goal;  // ratio to native, at most
  std::function<void()> device, native;
  std::function<double()> difference;  // largest error between the two results; small when both are right
  double tolerance;
};

template <typename T>
struct Buffer {
  explicit Buffer(std::size_t n) : host(n) {}
  void send() { on_device = device::upload(host.data(), bytes()); }
  std::vector<T> fetch() {
    std::vector<T> result(host.size());
    device::download(result.data(), on_device, bytes());
    return result;
  }
  [[nodiscard]] std::size_t bytes() const { return host.size() * sizeof(T); }
  std::vector<T> host;
  CUdeviceptr on_device = 0;
};

template <typename T>
double largest_difference(const std::vector<T>& a, const std::vector<T>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double d = std::fabs(double(a[i]) - double(b[i])) / std::max(1.0, std::fabs(double(a[i])));
    if (!(d <= worst)) worst = std::isnan(d) ? 1e30 : d;
  }
  return worst;
}

double seconds(const std::function<void()>& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <typename T>
std::shared_ptr<Buffer<T>> random_buffer(std::size_t n, double low, double high) {
  auto buffer = std::make_shared<Buffer<T>>(n);
  std::mt19937 random{static_cast<unsigned>(n)};
  std::uniform_real_distribution<double> numbers{low, high};
  for (T& value : buffer->host) value = static_cast<T>(numbers(random));
  buffer->send();
  return buffer;
}

#define ARGUMENT(value) const_cast<void*>(static_cast<const void*>(&(value)))

std::vector<Case> make_cases() {
  std::vector<Case> cases;
  {
    static int n = 1 << 24;
    static float a = 2.5f;
    auto x = random_buffer<float>(n, -1, 1), y = random_buffer<float>(n, -1, 1);
    static CUfunction f = device::kernel("saxpy");
    cases.push_back({"saxpy 16M", 1.1, [=] { device::launch(f, {unsigned(n) / 256}, {256}, {&a, &x->on_device, &y->on_device, &n}); },
                     [=] { native::saxpy(a, x->host.data(), y->host.data(), n); },
                     [=] { return largest_difference(y->host, y->fetch()); }, 1e-5});
  }
  {
    static int n = 1 << 20;
    auto a = random_buffer<float>(n, -1, 1), b = random_buffer<float>(n, -1, 1), c = random_buffer<float>(n, 0, 0);
    static CUfunction f = device::kernel("vector_add");
    constexpr int kTimes = 50;
    cases.push_back({"vector add 1M", 1.2,
                     [=] {
                       for (int i = 0; i < kTimes; ++i) {
                         device::launch(f, {unsigned(n) / 256}, {256}, {&a->on_device, &b->on_device, &c->on_device, &n});
                         device::wait();
                       }
                     },
                     [=] {
                       for (int i = 0; i < kTimes; ++i) native::vector_add(a->host.data(), b->host.data(), c->host.data(), n);
                     },
                     [=] { return largest_difference(c->host, c->fetch()); }, 0});
  }
  {
    static int n = 1024;
    auto a = random_buffer<float>(n * n, -1, 1), b = random_buffer<float>(n * n, -1, 1), c = random_buffer<float>(n * n, 0, 0);
    static CUfunction f = device::kernel("matmul");
    cases.push_back({"matmul 1024", 2,
                     [=] { device::launch(f, {unsigned(n) / 16, unsigned(n) / 16}, {16, 16}, {&a->on_device, &b->on_device, &c->on_device, &n}); },
                     [=] { native::matmul(a->host.data(), b->host.data(), c->host.data(), n); },
                     [=] { return largest_difference(c->host, c->fetch()); }, 1e-3});
  }
  {
    static int n = 1 << 24;
    auto in = random_buffer<float>(n, 0, 1);
    auto out = random_buffer<float>(1, 0, 0);
    static CUfunction f = device::kernel("reduce");
    static float native_sum = 0;
    cases.push_back({"block reduction 16M", 3,
                     [=] {
                       device::clear(out->on_device, 4);
                       device::launch(f, {unsigned(n) / 256}, {256}, {&in->on_device, &out->on_device, &n});
                     },
                     [=] { native_sum = native::reduce(in->host.data(), n); },
                     [=] { return largest_difference(std::vector<float>{native_sum}, out->fetch()); }, 1e-2});
  }
  {
    static int n = 1 << 24;
    auto in = random_buffer<unsigned char>(n, 0, 256);
    auto bins = random_buffer<unsigned>(256, 0, 0);
    static CUfunction f = device::kernel("histogram");
    cases.push_back({"histogram 16M", 2,
                     [=] {
                       device::clear(bins->on_device, bins->bytes());
                       device::launch(f, {256}, {256}, {&in->on_device, &bins->on_device, &n});
                     },
                     [=] {
                       std::fill(bins->host.begin(), bins->host.end(), 0u);
                       native::histogram(in->host.data(), bins->host.data(), n);
                     },
                     [=] { return largest_difference(bins->host, bins->fetch()); }, 0});
  }
  {
    static int width = 2048, height = 2048, most = 200;
    auto out = random_buffer<int>(std::size_t(width) * height, 0, 0);
    static CUfunction f = device::kernel("mandelbrot");
    cases.push_back({"mandelbrot 2048", 1.2,
                     [=] { device::launch(f, {unsigned(width) / 16, unsigned(height) / 16}, {16, 16}, {&out->on_device, &width, &height, &most}); },
                     [=] { native::mandelbrot(out->host.data(), width, height, most); },
                     [=] {  // fused multiplications differ: count pixels that do
                       auto other = out->fetch();
                       double wrong = 0;
                       for (std::size_t i = 0; i < other.size(); ++i) wrong += std::abs(other[i] - out->host[i]) > 3;
                       return wrong / double(other.size());
                     },
                     0.01});
  }
  {
    static int n = 1 << 22;
    static float rate = 0.02f, volatility = 0.3f;
    auto price = random_buffer<float>(n, 5, 30), strike = random_buffer<float>(n, 1, 100), years = random_buffer<float>(n, 0.25, 10);
    auto call = random_buffer<float>(n, 0, 0), put = random_buffer<float>(n, 0, 0);
    static CUfunction f = device::kernel("blackscholes");
    cases.push_back({"black-scholes 4M", 0.4,
                     [=] {
                       device::launch(f, {unsigned(n) / 256}, {256},
                                      {&call->on_device, &put->on_device, &price->on_device, &strike->on_device, &years->on_device, &rate,
                                       &volatility, &n});
                     },
                     [=] {
                       native::blackscholes(call->host.data(), put->host.data(), price->host.data(), strike->host.data(), years->host.data(),
                                            rate, volatility, n);
                     },
                     [=] { return std::max(largest_difference(call->host, call->fetch()), largest_difference(put->host, put->fetch())); },
                     1e-3});
  }
  {
    static int n = 8192;
    auto position = random_buffer<float>(4 * n, 0, 1), force = random_buffer<float>(4 * n, 0, 0);
    static CUfunction f = device::kernel("nbody");
    cases.push_back({"n-body 8192", 1.3, [=] { device::launch(f, {unsigned(n) / 256}, {256}, {&position->on_device, &force->on_device, &n}); },
                     [=] { native::nbody(position->host.data(), force->host.data(), n); },
                     [=] { return largest_difference(force->host, force->fetch()); }, 1e-2});
  }
  {
    static int side = 256;
    auto in = random_buffer<float>(std::size_t(side) * side * side, 0, 1), out = random_buffer<float>(std::size_t(side) * side * side, 0, 0);
    static CUfunction f = device::kernel("stencil");
    cases.push_back({"stencil 256^3", 1.2,
                     [=] {
                       device::launch(f, {unsigned(side) / 32, unsigned(side) / 8, unsigned(side)}, {32, 8},
                                      {&in->on_device, &out->on_device, &side, &side, &side});
                     },
                     [=] { native::stencil(in->host.data(), out->host.data(), side, side, side); },
                     [=] { return largest_difference(out->host, out->fetch()); }, 1e-5});
  }
  {
    static int n = 1 << 24;
    auto in = random_buffer<int>(n, 0, 100), out = random_buffer<int>(n, 0, 0), sums = random_buffer<int>(n / 256, 0, 0);
    static CUfunction f = device::kernel("scan");
    cases.push_back({"block scan 16M", 1.2,
                     [=] { device::launch(f, {unsigned(n) / 256}, {256}, {&in->on_device, &out->on_device, &sums->on_device, &n}); },
                     [=] { native::scan(in->host.data(), out->host.data(), sums->host.data(), n, 256); },
                     [=] { return std::max(largest_difference(out->host, out->fetch()), largest_difference(sums->host, sums->fetch())); }, 0});
  }
  return cases;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s DRIVER NVRTC [kernel...]\n", argv[0]);
    return 2;
  }
  device::open(argv[1], argv[2]);
  device::compile(kSource);
  const char* rounds_text = std::getenv("KERNELS_ROUNDS");
  int rounds = rounds_text ? std::atoi(rounds_text) : 7;
  std::printf("%-22s %8s %8s %8s %8s  %s\n", "kernel", "ratio", "goal", "spread", "(native)", "result");
  double product = 1;
  int counted = 0;
  bool all_right = true;
  for (Case& c : make_cases()) {
    if (argc > 3 && std::none_of(argv + 3, argv + argc, [&](const char* name) { return std::strstr(c.name, name) != nullptr; })) continue;
    auto on_device = [&] {
      c.device();
      device::wait();
    };
    on_device();  // compiles
    c.native();
    double error = c.difference();
    std::vector<double> ours, theirs;
    for (int i = 0; i < rounds; ++i) {
      theirs.push_back(seconds(c.native));
      ours.push_back(seconds(on_device));
    }
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    double ratio = ours.front() / theirs.front();
    auto spread = [](const std::vector<double>& times) { return times[times.size() / 2] / times.front(); };
    bool right = error <= c.tolerance;
    all_right &= right;
    std::printf("%-22s %8.2f %8.2f %8.2f %8.2f  %s\n", c.name, ratio, c.goal, spread(ours), spread(theirs), right ? "right" : "WRONG");
    if (std::getenv("KERNELS_TIMES")) std::printf("    ours %.3f ms, native %.3f ms, difference %g\n", ours.front() * 1e3, theirs.front() * 1e3, error);
    std::fflush(stdout);
    product *= ratio;
    ++counted;
  }
  if (counted > 1) std::printf("%-22s %8.2f\n", "geometric mean", std::pow(product, 1.0 / counted));
  std::printf("ratio: best time on the CPU device / best time of native C++; spread: median / best of %d interleaved rounds\n", rounds);
  return all_right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
