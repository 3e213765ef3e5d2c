// bench/cpp/kernels/native.hpp: the same work as straightforward C++ for the host: OpenMP over the outer loop, simd pragmas inside.
#pragma once

namespace native {

void saxpy(float a, const float* x, float* y, int n);
void vector_add(const float* a, const float* b, float* c, int n);
void matmul(const float* a, const float* b, float* c, int n);
float reduce(const float* in, int n);
void histogram(const unsigned char* in, unsigned* bins, int n);
void mandelbrot(int* out, int width, int height, int most);
void blackscholes(float* call, float* put, const float* price, const float* strike, const float* years, float rate, float volatility, int n);
void nbody(const float* position, float* force, int n);
void stencil(const float* in, float* out, int nx, int ny, int nz);
void scan(const int* in, int* out, int* sums, int n, int block);

}  // namespace native
