"""Sample a small picture through a texture: the hardware interpolates, wraps and converts."""

from __future__ import annotations

import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
from cuda.core.texture import OpaqueArrayOptions, ResourceDescriptor, TextureObjectOptions

SOURCE = r"""
// Enlarges the picture: each thread samples a point between the pixels.
extern "C" __global__ void enlarge(cudaTextureObject_t picture, float* out, int width, int height) {
  const int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y;
  if (x < width) out[y * width + x] = tex2D<float>(picture, (x + 0.5f) / width, (y + 0.5f) / height);
}
"""


def main() -> None:
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("enlarge")

    picture = np.array([[0, 64, 128, 255]] * 4, np.uint8)
    array = device.create_opaque_array(OpaqueArrayOptions(shape=(4, 4), format="uint8", num_channels=1))
    array.copy_from(picture, stream=stream)
    options = TextureObjectOptions(
        address_mode="clamp",  # beyond the edge lies the edge
        filter_mode="linear",  # a point between pixels is a mix of four
        read_mode="normalized_float",  # 0..255 reads as 0..1
        normalized_coords=True,  # coordinates of the picture are 0 to 1
    )
    resource = ResourceDescriptor.from_opaque_array(array)
    width, height = 32, 8
    result = np.empty((height, width), np.float32)
    with (
        device.create_texture_object(resource=resource, options=options) as texture,
        device.allocate(result.nbytes, stream=stream) as out,
    ):
        launch(
            stream, LaunchConfig(grid=(1, height), block=width), kernel, texture, out, np.int32(width), np.int32(height)
        )
        out.copy_to(result, stream=stream)
        stream.sync()

    # The same mix on the host: 8 bits of fraction is what texture units keep.
    points = (np.arange(width) + 0.5) / width * 4 - 0.5
    expected = np.interp(points, np.arange(4), picture[0] / 255)
    assert np.abs(result - expected).max() < 1 / 256
    print(f"{device.name}: one row of the enlarged picture:", " ".join(f"{value:.2f}" for value in result[0, ::4]))


if __name__ == "__main__":
    main()
