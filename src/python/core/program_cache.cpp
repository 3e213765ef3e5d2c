// SPDX-License-Identifier: Apache-2.0
// program_cache.cpp: the C++ side of the program caches; their Python classes are in
// cuda/core/_program_cache.py.
#include "cucore/program_cache.hpp"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "code_arguments.hpp"
#include "support.hpp"

namespace cucore::python {
namespace {

nb::bytes to_bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

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
  // The same for a program, whose options have been read already.
  m.def("_program_cache_key_of", [](const Program& program, nb::handle code, nb::handle target,
                                    const std::vector<std::string>& names) {
    return to_bytes(make_program_cache_key(text_argument(code, "code"), program.source_type(),
                                           program.options(), target_argument(target), names,
                                           std::nullopt));
  });
}
CUCORE_BIND(kBindCode + 4, bind_program_cache)

}  // namespace cucore::python
