// SPDX-License-Identifier: Apache-2.0
// buffer_hold.cpp: what keeps memory, events and textures that a graph, a capsule or a view uses.
#include "../type_table.hpp"
#include "py_buffer.hpp"

namespace cucore::python {

nb::object hold_memory(PyObject* buffer) {
  static constexpr const char* kName = "cuda.core.memory";
  const nb::ft_object_guard alone{nb::handle{buffer}};
  PyBuffer& value = open_buffer(buffer);
  PyObject* capsule = PyCapsule_New(buffer, kName, [](PyObject* self) {
    auto* held = static_cast<PyObject*>(PyCapsule_GetPointer(self, kName));
    end_view(held);
    Py_DECREF(held);
  });
  if (capsule == nullptr) throw nb::python_error();
  Py_INCREF(buffer);
  ++value.views;
  return nb::steal(capsule);
}

namespace {

/// What hold_memory() gives, for holders that the collector sees through: the owner of a buffer may
/// hold the graph that holds the buffer.
struct HeldMemory {
  explicit HeldMemory(PyObject* held) : buffer{nb::borrow(held)} {
    const nb::ft_object_guard alone{buffer};
    ++open_buffer(held).views;
  }
  HeldMemory(HeldMemory&& other) noexcept : buffer{std::move(other.buffer)} {}
  ~HeldMemory() { release(); }
  void release() noexcept {
    if (const nb::object held = std::move(buffer); held.is_valid()) end_view(held.ptr());
  }
  nb::object buffer;
};

int held_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(nb::handle{self})) Py_VISIT(self_of<HeldMemory>(self).buffer.ptr());
  return 0;
}

int held_clear(PyObject* self) {
  self_of<HeldMemory>(self).release();
  return 0;
}

/// How the objects of a type are held.
enum class HoldBy : unsigned char { reference, memory, elements, second_event, method };
TypeTable<HoldBy> held_types;

PyObject* hold_name() {
  static PyObject* const name = PyUnicode_InternFromString("_hold");  // textures, arrays
  return name;
}

[[gnu::noinline]] HoldBy look_at(nb::handle thing) {
  PyTypeObject* const type = Py_TYPE(thing.ptr());
  HoldBy by = buffer_of(thing.ptr()) != nullptr      ? HoldBy::memory
              : PyTuple_CheckExact(thing.ptr()) != 0 ? HoldBy::elements
              : nb::isinstance<Event>(thing)         ? HoldBy::second_event
              : PyObject_HasAttr(reinterpret_cast<PyObject*>(type), hold_name()) != 0
                  ? HoldBy::method
                  : HoldBy::reference;
  held_types.add(type, by);
  return by;
}

}  // namespace

bool is_held_memory_of(PyObject* held, PyObject* buffer) noexcept {
  static const nb::handle type = nb::type<HeldMemory>();
  return type.is(reinterpret_cast<PyObject*>(Py_TYPE(held))) &&
         self_of<HeldMemory>(held).buffer.is(nb::handle{buffer});
}

nb::object hold(nb::handle thing) {
  const HoldBy* const known = held_types.find(Py_TYPE(thing.ptr()));
  switch (known != nullptr ? *known : look_at(thing)) {
    case HoldBy::memory: {
      // What a graph allocates is freed by a node of the graph.
      const PyBuffer* const buffer = buffer_of(thing.ptr());
      const bool is_held = !buffer->buffer.is_closed() && buffer->capture == 0;
      return is_held ? wrap(HeldMemory{thing.ptr()}) : nb::borrow(thing);
    }
    case HoldBy::elements: {
      nb::list held;
      for (nb::handle element : nb::borrow<nb::tuple>(thing)) held.append(hold(element));
      return nb::tuple(held);
    }
    case HoldBy::second_event:  // a second owner of the driver's event
      return nb::make_tuple(thing, wrap(Event{self_of<Event>(thing.ptr())}));
    case HoldBy::method: {
      const nb::object method = nb::steal(
          PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(thing.ptr())), hold_name()));
      if (!method.is_valid()) throw nb::python_error();
      return nb::make_tuple(thing, method(thing));
    }
    case HoldBy::reference:
      break;
  }
  return nb::borrow(thing);
}

void bind_buffer_hold(nb::module_& m) {
  m.def("hold_memory", [](nb::handle buffer) { return hold_memory(buffer.ptr()); });
  static PyType_Slot held_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&held_traverse)},
                                     {Py_tp_clear, reinterpret_cast<void*>(&held_clear)},
                                     {0, nullptr}};
  nb::class_<HeldMemory>(m, "_HeldMemory", nb::type_slots(held_slots));
  m.def("hold", &hold, "thing"_a.none());
}
CUCORE_BIND(kBindMemory, bind_buffer_hold)

}  // namespace cucore::python
