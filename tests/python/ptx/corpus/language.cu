// The language: recursion, virtual functions, function pointers, printf, assert, new, constant and managed memory, switch, asm.
#include <cuda_fp16.h>
__constant__ float table[16] = {1, 2, 3.5f, -4};
__device__ int counter = 42;
__managed__ int managed = 7;
__device__ const char* names[] = {"zero", "one"};
__device__ int* pointer = &counter;

struct Shape {
  __device__ virtual float area(float x) const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  __device__ float area(float x) const override { return x * x; }
};
struct Circle : Shape {
  __device__ float area(float x) const override { return 3.14f * x * x; }
};

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
__device__ int (*functions[])(int) = {twice, thrice};
struct Big { double v[9]; int k; };
__device__ __noinline__ Big shuffle(Big b, int i) { Big r; for (int k = 0; k < 9; ++k) r.v[k] = b.v[(k + i) % 9]; r.k = i; return r; }

extern "C" __global__ void everything(float* a, int* b, Big big, int n) {
  int i = threadIdx.x;
  b[0] = fibonacci(n), b[1] = functions[n & 1](n), b[2] = counter + managed + *pointer, b[3] = names[n & 1][0];
  Square square;
  Circle circle;
  const Shape* shape = n > 3 ? static_cast<const Shape*>(&square) : &circle;
  a[0] = shape->area(a[1]) + table[n & 15];
  Big other = shuffle(big, n);
  a[2] = static_cast<float>(other.v[n % 9] + other.k + big.k);
  printf("%d %f %s\n", i, a[0], names[0]);
  assert(n != 17);
  int* heap = new int[n];
  heap[0] = n;
  a[3] = heap[0];
  delete[] heap;
  switch (n) {
    case 0: a[4] = 1; break;
    case 1: a[4] = 7; break;
    case 2: a[4] = 3; break;
    case 3: a[4] = 9; break;
    case 4: a[4] = 2; break;
    default: a[4] = 0;
  }
  int r;
  asm volatile("{ .reg .pred p; .reg .u32 t; setp.gt.s32 p, %1, 3; @p add.u32 t, %1, 5; @!p mov.u32 t, 1; mov.u32 %0, t; }" : "=r"(r) : "r"(n));
  b[4] = r;
  long long t = clock64();
  if (n == 99) __trap();
  if (n == 98) asm volatile("exit;");
  __nanosleep(10);
  b[5] = static_cast<int>(clock64() - t) + __isShared(b) + __isGlobal(a) + __isLocal(&r);
}
