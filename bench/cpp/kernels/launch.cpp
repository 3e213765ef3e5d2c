// bench/cpp/kernels/launch.cpp: launches in a loop, so that what is measured is the launch and not
// the language that calls it.
#include <cstddef>

extern "C" {

using CudaLaunch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                           unsigned, void*, void**, void**);
using CudaWait = int (*)();

int cuda_launches(CudaLaunch launch, CudaWait wait, void* function, int count, int wait_each) {
  for (int i = 0; i < count; ++i) {
    if (int code = launch(function, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr)) return code;
    if (wait_each)
      if (int code = wait()) return code;
  }
  return wait();
}

using ClEnqueue = int (*)(void*, void*, unsigned, const std::size_t*, const std::size_t*,
                          const std::size_t*, unsigned, const void*, void*);
using ClFinish = int (*)(void*);

int opencl_launches(ClEnqueue enqueue, ClFinish finish, void* queue, void* kernel, int count,
                    int wait_each) {
  const std::size_t size = 32;
  for (int i = 0; i < count; ++i) {
    if (int code = enqueue(queue, kernel, 1, nullptr, &size, &size, 0, nullptr, nullptr))
      return code;
    if (wait_each)
      if (int code = finish(queue)) return code;
  }
  return finish(queue);
}

}  // extern "C"
