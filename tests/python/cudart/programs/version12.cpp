// SPDX-License-Identifier: Apache-2.0
// A program of CUDA 12, whose nvcc no wheel has: declares the functions with CUDA 12's signatures
// and registers the fat binary given as argument as nvcc's code does. Prints one line per subject.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

struct Dim3 {
  unsigned x, y, z;
};
using Stream = struct StreamHandle*;
using Graph = struct GraphHandle*;
using Node = struct NodeHandle*;

extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*,
                            void*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
unsigned __cudaPushCallConfiguration(Dim3, Dim3, size_t, Stream);
int __cudaPopCallConfiguration(Dim3*, Dim3*, size_t*, void*);
int cudaLaunchKernel(const void*, Dim3, Dim3, void**, size_t, Stream);
int cudaRuntimeGetVersion(int*);
int cudaMalloc(void**, size_t);
int cudaMallocManaged(void**, size_t, unsigned);
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, int);
int cudaGetDeviceProperties(void*, int);
int cudaGetDeviceProperties_v2(void*, int);
int cudaPointerGetAttributes(void*, const void*);
int cudaMemPrefetchAsync(const void*, size_t, int, Stream);
int cudaMemAdvise(const void*, size_t, int, int);
int cudaThreadSynchronize();
int cudaGraphCreate(Graph*, unsigned);
int cudaGraphAddEmptyNode(Node*, Graph, const Node*, size_t);
int cudaGraphAddDependencies(Graph, const Node*, const Node*, size_t);
int cudaGraphGetEdges(Graph, Node*, Node*, size_t*);
int cudaStreamGetCaptureInfo_v2(Stream, int*, unsigned long long*, Graph*, const Node**, size_t*);
int cudaStreamCreate(Stream*);
const char* cudaGetErrorName(int);
}

static void check(int code, const char* what) {
  if (code == 0) return;
  std::printf("%s: %s\n", what, cudaGetErrorName(code));
  std::exit(1);
}
#define CHECK(call) check(call, #call)

static int at(const unsigned char* bytes, size_t offset) {
  int value;
  std::memcpy(&value, bytes + offset, sizeof value);
  return value;
}

static char stub, shadow;  // their addresses name the kernel and the variable

int main(int, char** arguments) {
  std::ifstream file{arguments[1], std::ios::binary};
  static std::vector<char> image{std::istreambuf_iterator<char>{file}, {}};
  static struct {
    int magic, version;
    const void* data;
    void* unused;
  } wrapper = {0x466243b1, 1, image.data(), nullptr};
  void** const handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, &stub, &stub, "scale", -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  __cudaRegisterVar(handle, &shadow, &shadow, "factor", 0, sizeof(int), 1, 0);
  __cudaRegisterFatBinaryEnd(handle);

  int version = 0;
  CHECK(cudaRuntimeGetVersion(&version));
  std::printf("version %d\n", version / 1000);

  int *p, host[4] = {1, 2, 3, 4}, five = 5;
  CHECK(cudaMalloc(reinterpret_cast<void**>(&p), sizeof host));
  CHECK(cudaMemcpy(p, host, sizeof host, 1));
  CHECK(cudaMemcpyToSymbol(&shadow, &five, sizeof five, 0, 1));
  __cudaPushCallConfiguration({1, 1, 1}, {4, 1, 1}, 0, nullptr);
  Dim3 grid, block;
  size_t shared;
  Stream stream;
  CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  void* values[] = {&p};
  CHECK(cudaLaunchKernel(&stub, grid, block, values, shared, stream));
  CHECK(cudaMemcpy(host, p, sizeof host, 2));
  std::printf("kernel %d %d\n", host[0], host[3]);
  std::printf("no configuration %s\n",
              cudaGetErrorName(__cudaPopCallConfiguration(&grid, &block, &shared, &stream)));

  // Structs: bytes behind CUDA 12's end stay as they were.
  unsigned char prop[1040], prop11[1040], attributes[32];
  std::memset(prop, 0xaa, sizeof prop);
  std::memset(prop11, 0xaa, sizeof prop11);
  std::memset(attributes, 0xaa, sizeof attributes);
  CHECK(cudaGetDeviceProperties_v2(prop, 0));
  CHECK(cudaGetDeviceProperties(prop11, 0));
  CHECK(cudaPointerGetAttributes(attributes, p));
  std::printf("properties warp %d major %d end %x %x same %d\n", at(prop, 308), at(prop, 360) > 0,
              prop[1032], prop11[728], std::memcmp(prop, prop11, 728) == 0);
  std::printf("pointer type %d end %x\n", at(attributes, 0), attributes[24]);

  int* managed;
  CHECK(cudaMallocManaged(reinterpret_cast<void**>(&managed), 4096, 1));
  CHECK(cudaMemAdvise(managed, 4096, 3, -1));
  CHECK(cudaMemPrefetchAsync(managed, 4096, 0, nullptr));
  CHECK(cudaMemPrefetchAsync(managed, 4096, -1, nullptr));
  CHECK(cudaThreadSynchronize());
  std::printf("invalid device %s\n", cudaGetErrorName(cudaMemPrefetchAsync(managed, 4096, 99, {})));

  Graph graph;
  Node a, b, from, to;
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
  CHECK(cudaGraphAddEmptyNode(&b, graph, nullptr, 0));
  CHECK(cudaGraphAddDependencies(graph, &a, &b, 1));
  size_t edges = 1;
  CHECK(cudaGraphGetEdges(graph, &from, &to, &edges));
  std::printf("edges %zu %d\n", edges, from == a && to == b);

  int status = -1;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamGetCaptureInfo_v2(stream, &status, nullptr, nullptr, nullptr, nullptr));
  std::printf("capture %d\n", status);
  __cudaUnregisterFatBinary(handle);
  std::printf("unregistered %s\n",
              cudaGetErrorName(cudaLaunchKernel(&stub, grid, block, values, 0, nullptr)));
  return 0;
}
