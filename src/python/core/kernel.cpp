// SPDX-License-Identifier: Apache-2.0
// kernel.cpp: cuda.core.Kernel and its occupancy; its attributes are in cuda/core/_module.py.
#include "cucore/kernel.hpp"

#include <nanobind/stl/string.h>

#include <cstring>
#include <functional>

#include "core/probe.hpp"
#include "cucore/launch.hpp"
#include "cucore/object_code.hpp"
#include "py_kernel.hpp"
#include "py_launch_config.hpp"
#include "support.hpp"
#include "values.hpp"

namespace cucore::python {
namespace {

nb::object of_module(const char* name) {
  return nb::module_::import_("cuda.core._module").attr(name);
}

/// Converts a handle: an int, or an object of cuda.bindings (ours or NVIDIA's) with __int__.
/// Rejects strings and fractions, which int() accepts too.
std::uintptr_t handle_argument(nb::handle object, const char* what) {
  nb::object number = PyIndex_Check(object.ptr()) != 0 ? nb::steal(PyNumber_Index(object.ptr()))
                      : nb::hasattr(object, "getPtr")  ? nb::steal(PyNumber_Long(object.ptr()))
                                                       : nb::object{};
  if (!number.is_valid()) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be an int or a cuda.bindings handle, not %s", what,
                 Py_TYPE(object.ptr())->tp_name);
    throw nb::python_error();
  }
  void* const address = PyLong_AsVoidPtr(number.ptr());
  if (address == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  return reinterpret_cast<std::uintptr_t>(address);
}

/// Returns the kernel's parameters. Loads the code, if necessary, without the GIL.
std::span<const ParamInfo> params_of(const Kernel& kernel) {
  if (const std::vector<ParamInfo>* known = kernel.known_params()) return *known;
  WithoutGil release;
  return kernel.params();
}

CUkernel handle_of(const Kernel& kernel) {
  WithoutGil release;
  return kernel.handle();
}

nb::object arguments_info(const PyKernel& kernel) {
  nb::object type = of_module("ParamInfo");
  nb::list list;
  for (const ParamInfo& info : params_of(kernel)) list.append(type(info.offset, info.size));
  return list;
}

/// Converts a size in bytes. Throws an error that names the argument.
std::size_t bytes_argument(nb::handle value, const char* what) {
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be an int, not %s", what, Py_TYPE(value.ptr())->tp_name);
    throw nb::python_error();
  }
  const std::size_t bytes = PyLong_AsSize_t(number.ptr());
  if (bytes == static_cast<std::size_t>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "%s must be at least 0 and below 2**64, not %R", what,
                 number.ptr());
    throw nb::python_error();
  }
  return bytes;
}

/// Returns the C function of a driver.CUoccupancyB2DSize, or null.
CUoccupancyB2DSize occupancy_function(nb::handle object) {
  const auto address = handle_argument(object, "dynamic_shared_memory_needed");
  if (address != 0 && !cucore::detail::is_executable(reinterpret_cast<const void*>(address))) {
    PyErr_Format(PyExc_ValueError,
                 "dynamic_shared_memory_needed: there is no function at %p; give the address of "
                 "a C function size_t (int block_size), or a callable",
                 reinterpret_cast<void*>(address));
    throw nb::python_error();
  }
  return reinterpret_cast<CUoccupancyB2DSize>(address);
}

/// `shared_memory`: a size in bytes, a callable that returns the size for a block size, or a
/// CUoccupancyB2DSize (ours or NVIDIA's).
nb::object max_potential_block_size(const KernelOccupancy& occupancy, nb::handle shared_memory,
                                    int limit) {
  constexpr const char* kWhat = "dynamic_shared_memory_needed";
  const char* const name = std::strrchr(Py_TYPE(shared_memory.ptr())->tp_name, '.');
  const bool is_address =
      std::strcmp(name != nullptr ? name + 1 : Py_TYPE(shared_memory.ptr())->tp_name,
                  "CUoccupancyB2DSize") == 0;
  std::function<std::size_t(int)> ask;
  std::size_t bytes = 0;
  if (is_address) {
    ask = occupancy_function(shared_memory);
  } else if (PyIndex_Check(shared_memory.ptr()) != 0) {
    bytes = bytes_argument(shared_memory, kWhat);
  } else if (PyCallable_Check(shared_memory.ptr()) != 0) {
    ask = [shared_memory](int block_size) {
      const WithGil gil;
      if (!gil) throw InvalidStateError("the interpreter is ending");
      const nb::object answer = shared_memory(block_size);
      return bytes_argument(answer, "what dynamic_shared_memory_needed() returns");
    };
  } else {
    PyErr_Format(PyExc_TypeError,
                 "%s must be an int, a callable that takes a block size and returns an int, or a "
                 "driver.CUoccupancyB2DSize, not %s",
                 kWhat, Py_TYPE(shared_memory.ptr())->tp_name);
    throw nb::python_error();
  }
  MaxPotentialBlockSize best{};
  {
    WithoutGil release;  // the callback may be a Python function
    best = ask ? occupancy.max_potential_block_size(ask, limit)
               : occupancy.max_potential_block_size(bytes, limit);
  }
  return of_module("MaxPotentialBlockSizeOccupancyResult")(best.min_grid_size, best.max_block_size);
}

template <int (KernelOccupancy::*query)(const CUlaunchConfig&) const>
int cluster_query(const KernelOccupancy& occupancy, const PyLaunchConfig& config,
                  nb::handle stream) {
  std::array<CUlaunchAttribute, 4> attributes;
  const CUlaunchConfig native =
      to_driver(config, stream_argument(stream.ptr(), "KernelOccupancy").handle(), attributes);
  WithoutGil release;
  return (occupancy.*query)(native);
}

nb::object reduce(const PyKernel& kernel) {
  const auto code = ObjectCode::of(kernel);
  if (!code)
    throw nb::type_error(
        "a Kernel made from a handle cannot be pickled: the code it belongs to is not known");
  return nb::make_tuple(of_module("_kernel_of"),
                        nb::make_tuple(wrap(ObjectCode{*code}), kernel.name().c_str()));
}

/// Returns the attributes, cached in this object. They refer to another Kernel object of the same
/// kernel, to avoid a reference cycle.
nb::object attributes_of(const PyKernel& kernel) {
  static constinit Member type{"cuda.core._module", "KernelAttributes"};
  return nb::object((*type)(wrap(PyKernel{static_cast<const Kernel&>(kernel)})));
}

}  // namespace

void bind_kernel(nb::module_& m) {
  auto occupancy =
      nb::class_<KernelOccupancy>(m, "KernelOccupancy",
                                  "Occupancy of a kernel on the current device.")
          .def("max_active_blocks_per_multiprocessor",
               &KernelOccupancy::max_active_blocks_per_multiprocessor, nb::arg("block_size"),
               nb::arg("dynamic_shared_memory_size"),
               "Return the maximum number of resident blocks per multiprocessor.")
          .def("max_potential_block_size", &max_potential_block_size,
               nb::arg("dynamic_shared_memory_needed").none(), nb::arg("block_size_limit"),
               "The block size that fills the device, and the least grid that does. A limit of 0 "
               "is none.")
          .def("available_dynamic_shared_memory_per_block",
               &KernelOccupancy::available_dynamic_shared_memory_per_block,
               nb::arg("num_blocks_per_multiprocessor"), nb::arg("block_size"),
               "Return the dynamic shared memory available per block, in bytes.")
          .def("max_potential_cluster_size",
               &cluster_query<&KernelOccupancy::max_potential_cluster_size>, nb::arg("config"),
               nb::kw_only(), nb::arg("stream") = nb::none(),
               nb::sig("def max_potential_cluster_size(self, config: LaunchConfig, *, stream: "
                       "object) -> int"),
               "Return the maximum cluster size of a launch configuration.")
          .def("max_active_clusters", &cluster_query<&KernelOccupancy::max_active_clusters>,
               nb::arg("config"), nb::kw_only(), nb::arg("stream") = nb::none(),
               nb::sig("def max_active_clusters(self, config: LaunchConfig, *, stream: object) -> "
                       "int"),
               "Return the maximum number of resident clusters on the device.");
  set_module(occupancy);
  forbid_new<"Kernel.occupancy">(occupancy);

  auto kernel =
      nb::class_<PyKernel>(m, "Kernel", nb::is_weak_referenceable(),
                           "A device function that can be launched. Comes from "
                           "ObjectCode.get_kernel(), and keeps its code loaded.\n\n"
                           ">>> kernel.num_arguments\n"
                           "2\n"
                           ">>> kernel.arguments_info[0]\n"
                           "ParamInfo(offset=0, size=8)\n"
                           ">>> kernel.attributes.max_threads_per_block() >= 32\n"
                           "True\n"
                           ">>> kernel.occupancy.max_active_blocks_per_multiprocessor(128, 0) > 0\n"
                           "True")
          .def_static(
              "from_handle",
              [](nb::handle handle, const ObjectCode* mod) {
                const auto raw = reinterpret_cast<CUkernel>(handle_argument(handle, "handle"));
                PyKernel made{Kernel::from_handle(raw, mod)};
                if (mod != nullptr && !made.is_of(*mod)) {
                  warn(
                      "Kernel.from_handle(): the kernel is not of the code given as mod; the code "
                      "it is of is used");
                }
                return made;
              },
              nb::arg("handle").none(), nb::arg("mod").none() = nb::none(),
              "Wrap a CUkernel made elsewhere; `mod` is kept loaded as long as the Kernel lives. "
              "A warning says that the kernel is of other code, which is kept then.")
          .def_prop_ro(
              "handle",
              [](const PyKernel& k) {
                return driver_object("CUkernel", reinterpret_cast<std::uintptr_t>(handle_of(k)));
              },
              "The CUkernel.")
          .def_prop_ro("arguments_info", &arguments_info,
                       "Offset and size of each argument in the parameter block.")
          .def("_attribute",
               [](const PyKernel& k, int attribute, int device) {
                 return k.attributes().on(device).get(static_cast<CUfunction_attribute>(attribute));
               })
          .def("_set_attribute",
               [](const PyKernel& k, int attribute, int device, int value) {
                 k.attributes().on(device).set(static_cast<CUfunction_attribute>(attribute), value);
               })
          .def(
              "__eq__",
              [](const PyKernel& k, nb::handle other) -> nb::object {
                const PyKernel* that = nullptr;
                if (!nb::try_cast(other, that) || that == nullptr)
                  return nb::borrow(Py_NotImplemented);
                return nb::bool_(k == *that);
              },
              nb::arg("other").none(), nb::is_operator())
          .def("__hash__", [](const PyKernel& k) { return std::hash<const void*>{}(handle_of(k)); })
          .def("__reduce__", &reduce)
          .def("__repr__", [](const PyKernel& k) {
            return "<Kernel " + (k.name().empty() ? std::string{"?"} : k.name()) + ">";
          });
  forbid_new<"ObjectCode.get_kernel() or Kernel.from_handle()">(kernel);
  def_value(
      kernel, "name", [](const PyKernel& k) { return k.name(); },
      "The kernel's symbol in its code (mangled for C++).");
  def_value(
      kernel, "num_arguments", [](const PyKernel& k) { return params_of(k).size(); },
      "Number of kernel parameters.");
  def_kept<PyKernel, &PyKernel::attributes_object, attributes_of>(
      kernel, "attributes", "What the compiler and the driver know about the kernel.");
  def_kept<PyKernel, &PyKernel::occupancy_object, [](const PyKernel& k) {
    return wrap(k.occupancy());
  }>(kernel, "occupancy", "How much of the kernel fits on the current device.");
  set_module(kernel);
}
CUCORE_BIND(kBindCode + 1, bind_kernel)

}  // namespace cucore::python
