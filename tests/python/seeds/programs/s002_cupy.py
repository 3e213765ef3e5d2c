# needs: cupy
import cuda.core as cuda
import cupy as cp

(cuda.Device()).set_current()
# CuPy creates and manages arrays
data = cp.random.randn(1000000)

# Access underlying pointer for CUDA Python operations
ptr = data.data.ptr
stream = cuda.Stream()
assert ptr and stream.handle
