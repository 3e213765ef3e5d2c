// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects over arrays.
#include "check.h"

__global__ void sample(cudaTextureObject_t texture, float* out) {
  out[threadIdx.x] = tex2D<float>(texture, threadIdx.x + 1.0f, 0.5f);
}

__global__ void fill(cudaSurfaceObject_t surface) {
  surf2Dwrite(float(threadIdx.x * 10 + threadIdx.y), surface, threadIdx.x * 4, threadIdx.y);
}

int main() {
  const int width = 4, height = 2;
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  CHECK(cudaMallocArray(&array, &format, width, height, cudaArraySurfaceLoadStore));
  cudaResourceDesc resource = {};
  resource.resType = cudaResourceTypeArray;
  resource.res.array.array = array;
  cudaSurfaceObject_t surface;
  CHECK(cudaCreateSurfaceObject(&surface, &resource));
  fill<<<1, dim3(width, height)>>>(surface);
  cudaTextureDesc how = {};
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texture;
  CHECK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
  float *out, host[3];
  CHECK(cudaMalloc(&out, sizeof host));
  sample<<<1, 3>>>(texture, out);
  CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost));
  std::printf("linear %g %g %g\n", host[0], host[1], host[2]);
  float rows[height][width];
  CHECK(cudaMemcpy2DFromArray(rows, sizeof rows[0], array, 0, 0, sizeof rows[0], height,
                              cudaMemcpyDeviceToHost));
  std::printf("surface %g %g\n", rows[0][3], rows[1][2]);
  cudaResourceDesc again = {};
  CHECK(cudaGetTextureObjectResourceDesc(&again, texture));
  std::printf("resource %d\n", again.res.array.array == array);
  CHECK(cudaDestroyTextureObject(texture));
  CHECK(cudaDestroySurfaceObject(surface));
  CHECK(cudaFreeArray(array));
  return 0;
}
