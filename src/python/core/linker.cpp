// SPDX-License-Identifier: Apache-2.0
// linker.cpp: the C++ implementation of cuda.core.Linker and LinkerOptions (cuda/core/_linker.py).
#include "cucore/linker.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "code_arguments.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

/// Reads the fields of a LinkerOptions object; None leaves a field unchanged.
class Reader {
 public:
  explicit Reader(nb::handle object) : object_{object} {}

  void get(const char* name, std::optional<bool>& out) const {
    if (const nb::object value = object_.attr(name); !value.is_none()) {
      const int truth = PyObject_IsTrue(value.ptr());
      if (truth < 0) throw nb::python_error();
      out = truth != 0;
    }
  }
  void get(const char* name, std::optional<int>& out) const {
    if (const nb::object value = object_.attr(name); !value.is_none()) {
      const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
      if (!number.is_valid()) throw nb::python_error();
      out = nb::cast<int>(number);
    }
  }
  void get(const char* name, std::string& out) const {
    if (const nb::object value = object_.attr(name); !value.is_none())
      out = text_argument(value, name);
  }
  void get(const char* name, std::optional<std::string>& out) const {
    if (const nb::object value = object_.attr(name); !value.is_none())
      out = text_argument(value, name);
  }
  void get(const char* name, std::vector<std::string>& out) const {
    const nb::object value = object_.attr(name);
    if (value.is_none()) return;
    if (PyUnicode_Check(value.ptr()) != 0) {
      out = {text_argument(value, name)};
    } else {
      for (nb::handle one : value) out.push_back(text_argument(one, name));
    }
  }

 private:
  nb::handle object_;
};

}  // namespace

LinkerOptions linker_options_argument(nb::handle object) {
  LinkerOptions o;
  if (object.is_none()) return o;
  const Reader reader{object};
#define CUCORE_FIELD(name) reader.get(#name, o.name);
  CUCORE_FIELD(name)
  CUCORE_FIELD(arch)
  CUCORE_FIELD(max_register_count)
  CUCORE_FIELD(time)
  CUCORE_FIELD(verbose)
  CUCORE_FIELD(link_time_optimization)
  CUCORE_FIELD(ptx)
  CUCORE_FIELD(optimization_level)
  CUCORE_FIELD(debug)
  CUCORE_FIELD(lineinfo)
  CUCORE_FIELD(ftz)
  CUCORE_FIELD(prec_div)
  CUCORE_FIELD(prec_sqrt)
  CUCORE_FIELD(fma)
  CUCORE_FIELD(kernels_used)
  CUCORE_FIELD(variables_used)
  CUCORE_FIELD(optimize_unused_variables)
  CUCORE_FIELD(ptxas_options)
  CUCORE_FIELD(split_compile)
  CUCORE_FIELD(split_compile_extended)
  CUCORE_FIELD(no_cache)
  CUCORE_FIELD(numba_debug)
#undef CUCORE_FIELD
  return o;
}

void bind_linker(nb::module_& m) {
  nb::class_<Linker>(m, "_Linker")
      .def("__init__",
           [](Linker* self, const std::vector<ObjectCode>& inputs, nb::handle options) {
             LinkerOptions converted = linker_options_argument(options);
             WithoutGil unlocked;  // loads nvJitLink
             new (self) Linker{inputs, std::move(converted)};
           })
      .def("link",
           [](Linker& linker, nb::handle target) {
             const CodeType type = target_argument(target);
             std::optional<ObjectCode> code;
             {
               WithoutGil unlocked;
               code = linker.link(type);
             }
             return wrap(*std::move(code));
           })
      .def("get_error_log", &Linker::get_error_log)
      .def("get_info_log", &Linker::get_info_log)
      .def_prop_ro("handle",
                   [](const Linker& l) { return reinterpret_cast<std::uintptr_t>(l.handle()); })
      .def_prop_ro("backend", [](const Linker& l) { return backend_name(l.backend()); })
      .def_prop_ro("is_closed", &Linker::is_closed)
      .def("close", &Linker::close, nb::lock_self(), nb::call_guard<WithoutGil>());
  m.def("_linker_backend", [] {
    WithoutGil unlocked;
    return backend_name(Linker::which_backend());
  });
}
CUCORE_BIND(kBindCode + 3, bind_linker)

}  // namespace cucore::python
