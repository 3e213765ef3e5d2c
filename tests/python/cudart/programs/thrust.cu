// SPDX-License-Identifier: Apache-2.0
// Thrust: reduce, transform and sort on the device.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <cstdio>

struct Square {
  __host__ __device__ int operator()(int x) const { return x * x; }
};

int main() {
  thrust::device_vector<int> v(1000);
  for (int i = 0; i < 1000; ++i) v[i] = (i * 37) % 1000;
  thrust::sort(v.begin(), v.end());
  std::printf("sorted %d %d\n", int(v[1]), int(v[998]));
  std::printf("sum %d\n", thrust::reduce(v.begin(), v.end()));
  thrust::transform(v.begin(), v.end(), v.begin(), Square{});
  std::printf("square %d\n", int(v[31]));
  return 0;
}
