// SPDX-License-Identifier: Apache-2.0
// program_cache.cpp: the C++ implementation of the program caches (cuda/core/_program_cache.py).
#include "cucore/program_cache.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "code_arguments.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

nb::bytes to_bytes(std::string_view text) { return nb::bytes(text.data(), text.size()); }

/// Adapts a Python cache, which may be a user's class with `get` and `__setitem__`. A read or write
/// error (OSError) becomes a warning, because the code can still be compiled.
class PythonCache final : public ProgramCache {
 public:
  explicit PythonCache(nb::handle cache) : cache_{cache} {}

  std::optional<std::string> get(std::string_view key) override {
    const nb::gil_scoped_acquire locked;
    try {
      const nb::object code = cache_.attr("get")(to_bytes(key));
      if (code.is_none()) return std::nullopt;
      const nb::object bytes = nb::steal(PyBytes_FromObject(code.ptr()));
      if (!bytes.is_valid()) throw nb::python_error();
      return std::string{PyBytes_AS_STRING(bytes.ptr()),
                         static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
    } catch (nb::python_error& error) {
      warn_or_rethrow(error, "read from");
      return std::nullopt;
    }
  }
  void put(std::string_view key, std::string_view code) override {
    const nb::gil_scoped_acquire locked;
    set(key, to_bytes(code));
  }
  void put_object(std::string_view key, const ObjectCode& object) override {
    const nb::gil_scoped_acquire locked;
    set(key, wrap(ObjectCode{object}));
  }
  bool erase(std::string_view) override { return false; }
  void clear() override {}
  [[nodiscard]] std::size_t size() const override { return 0; }

 private:
  void set(std::string_view key, nb::handle value) {
    try {
      const nb::bytes name = to_bytes(key);
      if (PyObject_SetItem(cache_.ptr(), name.ptr(), value.ptr()) < 0) throw nb::python_error();
    } catch (nb::python_error& error) {
      warn_or_rethrow(error, "written to");
    }
  }
  void warn_or_rethrow(nb::python_error& error, const char* what) const {
    if (!error.matches(PyExc_OSError)) throw;
    const nb::object text = nb::steal(PyUnicode_FromFormat(
        "compiled code could not be %s %R: %S", what, cache_.ptr(), error.value().ptr()));
    if (!text.is_valid()) throw nb::python_error();
    warn(nb::cast<std::string>(text).c_str());
  }

  nb::handle cache_;
};

/// compile(cache=...) -> (ObjectCode, log)
nb::object compile_with_cache(Program& program, nb::handle code, nb::handle target,
                              const std::vector<std::string>& names, nb::handle cache) {
  const CodeType type = target_argument(target);
  const std::string source = text_argument(code, "code");
  PythonCache with{cache};
  std::string log;
  std::optional<ObjectCode> made;
  {
    const WithoutGil unlocked;
    const std::string key =
        make_program_cache_key(source, program.source_type(), program.options(), type, names);
    made = compile_cached(with, program, key, type, names, &log);
  }
  return nb::make_tuple(wrap(*std::move(made)), text_of_log(log));
}

}  // namespace

void bind_program_cache(nb::module_& m) {
  nb::class_<ProgramCache>(m, "_ProgramCache")
      .def("get",
           [](ProgramCache& cache, nb::handle key) -> nb::object {
             const std::string name = text_argument(key, "key");
             std::optional<std::string> code;
             {
               WithoutGil unlocked;
               code = cache.get(name);
             }
             return code ? nb::object{to_bytes(*code)} : nb::none();
           })
      .def("put",
           [](ProgramCache& cache, nb::handle key, nb::handle code) {
             const std::string name = text_argument(key, "key");
             const ObjectCode* object = nullptr;
             const std::string bytes = nb::try_cast(code, object) && object != nullptr
                                           ? object->code()
                                           : text_argument(code, "value");
             WithoutGil unlocked;
             cache.put(name, bytes);
           })
      .def("erase",
           [](ProgramCache& cache, nb::handle key) {
             const std::string name = text_argument(key, "key");
             WithoutGil release;
             return cache.erase(name);
           })
      .def("clear", &ProgramCache::clear, nb::call_guard<WithoutGil>())
      .def("__len__", &ProgramCache::size);
  nb::class_<InMemoryProgramCache, ProgramCache>(m, "_InMemoryProgramCache")
      .def(nb::init<std::optional<std::uint64_t>>(), nb::arg("max_size_bytes").none());
  nb::class_<FileStreamProgramCache, ProgramCache>(m, "_FileStreamProgramCache")
      .def(nb::init<std::optional<std::filesystem::path>, std::optional<std::uint64_t>>(),
           nb::arg("path").none(), nb::arg("max_size_bytes").none())
      .def_prop_ro("folder", &FileStreamProgramCache::folder);
  m.def(
      "_program_cache_key",
      [](nb::handle code, const std::string& type, nb::handle options, nb::handle target,
         const std::vector<std::string>& names, nb::handle extra) {
        std::optional<std::string> digest;
        if (!extra.is_none()) digest = text_argument(extra, "extra_digest");
        return to_bytes(make_program_cache_key(text_argument(code, "code"), source_type_of(type),
                                               program_options_argument(options),
                                               target_argument(target), names, digest));
      },
      nb::arg("code"), nb::arg("code_type"), nb::arg("options"), nb::arg("target_type"),
      nb::arg("name_expressions"), nb::arg("extra_digest").none());
  m.def("compile_with_cache", &compile_with_cache);
}
CUCORE_BIND(kBindCode + 4, bind_program_cache)

}  // namespace cucore::python
