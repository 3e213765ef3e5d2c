// SPDX-License-Identifier: Apache-2.0
// catalogue.cpp: the rows of the catalogue. A new component needs a row here and no other change.
#include "pathfinder/catalogue.hpp"

#include <algorithm>

namespace cucore::pathfinder {
namespace {

using enum Origin;

constexpr std::string_view kLib = "lib lib64";                    // conda
constexpr std::string_view kRootLib = "lib64 lib targets/@/lib";  // toolkit
constexpr std::string_view kInclude = "include targets/@/include";

// clang-format off
constexpr Entry kDynamicLibs[] = {
    {"cudart",     toolkit, "libcudart.so.13 libcudart.so.12",         "nvidia/cu13/lib nvidia/cuda_runtime/lib", kLib, kRootLib},
    {"nvfatbin",   toolkit, "libnvfatbin.so.13 libnvfatbin.so.12",     "nvidia/cu13/lib nvidia/nvfatbin/lib", kLib, kRootLib},
    {"nvJitLink",  toolkit, "libnvJitLink.so.13 libnvJitLink.so.12",   "nvidia/cu13/lib nvidia/nvjitlink/lib", kLib, kRootLib},
    {"nvrtc",      toolkit, "libnvrtc.so.13 libnvrtc.so.12",           "nvidia/cu13/lib nvidia/cuda_nvrtc/lib", kLib, kRootLib},
    {"nvvm",       toolkit, "libnvvm.so.4",                            "nvidia/cu13/lib nvidia/cuda_nvcc/nvvm/lib64",
     "nvvm/lib64 lib", "nvvm/lib64 nvvm/lib lib64 lib"},
    {"cublas",     toolkit, "libcublas.so.13 libcublas.so.12",         "nvidia/cu13/lib nvidia/cublas/lib", kLib, kRootLib, "cublasLt"},
    {"cublasLt",   toolkit, "libcublasLt.so.13 libcublasLt.so.12",     "nvidia/cu13/lib nvidia/cublas/lib", kLib, kRootLib},
    {"cufft",      toolkit, "libcufft.so.12 libcufft.so.11",           "nvidia/cu13/lib nvidia/cufft/lib", kLib, kRootLib},
    {"cufftw",     toolkit, "libcufftw.so.12 libcufftw.so.11",         "nvidia/cu13/lib nvidia/cufft/lib", kLib, kRootLib, "cufft"},
    {"curand",     toolkit, "libcurand.so.10",                         "nvidia/cu13/lib nvidia/curand/lib", kLib, kRootLib},
    {"cusolver",   toolkit, "libcusolver.so.12 libcusolver.so.11",     "nvidia/cu13/lib nvidia/cusolver/lib", kLib, kRootLib,
     "nvJitLink cusparse cublasLt cublas"},
    {"cusolverMg", toolkit, "libcusolverMg.so.12 libcusolverMg.so.11", "nvidia/cu13/lib nvidia/cusolver/lib", kLib, kRootLib,
     "nvJitLink cublasLt cublas"},
    {"cusparse",   toolkit, "libcusparse.so.12",                       "nvidia/cu13/lib nvidia/cusparse/lib", kLib, kRootLib, "nvJitLink"},
    {"nppc",       toolkit, "libnppc.so.13 libnppc.so.12",             "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib},
    {"nppial",     toolkit, "libnppial.so.13 libnppial.so.12",         "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nppicc",     toolkit, "libnppicc.so.13 libnppicc.so.12",         "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nppidei",    toolkit, "libnppidei.so.13 libnppidei.so.12",       "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nppif",      toolkit, "libnppif.so.13 libnppif.so.12",           "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nppig",      toolkit, "libnppig.so.13 libnppig.so.12",           "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nppim",      toolkit, "libnppim.so.13 libnppim.so.12",           "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nppist",     toolkit, "libnppist.so.13 libnppist.so.12",         "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nppisu",     toolkit, "libnppisu.so.13 libnppisu.so.12",         "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nppitc",     toolkit, "libnppitc.so.13 libnppitc.so.12",         "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"npps",       toolkit, "libnpps.so.13 libnpps.so.12",             "nvidia/cu13/lib nvidia/npp/lib", kLib, kRootLib, "nppc"},
    {"nvblas",     toolkit, "libnvblas.so.13 libnvblas.so.12",         "nvidia/cu13/lib nvidia/cublas/lib", kLib, kRootLib, "cublasLt cublas"},
    {"nvjpeg",     toolkit, "libnvjpeg.so.13 libnvjpeg.so.12",         "nvidia/cu13/lib nvidia/nvjpeg/lib", kLib, kRootLib},
    {"cupti",      toolkit, "libcupti.so.13 libcupti.so.12",           "nvidia/cu13/lib nvidia/cuda_cupti/lib", kLib,
     "extras/CUPTI/lib64 lib64 lib targets/@/lib"},
    {"cudla",      toolkit, "libcudla.so.1",                           "nvidia/cu13/lib", kLib, kRootLib},
    {"cufile",     toolkit, "libcufile.so.0",                          "nvidia/cu13/lib nvidia/cufile/lib", kLib, kRootLib},

    {"cublasmp",     other, "libcublasmp.so.0",      "nvidia/cublasmp/cu13/lib nvidia/cublasmp/cu12/lib nvidia/cu13/lib", kLib, kRootLib,
     "nvshmem_host cublasLt cublas"},
    {"cudnn",        other, "libcudnn.so.9",         "nvidia/cudnn/lib", kLib, kRootLib, "", "CUDNN_PATH CUDNN_HOME"},
    {"cudss",        other, "libcudss.so.1 libcudss.so.0", "nvidia/cu13/lib nvidia/cu12/lib", kLib, kRootLib},
    {"cufftMp",      other, "libcufftMp.so.12 libcufftMp.so.11", "nvidia/cu13/lib nvidia/cufftmp/cu12/lib", kLib, kRootLib, "nvshmem_host"},
    {"cusolverMp",   other, "libcusolverMp.so.0",    "nvidia/cu13/lib nvidia/cu12/lib", kLib, kRootLib, "nvJitLink cusparse cublasLt cublas cusolver"},
    {"cusparseLt",   other, "libcusparseLt.so.0",    "nvidia/cusparselt/lib nvidia/cu13/lib", kLib, kRootLib},
    {"cutensor",     other, "libcutensor.so.2",      "cutensor/lib nvidia/cutensor/lib", kLib, kRootLib, "cublasLt", "CUTENSOR_PATH CUTENSOR_ROOT"},
    {"cutensorMg",   other, "libcutensorMg.so.2",    "cutensor/lib nvidia/cutensor/lib", kLib, kRootLib, "cutensor", "CUTENSOR_PATH CUTENSOR_ROOT"},
    {"cutensorMp",   other, "libcutensorMp.so.0",    "cutensor/lib nvidia/cutensor/lib", kLib, kRootLib, "cutensor", "CUTENSOR_PATH CUTENSOR_ROOT"},
    {"custatevec",   other, "libcustatevec.so.1",    "cuquantum/lib", kLib, kRootLib, "cublasLt cublas", "CUQUANTUM_ROOT"},
    {"cutensornet",  other, "libcutensornet.so.2",   "cuquantum/lib", kLib, kRootLib, "cutensor nvJitLink cusparse cublasLt cublas cusolver", "CUQUANTUM_ROOT"},
    {"cudensitymat", other, "libcudensitymat.so.0",  "cuquantum/lib", kLib, kRootLib, "cutensor cutensornet", "CUQUANTUM_ROOT"},
    {"cupauliprop",  other, "libcupauliprop.so.0",   "cuquantum/lib", kLib, kRootLib, "", "CUQUANTUM_ROOT"},
    {"custabilizer", other, "libcustabilizer.so.0",  "cuquantum/lib", kLib, kRootLib, "", "CUQUANTUM_ROOT"},
    {"mathdx",       other, "libmathdx.so.0",        "nvidia/cu13/lib nvidia/cu12/lib", kLib, kRootLib},
    {"nccl",         other, "libnccl.so.2",          "nvidia/nccl/lib", kLib, kRootLib, "", "NCCL_HOME NCCL_PATH"},
    {"nvpl_fftw",    other, "libnvpl_fftw.so.0",     "nvpl/lib", kLib, "lib lib64", "", "NVPL_ROOT", "aarch64"},
    {"nvshmem_host", other, "libnvshmem_host.so.3",  "nvidia/nvshmem/lib", kLib, kRootLib, "", "NVSHMEM_HOME"},

    {"cuda",    driver, "libcuda.so.1",     "", "", ""},
    {"nvml",    driver, "libnvidia-ml.so.1", "", "", ""},
    {"nvcudla", driver, "libnvcudla.so",    "", "", ""},
};

constexpr Entry kHeaders[] = {
    {"cccl",      toolkit, "cuda/std/version",    "nvidia/cu13/include/cccl nvidia/cu13/include nvidia/cuda_cccl/include",
     "targets/@/include/cccl include/cccl targets/@/include include", "include/cccl targets/@/include/cccl include targets/@/include"},
    {"cublas",    toolkit, "cublas.h",            "nvidia/cu13/include nvidia/cublas/include",       kInclude, kInclude},
    {"cudart",    toolkit, "cuda_runtime.h",      "nvidia/cu13/include nvidia/cuda_runtime/include", kInclude, kInclude, "crt"},
    {"cufft",     toolkit, "cufft.h",             "nvidia/cu13/include nvidia/cufft/include",        kInclude, kInclude},
    {"curand",    toolkit, "curand.h",            "nvidia/cu13/include nvidia/curand/include",       kInclude, kInclude},
    {"cusolver",  toolkit, "cusolverDn.h",        "nvidia/cu13/include nvidia/cusolver/include",     kInclude, kInclude},
    {"cusparse",  toolkit, "cusparse.h",          "nvidia/cu13/include nvidia/cusparse/include",     kInclude, kInclude},
    {"npp",       toolkit, "npp.h",               "nvidia/cu13/include nvidia/npp/include",          kInclude, kInclude},
    {"profiler",  toolkit, "cuda_profiler_api.h", "nvidia/cu13/include nvidia/cuda_profiler_api/include", kInclude, kInclude},
    {"nvcc",      toolkit, "fatbinary_section.h", "nvidia/cu13/include nvidia/cuda_nvcc/include",    kInclude, kInclude},
    {"nvfatbin",  toolkit, "nvFatbin.h",          "nvidia/cu13/include nvidia/nvfatbin/include",     kInclude, kInclude},
    {"nvjitlink", toolkit, "nvJitLink.h",         "nvidia/cu13/include nvidia/nvjitlink/include",    kInclude, kInclude},
    {"nvjpeg",    toolkit, "nvjpeg.h",            "nvidia/cu13/include nvidia/nvjpeg/include",       kInclude, kInclude},
    {"nvrtc",     toolkit, "nvrtc.h",             "nvidia/cu13/include nvidia/cuda_nvrtc/include",   kInclude, kInclude},
    {"nvvm",      toolkit, "nvvm.h",              "nvidia/cu13/include nvidia/cuda_nvcc/nvvm/include",
     "nvvm/include include targets/@/include", "nvvm/include include targets/@/include"},
    {"cufile",    toolkit, "cufile.h",            "nvidia/cu13/include nvidia/cufile/include",       kInclude, kInclude},
    {"cudla",     toolkit, "cudla.h",             "nvidia/cu13/include",                             kInclude, kInclude},

    {"cudnn",        other, "cudnn.h",        "nvidia/cudnn/include",  kInclude, kInclude, "", "CUDNN_PATH CUDNN_HOME"},
    {"nccl",         other, "nccl.h",         "nvidia/nccl/include",   kInclude, kInclude, "", "NCCL_HOME NCCL_PATH"},
    {"cutensor",     other, "cutensor.h",     "cutensor/include nvidia/cutensor/include", kInclude, kInclude, "", "CUTENSOR_PATH CUTENSOR_ROOT"},
    {"cusparseLt",   other, "cusparseLt.h",   "nvidia/cusparselt/include nvidia/cu13/include", kInclude, kInclude},
    {"cusolverMp",   other, "cusolverMp.h",   "nvidia/cu13/include nvidia/cu12/include", kInclude, kInclude},
    {"custatevec",   other, "custatevec.h",   "cuquantum/include",     kInclude, kInclude, "", "CUQUANTUM_ROOT"},
    {"cutensornet",  other, "cutensornet.h",  "cuquantum/include",     kInclude, kInclude, "", "CUQUANTUM_ROOT"},
    {"cudensitymat", other, "cudensitymat.h", "cuquantum/include",     kInclude, kInclude, "", "CUQUANTUM_ROOT"},
    {"cupauliprop",  other, "cupauliprop.h",  "cuquantum/include",     kInclude, kInclude, "", "CUQUANTUM_ROOT"},
    {"custabilizer", other, "custabilizer.h", "cuquantum/include",     kInclude, kInclude, "", "CUQUANTUM_ROOT"},
    {"mathdx",       other, "libmathdx.h",    "nvidia/cu13/include nvidia/cu12/include", kInclude, kInclude},
    {"nvshmem",      other, "nvshmem.h",      "nvidia/nvshmem/include", kInclude, kInclude, "", "NVSHMEM_HOME"},
    {"cutlass",      other, "cutlass/cutlass.h", "cutlass_library/source/include nvidia/cutlass/include", kInclude, kInclude, "", "CUTLASS_PATH"},
    {"cute",         other, "cute/tensor.hpp",   "cutlass_library/source/include nvidia/cutlass/include", kInclude, kInclude, "", "CUTLASS_PATH"},
};

constexpr Entry kCompilerHeaders{"crt", toolkit, "crt/host_defines.h", "nvidia/cu13/include nvidia/cuda_nvcc/include", kInclude, kInclude};

constexpr Entry kStaticLibs[] = {
    {"cudadevrt", toolkit, "libcudadevrt.a", "nvidia/cu13/lib nvidia/cuda_runtime/lib", "lib targets/@/lib", kRootLib},
};

constexpr Entry kBitcodeLibs[] = {
    {"device",         toolkit, "libdevice.10.bc",      "nvidia/cu13/nvvm/libdevice nvidia/cuda_nvcc/nvvm/libdevice", "nvvm/libdevice", "nvvm/libdevice"},
    {"nccl_device",    other,   "libnccl_device.bc",    "nvidia/nccl/lib",    "lib", "lib", "", "NCCL_HOME NCCL_PATH"},
    {"nvshmem_device", other,   "libnvshmem_device.bc", "nvidia/nvshmem/lib", "lib", "lib", "", "NVSHMEM_HOME"},
};

constexpr std::string_view kNvccBin = "nvidia/cu13/bin nvidia/cuda_nvcc/bin";
constexpr Entry kBinaries[] = {
    {"nvcc",              toolkit, "nvcc",              kNvccBin, "bin", "bin"},
    {"ptxas",             toolkit, "ptxas",             kNvccBin, "bin", "bin"},
    {"nvdisasm",          toolkit, "nvdisasm",          "nvidia/cu13/bin nvidia/cuda_nvdisasm/bin", "bin", "bin"},
    {"cuobjdump",         toolkit, "cuobjdump",         "nvidia/cu13/bin nvidia/cuda_cuobjdump/bin", "bin", "bin"},
    {"nvprune",           toolkit, "nvprune",           "nvidia/cu13/bin nvidia/cuda_nvprune/bin", "bin", "bin"},
    {"fatbinary",         toolkit, "fatbinary",         kNvccBin, "bin", "bin"},
    {"bin2c",             toolkit, "bin2c",             kNvccBin, "bin", "bin"},
    {"nvlink",            toolkit, "nvlink",            kNvccBin, "bin", "bin"},
    {"cuda-gdb",          toolkit, "cuda-gdb",          "nvidia/cu13/bin", "bin", "bin"},
    {"cuda-gdbserver",    toolkit, "cuda-gdbserver",    "nvidia/cu13/bin", "bin", "bin"},
    {"compute-sanitizer", toolkit, "compute-sanitizer", "nvidia/cu13/bin nvidia/cuda_sanitizer_api/bin", "bin", "bin compute-sanitizer"},
    {"nvprof",            toolkit, "nvprof",            "nvidia/cu13/bin nvidia/cuda_nvprof/bin", "bin", "bin"},
    {"nsys",              toolkit, "nsys",              "nvidia/cu13/bin", "bin", "bin"},
    {"nsight-sys",        toolkit, "nsight-sys",        "nvidia/cu13/bin", "bin", "bin"},
    {"ncu",               toolkit, "ncu",               "nvidia/cu13/bin", "bin", "bin"},
    {"nsight-compute",    toolkit, "nsight-compute",    "nvidia/cu13/bin", "bin", "bin"},
};
// clang-format on

}  // namespace

std::span<const Entry> entries(Kind kind) {
  switch (kind) {
    case Kind::dynamic_lib:
      return kDynamicLibs;
    case Kind::headers:
      return kHeaders;
    case Kind::static_lib:
      return kStaticLibs;
    case Kind::bitcode_lib:
      return kBitcodeLibs;
    case Kind::binary:
      return kBinaries;
  }
  return {};
}

const Entry& compiler_headers() { return kCompilerHeaders; }

const Entry* find_entry(Kind kind, std::string_view name) {
  const auto rows = entries(kind);
  const auto row = std::ranges::find(rows, name, &Entry::name);
  return row == rows.end() ? nullptr : &*row;
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const auto end = std::min(list.find(' '), list.size());
    if (end != 0) words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

}  // namespace cucore::pathfinder
