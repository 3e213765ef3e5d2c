# needs: cupy torch
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

dev = Device()
dev.set_current()
code = r"""
extern "C" __global__
void scale(float* data, float factor, size_t n) {
    size_t i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n)
        data[i] *= factor;
}
"""
scale = (
    Program(code, code_type="c++", options=ProgramOptions(arch=f"sm_{dev.arch}")).compile("cubin").get_kernel("scale")
)
stream = dev.create_stream()
n = 1024
config = LaunchConfig(grid=4, block=256)

# CuPy exposes its device pointer as .data.ptr
import cupy as cp  # noqa: E402

a = cp.ones(n, dtype=cp.float32)
dev.sync()  # CuPy fills "a" on its own stream; sync before our stream reads it
launch(stream, config, scale, a.data.ptr, np.float32(2.0), np.uint64(a.size))
stream.sync()
assert bool((a == 2).all())
# PyTorch: wrap torch's stream via the __cuda_stream__ protocol
import torch  # noqa: E402


class PyTorchStreamWrapper:
    def __init__(self, pt_stream):
        self.pt_stream = pt_stream

    def __cuda_stream__(self):
        return (0, self.pt_stream.cuda_stream)


t = torch.ones(n, dtype=torch.float32, device="cuda")
ts = dev.create_stream(PyTorchStreamWrapper(torch.cuda.current_stream()))
launch(ts, config, scale, t.data_ptr(), np.float32(2.0), np.uint64(t.numel()))
ts.sync()
assert torch.allclose(t, torch.full_like(t, 2.0))

from cuda.core.utils import StridedMemoryView, args_viewable_as_strided_memory  # noqa: E402


@args_viewable_as_strided_memory((0,))
def scale_array(arr, work_stream, kern, factor):
    view = arr.view(work_stream.handle)
    assert isinstance(view, StridedMemoryView)
    assert view.is_device_accessible
    size = view.shape[0]
    cfg = LaunchConfig(grid=(size + 255) // 256, block=256)
    launch(work_stream, cfg, kern, view.ptr, np.float32(factor), np.uint64(size))
    work_stream.sync()


# Works on a CuPy array, a PyTorch tensor, or anything else with DLPack/CAI:
buf = cp.ones(n, dtype=cp.float32)
dev.sync()
scale_array(buf, stream, scale, 2.0)
assert bool((buf == 2).all())
