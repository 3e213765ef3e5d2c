// SPDX-License-Identifier: Apache-2.0
// object_code.cpp: cuda.core.ObjectCode.
#include "cucore/object_code.hpp"

#include <nanobind/stl/string.h>

#include <array>
#include <atomic>
#include <optional>

#include "code_arguments.hpp"
#include "keep_alive.hpp"
#include "py_kernel.hpp"
#include "support.hpp"
#include "values.hpp"

namespace cucore::python {

std::string text_argument(nb::handle object, const char* what) {
  if (PyUnicode_Check(object.ptr()) != 0) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (text == nullptr) throw nb::python_error();
    return {text, static_cast<std::size_t>(size)};
  }
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be str or bytes, not %s", what,
                 Py_TYPE(object.ptr())->tp_name);
    throw nb::python_error();
  }
  std::string bytes{static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len)};
  PyBuffer_Release(&view);
  return bytes;
}

SymbolMapping mapping_argument(nb::handle object) {
  SymbolMapping mapping;
  if (object.is_none()) return mapping;
  if (PyDict_Check(object.ptr()) == 0) {
    PyErr_Format(PyExc_TypeError, "symbol_mapping must be a dict of names, not %s",
                 Py_TYPE(object.ptr())->tp_name);
    throw nb::python_error();
  }
  for (auto [key, value] : nb::borrow<nb::dict>(object)) {
    mapping.emplace(text_argument(key, "a name in symbol_mapping"),
                    text_argument(value, "a symbol in symbol_mapping"));
  }
  return mapping;
}

namespace {

/// Returns whether a str is PTX source, which has a .version directive, and not a path.
bool is_ptx_text(std::string_view text) {
  return text.find(".version") != text.npos && text.find('\n') != text.npos;
}

ObjectCode from_module(CodeType type, nb::handle module, const std::string& name,
                       nb::handle symbol_mapping) {
  SymbolMapping mapping = mapping_argument(symbol_mapping);
  const bool is_text = PyUnicode_Check(module.ptr()) != 0;
  if (is_text || PyObject_HasAttrString(module.ptr(), "__fspath__") != 0) {
    if (is_text && type == CodeType::ptx) {
      std::string text = text_argument(module, "module");
      if (is_ptx_text(text)) return {type, std::move(text), name, std::move(mapping)};
    }
    nb::object path = nb::steal(PyOS_FSPath(module.ptr()));
    if (!path.is_valid()) throw nb::python_error();
    nb::object bytes =
        PyUnicode_Check(path.ptr()) != 0 ? nb::steal(PyUnicode_EncodeFSDefault(path.ptr())) : path;
    if (!bytes.is_valid()) throw nb::python_error();
    char* spelled = nullptr;
    if (PyBytes_AsStringAndSize(bytes.ptr(), &spelled, nullptr) < 0)  // contains a NUL
      throw nb::python_error();
    std::filesystem::path file{std::string{spelled}};
    if (!std::filesystem::exists(file)) {
      PyErr_Format(PyExc_FileNotFoundError, "there is no file '%s'%s", file.c_str(),
                   type == CodeType::ptx ? " (a str is a path, or PTX source with a .version line)"
                                         : " (a str is a path; pass code as bytes)");
      throw nb::python_error();
    }
    return {type, file, name, std::move(mapping)};
  }
  return {type, text_argument(module, "module"), name, std::move(mapping)};
}

template <CodeType type>
ObjectCode from(nb::handle module, const std::string& name, nb::handle symbol_mapping) {
  return from_module(type, module, name, symbol_mapping);
}

nb::object code_object(const ObjectCode& code) {
  if (code.file()) return nb::steal(PyUnicode_DecodeFSDefault(code.file()->c_str()));
  const std::string& bytes = code.code();
  return nb::bytes(bytes.data(), bytes.size());
}

PyObject* code_type(PyObject* self) {
  static std::atomic<PyObject*> names[8];  // indexed by type; never released
  const CodeType type = self_of<ObjectCode>(self).code_type();
  std::atomic<PyObject*>& name = names[static_cast<std::size_t>(type)];
  if (name.load() == nullptr) name = PyUnicode_InternFromString(code_type_name(type));
  return Py_XNewRef(name.load());
}

nb::dict mapping_object(const ObjectCode& code) {
  nb::dict mapping;
  for (const auto& [name, symbol] : code.symbol_mapping()) mapping[name.c_str()] = symbol.c_str();
  return mapping;
}

/// Returns the cached Python object: the kernel of this name, or the code if `name` is None. New
/// reference, or null.
PyObject* known(const ObjectCode& code, PyObject* name) {
  auto* dict = static_cast<PyObject*>(code.attachment());
  if (dict == nullptr) return nullptr;
  PyObject* found = nullptr;
#if PY_VERSION_HEX >= 0x030D0000
  if (PyDict_GetItemRef(dict, name, &found) < 0) throw nb::python_error();
#else
  found = PyDict_GetItemWithError(dict, name);
  if (found == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
  Py_XINCREF(found);
#endif
  return found;
}

/// Caches an object with the code, and returns the cached one: another thread may have been faster.
/// The cache has only kernels and the code, no objects of the user.
PyObject* keep(const ObjectCode& code, PyObject* name, const nb::object& made) {
  if (code.attachment() == nullptr) {
    code.attach({static_cast<void*>(nb::dict().release().ptr()),
                 [](void* dict) { release_reference(static_cast<PyObject*>(dict)); }});
  }
  auto* const dict = static_cast<PyObject*>(code.attachment());
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* kept = nullptr;
  if (PyDict_SetDefaultRef(dict, name, made.ptr(), &kept) < 0) throw nb::python_error();
  return kept;
#else
  PyObject* const kept = PyDict_SetDefault(dict, name, made.ptr());
  if (kept == nullptr) throw nb::python_error();
  return Py_NewRef(kept);
#endif
}

PyObject* code_property(PyObject* self) {
  const ObjectCode& code = self_of<ObjectCode>(self);
  if (PyObject* object = known(code, Py_None)) return object;
  return keep(code, Py_None, code_object(code));
}

/// get_kernel(name): returns the same Kernel object for the same name, cached with the code.
PyObject* get_kernel(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<1> names{"name"};
  std::array<PyObject*, 1> given;
  parse("get_kernel", names, 1, 1, args, nargs, kwnames, given);
  PyObject* name = given[0];
  if (PyUnicode_Check(name) == 0 && PyBytes_Check(name) == 0) {
    PyErr_Format(PyExc_TypeError, "name must be str or bytes, not %s", Py_TYPE(name)->tp_name);
    throw nb::python_error();
  }
  const ObjectCode& code = self_of<ObjectCode>(self);
  if (PyObject* kernel = known(code, name)) return kernel;
  const std::string wanted = text_argument(name, "name");
  if (wanted.find('\0') != wanted.npos) throw nb::value_error("the name holds a null character");
  std::optional<Kernel> kernel;
  {
    WithoutGil unlocked;  // the first kernel loads the code, and may compile it
    kernel = code.get_kernel(wanted);
  }
  return keep(code, name, wrap(PyKernel{*std::move(kernel)}));
}

nb::object restore(const std::string& type, nb::handle code, const std::string& name,
                   nb::handle mapping) {
  return wrap(from_module(code_type_of(type), code, name, mapping));
}

nb::object reduce(const ObjectCode& code) {
  // A function of a Python module, because pickle stores its name.
  nb::object restore = nb::module_::import_("cuda.core._module").attr("_object_code");
  return nb::make_tuple(restore, nb::make_tuple(code_type_name(code.code_type()), code_object(code),
                                                code.name(), mapping_object(code)));
}

}  // namespace

void bind_object_code(nb::module_& m) {
  auto c = nb::class_<ObjectCode>(
      m, "ObjectCode", nb::is_weak_referenceable(),
      "Compiled device code. It is loaded when a kernel is first asked "
      "for, and unloaded when the last "
      "ObjectCode and Kernel of it are gone.\n\n"
      ">>> ptx = Program('extern \"C\" __global__ void f() {}', 'c++').compile('ptx')\n"
      ">>> ObjectCode.from_ptx(ptx.code).get_kernel('f')\n"
      "<Kernel f>");
  forbid_new<"Program.compile(), or ObjectCode.from_ptx(), from_cubin() and the like">(c);
  const auto add = [&c](const char* name, auto function, const char* doc) {
    c.def_static(name, function, nb::arg("module"), nb::kw_only(), nb::arg("name") = "",
                 nb::arg("symbol_mapping").none() = nb::none(), doc);
  };
  add("from_ptx", &from<CodeType::ptx>,
      "PTX: bytes, source text with a .version line, or the path of a file.");
  add("from_cubin", &from<CodeType::cubin>, "A cubin: bytes, or the path of a file.");
  add("from_ltoir", &from<CodeType::ltoir>, "LTO-IR, to be linked: bytes, or the path of a file.");
  add("from_fatbin", &from<CodeType::fatbin>, "A fat binary: bytes, or the path of a file.");
  add("from_object", &from<CodeType::object>,
      "A host object file with device code, to be linked: bytes, or the path of a file.");
  add("from_library", &from<CodeType::library>,
      "A library of device code: bytes, or the path of a file. Loadable images load as they are.");
  c.def_static("_restore", &restore);
  def_fast<get_kernel>(c, "get_kernel",
                       "get_kernel($self, name)\n--\n\nThe kernel of this name; a name expression "
                       "of the compilation, or the symbol itself.");
  c.def("_kernel_later", [](const ObjectCode& code, std::string symbol) {
    return wrap(PyKernel{code.get_kernel_lazily(std::move(symbol))});
  });
  c.def(
      "get_module",
      [](const ObjectCode& code) {
        CUmodule module = nullptr;
        {
          WithoutGil unlocked;
          module = code.get_module();
        }
        return driver_object("CUmodule", reinterpret_cast<std::uintptr_t>(module));
      },
      "The CUmodule of this code in the current context.");
  def_get(c, "code", code_property, "The code as bytes, or the path it was given as.");
  def_get(c, "code_type", code_type, "\"ptx\", \"cubin\", \"ltoir\", ...");
  def_value(
      c, "name", [](const ObjectCode& code) { return code.name(); }, "The name given to it.");
  c.def_prop_ro("symbol_mapping", &mapping_object,
                "Names of the source, each with its symbol in the code.");
  c.def_prop_ro(
      "handle",
      [](const ObjectCode& code) {
        CUlibrary library = nullptr;
        {
          WithoutGil unlocked;
          library = code.lend_handle();
        }
        return driver_object("CUlibrary", reinterpret_cast<std::uintptr_t>(library));
      },
      "The CUlibrary; loads the code. The caller then decides when to unload it.");
  c.def(
      "__eq__",
      [](const ObjectCode& code, nb::handle other) -> nb::object {
        const ObjectCode* that = nullptr;
        if (!nb::try_cast(other, that) || that == nullptr) return nb::borrow(Py_NotImplemented);
        return nb::bool_(code == *that);
      },
      nb::arg("other").none(), nb::is_operator());
  c.def("__hash__",
        [](const ObjectCode& code) { return std::hash<const void*>{}(code.identity()); });
  c.def("__reduce__", &reduce);
  c.def("__repr__", [](const ObjectCode& code) {
    return std::string{"<ObjectCode "} + code_type_name(code.code_type()) +
           (code.name().empty() ? "" : " '" + code.name() + "'") + ">";
  });
  set_module(c);
}
CUCORE_BIND(kBindCode, bind_object_code)

}  // namespace cucore::python
