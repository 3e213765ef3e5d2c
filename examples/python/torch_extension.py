"""A kernel of your own as a PyTorch function, with its gradient, on PyTorch's memory and PyTorch's stream.

Needs PyTorch with CUDA and a GPU; says so and ends where there is none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from cuda.core import Device, Kernel, LaunchConfig, Program, ProgramOptions, launch

try:
    import torch
except ImportError:
    torch = None

SOURCE = r"""
template <typename T>
__global__ void softsign(const T* x, T* y, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) y[i] = x[i] / (T(1) + abs(x[i]));
}
template <typename T>
__global__ void softsign_gradient(const T* x, const T* of_y, T* of_x, size_t n) {
  size_t i = threadIdx.x + size_t{blockIdx.x} * blockDim.x;
  if (i < n) of_x[i] = of_y[i] / ((T(1) + abs(x[i])) * (T(1) + abs(x[i])));
}
"""


@lru_cache
def kernel(name: str, ctype: str, device_id: int) -> Kernel:
    options = ProgramOptions(std="c++17", arch=f"sm_{Device(device_id).arch}")
    wanted = f"{name}<{ctype}>"
    return Program(SOURCE, "c++", options).compile("cubin", name_expressions=(wanted,)).get_kernel(wanted)


class TorchStream:
    """PyTorch's current stream, by the protocol that `launch` understands."""

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, torch.cuda.current_stream().cuda_stream


def call(name: str, *arguments: Any) -> Any:
    tensors = [tensor.contiguous() for tensor in arguments]
    result = torch.empty_like(tensors[0])
    ctype = {torch.float32: "float", torch.float64: "double"}[result.dtype]
    n = result.numel()
    device = Device(result.device.index)
    device.set_current()  # gradients are computed on a thread of PyTorch's own
    stream = device.create_stream(TorchStream())
    config = LaunchConfig(grid=(n + 255) // 256, block=256)
    pointers = [tensor.data_ptr() for tensor in (*tensors, result)]
    launch(stream, config, kernel(name, ctype, device.device_id), *pointers, n)
    return result


def main() -> None:
    if torch is None or not torch.cuda.is_available():
        print("skipped: PyTorch with CUDA is not here")
        return

    class Softsign(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return call("softsign", x)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return call("softsign_gradient", ctx.saved_tensors[0], gradient)

    x = torch.randn(1000, dtype=torch.float64, device="cuda", requires_grad=True)
    y = Softsign.apply(x)
    assert torch.allclose(y, torch.nn.functional.softsign(x))
    few = torch.randn(20, dtype=torch.float64, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(Softsign.apply, (few,))
    print(f"{torch.cuda.get_device_name()}: value and gradient agree with PyTorch's")


if __name__ == "__main__":
    main()
