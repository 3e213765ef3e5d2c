// SPDX-License-Identifier: Apache-2.0
// launch.cpp: cuda.core.LaunchConfig and cuda.core.launch.
#include "cucore/launch.hpp"

#include <atomic>
#include <cstring>
#include <type_traits>

#include "arguments.hpp"
#include "core/library.hpp"
#include "fast_path_types.hpp"
#include "py_kernel.hpp"
#include "py_launch_config.hpp"
#include "submission.hpp"
#include "support.hpp"
#include "values.hpp"

namespace cucore::python {

constinit FastPathTypes fast_path_types;

namespace {

template <class T>
PyTypeObject* type_of() {
  return reinterpret_cast<PyTypeObject*>(nb::type<T>().ptr());
}
template <class T>
std::int32_t value_offset() {
  const nb::object empty = nb::inst_alloc(nb::type<T>());
  return static_cast<std::int32_t>(reinterpret_cast<char*>(nb::inst_ptr<T>(empty)) -
                                   reinterpret_cast<char*>(empty.ptr()));
}

}  // namespace

void FastPathTypes::fill() {  // the types come last: objects that were made to look at them have no
                              // value
  stream_at = value_offset<Stream>();
  config_at = value_offset<PyLaunchConfig>();
  kernel_at = value_offset<PyKernel>();
  buffer_at = value_offset<PyBuffer>();
  allocation_fast_path.native_at = value_offset<Native>();
  stream_name = PyUnicode_InternFromString("stream");
  stream_type = type_of<Stream>();
  config_type = type_of<PyLaunchConfig>();
  kernel_type = type_of<PyKernel>();
  buffer_type = type_of<PyBuffer>();
}

namespace {

/// An int, or a tuple of one to three ints; missing ones are 1.
Dim3 dim3_argument(PyObject* object, const char* name) {
  unsigned values[3] = {1, 1, 1};
  const auto read = [&](PyObject* item, unsigned& out) {
    const long long value = PyLong_Check(item) != 0 ? PyLong_AsLongLong(item) : [&] {
      nb::object number = nb::steal(PyNumber_Index(item));
      if (!number.is_valid()) {
        PyErr_Clear();
        PyErr_Format(PyExc_ValueError,
                     "LaunchConfig: %s must be an int or a tuple of one to three ints, not %s",
                     name, Py_TYPE(object)->tp_name);
        throw nb::python_error();
      }
      return PyLong_AsLongLong(number.ptr());
    }();
    if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (value < 1 || value > 0x7fffffffLL) {
      PyErr_Format(PyExc_ValueError,
                   "LaunchConfig: %s must have values of at least 1 that fit in 31 bits, not %lld",
                   name, value);
      throw nb::python_error();
    }
    out = static_cast<unsigned>(value);
  };
  if (PyTuple_Check(object) != 0 || PyList_Check(object) != 0) {
    const bool is_tuple = PyTuple_Check(object) != 0;
    const Py_ssize_t n = is_tuple ? PyTuple_GET_SIZE(object) : PyList_GET_SIZE(object);
    if (n < 1 || n > 3) {
      PyErr_Format(PyExc_ValueError, "LaunchConfig: %s takes one to three dimensions, not %zd",
                   name, n);
      throw nb::python_error();
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
      read(is_tuple ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i), values[i]);
    }
  } else {
    read(object, values[0]);
  }
  return {values[0], values[1], values[2]};
}

bool truth(PyObject* object, bool fallback) {
  if (object == nullptr || object == Py_None) return fallback;
  const int value = PyObject_IsTrue(object);
  if (value < 0) throw nb::python_error();
  return value != 0;
}

unsigned shmem_argument(PyObject* object) {
  const std::size_t bytes = size_argument(object, "shmem_size");
  if (bytes > 0xffffffffu) {
    PyErr_Format(PyExc_ValueError, "LaunchConfig: shmem_size must fit in 32 bits, not %zu", bytes);
    throw nb::python_error();
  }
  return static_cast<unsigned>(bytes);
}

/// A cooperative launch has no clusters.
void check_cooperation(const LaunchConfig& config) {
  if (config.is_cooperative && config.cluster) {
    throw nb::value_error("LaunchConfig: a cooperative launch cannot have clusters");
  }
}

LaunchConfig parse_config(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<7> names{"grid",
                              "cluster",
                              "block",
                              "shmem_size",
                              "is_cooperative",
                              "programmatic_stream_serialization",
                              "cooperative_launch"};
  std::array<PyObject*, 7> given;
  parse("LaunchConfig", names, 6, 0, args, nargs, kwnames, given);
  LaunchConfig config;
  if (given[0] == nullptr || given[0] == Py_None || given[2] == nullptr || given[2] == Py_None) {
    throw nb::value_error(
        "LaunchConfig: grid and block are needed: LaunchConfig(grid=..., block=...)");
  }
  config.grid = dim3_argument(given[0], "grid");
  config.block = dim3_argument(given[2], "block");
  if (given[1] != nullptr && given[1] != Py_None)
    config.cluster = dim3_argument(given[1], "cluster");
  if (given[3] != nullptr && given[3] != Py_None) {
    config.shmem_size = shmem_argument(given[3]);
  }
  config.is_cooperative = truth(given[4], false) || truth(given[6], false);
  config.programmatic_stream_serialization = truth(given[5], false);
  check_cooperation(config);
  return config;
}

PyObject* config_call(PyObject* type, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  try {
    const LaunchConfig parsed = parse_config(args, PyVectorcall_NARGS(nargsf), kwnames);
    nb::object made = nb::inst_alloc(nb::handle{type});
    new (nb::inst_ptr<PyLaunchConfig>(made)) PyLaunchConfig{parsed};  // wrap() would move it
    nb::inst_mark_ready(made);
    return made.release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

nb::object tuple_of(const Dim3& d) {
  nb::object made = nb::steal(PyTuple_New(3));
  if (!made.is_valid()) throw nb::python_error();
  Py_ssize_t at = 0;
  for (const unsigned n : {d.x, d.y, d.z})
    PyTuple_SET_ITEM(made.ptr(), at++, PyLong_FromUnsignedLong(n));
  return made;
}

/// A shape as a tuple, which is made when first asked for.
template <nb::object PyLaunchConfig::*kept, Dim3 LaunchConfig::*shape>
nb::object get_shape(PyLaunchConfig& config) {
  if (!(config.*kept).is_valid()) config.*kept = tuple_of(config.*shape);
  return config.*kept;
}

/// A field that can be assigned.
struct Field {
  nb::object (*get)(PyLaunchConfig&);
  void (*set)(PyLaunchConfig&, PyObject* value);
};

PyObject* get_field(PyObject* self, void* closure) noexcept {
  try {
    const nb::ft_object_guard alone{nb::handle{self}};
    return static_cast<const Field*>(closure)->get(self_of<PyLaunchConfig>(self)).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

int set_field(PyObject* self, PyObject* value, void* closure) noexcept {
  try {
    if (value == nullptr) {
      PyErr_SetString(PyExc_AttributeError, "a field of a LaunchConfig cannot be deleted");
      return -1;
    }
    const nb::ft_object_guard alone{nb::handle{self}};
    static_cast<const Field*>(closure)->set(self_of<PyLaunchConfig>(self), value);
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

void def_field(nb::handle type, const char* name, const char* doc,
               nb::object (*get)(PyLaunchConfig&), void (*set)(PyLaunchConfig&, PyObject*)) {
  auto* definition = new PyGetSetDef{name, &get_field, &set_field, doc, new Field{get, set}};
  PyObject* made = PyDescr_NewGetSet(reinterpret_cast<PyTypeObject*>(type.ptr()), definition);
  if (made == nullptr) throw nb::python_error();
  nb::setattr(type, name, nb::steal(made));
}

PyObject* config_reduce(const LaunchConfig& c) {
  nb::object cluster = c.cluster ? tuple_of(*c.cluster) : nb::none();
  return nb::make_tuple(nb::type<PyLaunchConfig>(),
                        nb::make_tuple(tuple_of(c.grid), cluster, tuple_of(c.block), c.shmem_size,
                                       c.is_cooperative, c.programmatic_stream_serialization))
      .release()
      .ptr();
}

/// Without the lock: a full queue waits for the device, whose host callbacks need it. The copy of
/// the stream stays when another thread closes the object meanwhile. A kernel cannot be closed and
/// is not copied: threads that launch it would wait for each other to count references.
[[gnu::noinline]] void launch_unlocked(Stream stream, LaunchConfig config, const Kernel& kernel,
                                       void** arguments) {
  const WithoutGil release;
  launch_raw(stream, config, kernel, arguments);
}

/// A value of the usual kinds: where it lies, or null for one that needs a closer look. `taken`:
/// the usual_values() of the parameter. `room` has eight bytes.
[[gnu::always_inline]] inline void* usual_argument(PyObject* value, const ParamInfo& param,
                                                   unsigned taken, std::uint64_t* room) noexcept {
  PyTypeObject* const type = Py_TYPE(value);
  if (type == fast_path_types.buffer_type) {
    *room = value_at<PyBuffer>(value, fast_path_types.buffer_at).buffer.handle();
    return (taken & detail::kWord64) != 0 && *room != 0 ? room : nullptr;  // closed, or of no bytes
  }
  if (type == &PyLong_Type) {
    std::int64_t number = 0;
    if (!as_int64(value, &number)) return nullptr;
    const bool fits =
        (taken & detail::kWord64) != 0 || ((taken & detail::kWord32) != 0 && number >= INT32_MIN &&
                                           number <= static_cast<std::int64_t>(UINT32_MAX));
    *room = static_cast<std::uint64_t>(number);  // little endian: the low bytes come first
    return fits ? room : nullptr;
  }
  if (type == &PyFloat_Type) {
    const double number = PyFloat_AS_DOUBLE(value);
    if ((taken & detail::kFloat64) != 0) {
      std::memcpy(room, &number, sizeof number);
      return room;
    }
    if ((taken & detail::kFloat32) == 0) return nullptr;
    const auto narrow = static_cast<float>(number);
    std::memcpy(room, &narrow, sizeof narrow);
    return room;
  }
  const ValueType* const known = known_types.find(type);
  if (known == nullptr) return nullptr;
  if ((known->usual & taken) == 0) [[unlikely]] {  // of another size, or refused
    if (known->kind != ValueType::in_object || known->size != param.size ||
        !accepts(param.kind, *known))
      return nullptr;
  }
  return reinterpret_cast<char*>(value) + known->offset;
}

constexpr std::size_t kMostUsual = std::tuple_size_v<decltype(detail::KernelState::usual)>;

/// Arguments of the usual kinds for all parameters of a kernel. False where there are others.
[[gnu::always_inline]] inline bool usual_arguments(const detail::KernelState& state,
                                                   PyObject* const* args, std::size_t count,
                                                   void** pointers, std::uint64_t* rooms) noexcept {
  if (count > kMostUsual || !state.params_read.load(std::memory_order_acquire) ||
      state.params.size() != count)
    return false;
  const ParamInfo* const params = state.params.data();
  for (std::size_t i = 0; i < count; ++i) {
    pointers[i] = usual_argument(args[i], params[i], state.usual[i], &rooms[i]);
    if (pointers[i] == nullptr) return false;
  }
  return true;
}

/// The usual launch, all of it in one function that makes no other call but the driver's: objects
/// of our own classes, a kernel that has run in the stream's context, arguments of the usual kinds.
/// False when anything is not so, or the driver refuses: nothing has happened then, and the long
/// way does it or says what is wrong.
[[gnu::always_inline]] inline bool try_fast_launch(PyObject* const* args,
                                                   Py_ssize_t nargs) noexcept {
#ifdef Py_GIL_DISABLED  // another thread may close any of these
  return false;
#endif
  if (nargs < 3 || Py_TYPE(args[0]) != fast_path_types.stream_type ||
      Py_TYPE(args[1]) != fast_path_types.config_type ||
      Py_TYPE(args[2]) != fast_path_types.kernel_type)
    return false;
  const auto call = fast_path_types.launch.load(std::memory_order_relaxed);
  const auto& stream = value_at<Stream>(args[0], fast_path_types.stream_at);
  const auto& config = value_at<PyLaunchConfig>(args[1], fast_path_types.config_at);
  detail::KernelState& state = *value_at<PyKernel>(args[2], fast_path_types.kernel_at).state();
  if (call == nullptr || stream.is_closed() || config.cluster || config.is_cooperative ||
      config.programmatic_stream_serialization)
    return false;
  const detail::ContextFunction* const known = state.known(stream.context_id());
  if (known == nullptr || known->has_local_memory) return false;
  void* pointers[kMostUsual];
  std::uint64_t rooms[kMostUsual];
  if (!usual_arguments(state, args + 3, static_cast<std::size_t>(nargs - 3), pointers, rooms))
    return false;
  return may_keep_lock(stream.handle()) &&
         call(known->function, config.grid.x, config.grid.y, config.grid.z, config.block.x,
              config.block.y, config.block.z, config.shmem_size, stream.handle(), pointers,
              nullptr) == CUDA_SUCCESS;
}

/// Whether the code of a kernel is loaded in a context, so that capturing a launch does not wait.
bool is_loaded_in(const detail::KernelState& state, unsigned long long context) noexcept {
  return state.known(context) != nullptr ||
         (context != 0 && state.captured_in.load(std::memory_order_relaxed) == context);
}

/// The usual captured launch: objects of our own classes, a kernel whose code is loaded, arguments
/// of the usual kinds. None of these run Python code. False when anything is not so: nothing has
/// happened then. Throws where the driver refuses.
bool try_fast_capture(PyObject* const* args, Py_ssize_t nargs) {
  if (Py_TYPE(args[0]) == fast_path_types.stream_type ||
      Py_TYPE(args[1]) != fast_path_types.config_type ||
      Py_TYPE(args[2]) != fast_path_types.kernel_type)
    return false;
  const BuilderSlots builder = slots_of_open_builder(args[0]);
  const Stream* const stream = builder.stream != nullptr ? plain_stream(builder.stream) : nullptr;
  if (stream == nullptr || !may_keep_lock_in_capture()) return false;
  const Kernel& kernel = value_at<PyKernel>(args[2], fast_path_types.kernel_at);
  const detail::KernelState& state = *kernel.state();
  void* pointers[kMostUsual];
  std::uint64_t rooms[kMostUsual];
  if (!is_loaded_in(state, stream->context_id()) ||
      !usual_arguments(state, args + 3, static_cast<std::size_t>(nargs - 3), pointers, rooms))
    return false;
  detail::launch_kernel(*stream, value_at<PyLaunchConfig>(args[1], fast_path_types.config_at),
                        kernel, pointers);
  retain_in_list(builder.held, args + 2, nargs - 2);
  return true;
}

/// A captured launch. It names the kernel, not its function, so that the graph's nodes can be asked
/// for it. What it uses is kept in the list of the builder.
void capture_launch(const OpenBuilder& builder, const Stream& stream, const LaunchConfig& config,
                    const Kernel& kernel, PackedArguments& packed, PyObject* const* used,
                    Py_ssize_t count) {
  detail::KernelState& state = *kernel.state();
  const unsigned long long context = stream.context_id();
  if (is_loaded_in(state, context) && may_keep_lock_in_capture()) {
    detail::launch_kernel(stream, config, kernel, packed.pointers());
  } else {  // loading the code may wait
    const Stream held = stream;
    const WithoutGil release;
    detail::launch_kernel(held, config, kernel, packed.pointers());
    state.captured_in.store(context, std::memory_order_relaxed);
  }
  retain_in_list(builder.held.ptr(), used, count);
}

/// launch(stream, config, kernel, *kernel_args)
PyObject* launch_function(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  if (kwnames != nullptr && PyTuple_GET_SIZE(kwnames) != 0) {
    PyErr_SetString(
        PyExc_TypeError,
        "launch() takes no keyword arguments: launch(stream, config, kernel, *kernel_args)");
    return nullptr;
  }
  if (nargs < 3) {
    PyErr_Format(PyExc_TypeError, "launch() needs a stream, a LaunchConfig and a kernel; %zd given",
                 nargs);
    return nullptr;
  }
  if (try_fast_capture(args, nargs)) Py_RETURN_NONE;
  static PyTypeObject* const config_type =
      reinterpret_cast<PyTypeObject*>(nb::type<PyLaunchConfig>().ptr());
  if (!PyObject_TypeCheck(args[1], config_type)) {
    PyErr_Format(PyExc_TypeError, "launch(): config must be a LaunchConfig, not %s",
                 Py_TYPE(args[1])->tp_name);
    return nullptr;
  }
  static PyTypeObject* const kernel_type =
      reinterpret_cast<PyTypeObject*>(nb::type<PyKernel>().ptr());
  if (!PyObject_TypeCheck(args[2], kernel_type)) {
    PyErr_Format(PyExc_TypeError, "launch(): kernel must be a Kernel, not %s",
                 Py_TYPE(args[2])->tp_name);
    return nullptr;
  }
  const OpenBuilder builder = open_builder(args[0]);
  const Stream* const captured =
      builder.stream.is_valid() ? plain_stream(builder.stream.ptr()) : nullptr;
  Stream storage;
  const Stream& stream =
      captured != nullptr ? *captured : stream_argument(args[0], "launch", storage);
  const Kernel& kernel = self_of<PyKernel>(args[2]);
  PackedArguments packed;
  packed.pack(kernel, args + 3, static_cast<std::size_t>(nargs - 3));
  const LaunchConfig& config = self_of<PyLaunchConfig>(args[1]);
  if (captured != nullptr) {
    capture_launch(builder, stream, config, kernel, packed, args + 2, nargs - 2);
    Py_RETURN_NONE;
  }
  if (PyObject_TypeCheck(args[0], fast_path_types.stream_type)) [[likely]] {
    const detail::ContextFunction* const known = kernel.state()->known(stream.context_id());
    if (known != nullptr && !known->has_local_memory && may_keep_lock(stream.handle())) {
      detail::launch_function(stream, config, kernel, known->function, packed.pointers());
    } else {
      launch_unlocked(stream, config, kernel, packed.pointers());
    }
    // Stored once: all threads read this cache line in every launch.
    if (fast_path_types.launch.load(std::memory_order_relaxed) == nullptr) [[unlikely]]
      fast_path_types.launch.store(driver().cuLaunchKernel, std::memory_order_relaxed);
    Py_RETURN_NONE;
  }
  // What is captured names the kernel, so that the graph's nodes can be asked for it.
  if (is_graph_builder(args[0]) && kernel.state()->known(stream.context_id()) != nullptr &&
      may_keep_lock(stream.handle())) {
    detail::launch_kernel(stream, config, kernel, packed.pointers());
  } else {
    const Stream held = stream;
    const WithoutGil release;
    detail::launch_kernel(held, config, kernel, packed.pointers());
  }
  retain_in_graph(args[0], args + 2, nargs - 2);
  Py_RETURN_NONE;
}

[[gnu::noinline]] PyObject* launch_general(PyObject* const* args, Py_ssize_t nargs,
                                           PyObject* kwnames) noexcept {
  return guarded<launch_function>(nullptr, args, nargs, kwnames);
}

/// What Python calls. Flat: calls of small functions would take a sixth of the time of a launch
/// with many arguments.
[[gnu::flatten]] PyObject* launch_entry(PyObject*, PyObject* const* args, Py_ssize_t nargs,
                                        PyObject* kwnames) noexcept {
  if (kwnames == nullptr && try_fast_launch(args, nargs)) [[likely]]
    Py_RETURN_NONE;
  return launch_general(args, nargs, kwnames);
}

}  // namespace

void bind_launch(nb::module_& m) {
  nb::class_<PyLaunchConfig> cls(
      m, "LaunchConfig", nb::is_weak_referenceable(),
      CUCORE_POOLED
      "How many threads run a kernel: LaunchConfig(grid=..., block=...), ints or tuples.\n\n"
      "With a cluster, the grid counts clusters, a cluster blocks and a block threads.\n\n"
      ">>> LaunchConfig(grid=(4, 2), block=256)\n"
      "LaunchConfig(grid=(4, 2, 1), cluster=None, block=(256, 1, 1), shmem_size=0, "
      "is_cooperative=False)");
  set_module(cls);
  fast_path_types.fill();
  set_type_call(cls, config_call);
  // For classes derived from it: their objects are made before they are filled.
  cls.def("__init__", [](PyLaunchConfig* self, const nb::args& args, const nb::kwargs& kwargs) {
    const nb::object made = nb::type<PyLaunchConfig>()(*args, **kwargs);
    new (self) PyLaunchConfig(nb::cast<const PyLaunchConfig&>(made));
  });
  def_field(cls, "grid", "How many blocks, or clusters where there are some: (x, y, z).",
            get_shape<&PyLaunchConfig::grid_object, &LaunchConfig::grid>,
            [](PyLaunchConfig& c, PyObject* value) {
              c.grid = dim3_argument(value, "grid");
              c.grid_object.reset();
            });
  def_field(cls, "block", "How many threads a block has: (x, y, z).",
            get_shape<&PyLaunchConfig::block_object, &LaunchConfig::block>,
            [](PyLaunchConfig& c, PyObject* value) {
              c.block = dim3_argument(value, "block");
              c.block_object.reset();
            });
  def_field(
      cls, "cluster", "How many blocks a cluster has: (x, y, z); None without clusters.",
      [](PyLaunchConfig& c) { return c.cluster ? tuple_of(*c.cluster) : nb::none(); },
      [](PyLaunchConfig& c, PyObject* value) {
        LaunchConfig changed = c;
        changed.cluster.reset();
        if (value != Py_None) changed.cluster = dim3_argument(value, "cluster");
        check_cooperation(changed);
        c.cluster = changed.cluster;
      });
  def_field(
      cls, "shmem_size", "Bytes of dynamic shared memory per block.",
      [](PyLaunchConfig& c) -> nb::object { return nb::int_(c.shmem_size); },
      [](PyLaunchConfig& c, PyObject* value) { c.shmem_size = shmem_argument(value); });
  constexpr auto get_cooperative = [](PyLaunchConfig& c) -> nb::object {
    return nb::bool_(c.is_cooperative);
  };
  constexpr auto set_cooperative = [](PyLaunchConfig& c, PyObject* value) {
    LaunchConfig changed = c;
    changed.is_cooperative = truth(value, false);
    check_cooperation(changed);
    c.is_cooperative = changed.is_cooperative;
  };
  def_field(cls, "is_cooperative", "True when all blocks run at once and can wait for each other.",
            get_cooperative, set_cooperative);
  def_field(cls, "cooperative_launch", "The same as is_cooperative.", get_cooperative,
            set_cooperative);
  def_field(
      cls, "programmatic_stream_serialization",
      "True when the kernel may start before the one ahead of it on the stream has ended.",
      [](PyLaunchConfig& c) -> nb::object {
        return nb::bool_(c.programmatic_stream_serialization);
      },
      [](PyLaunchConfig& c, PyObject* value) {
        c.programmatic_stream_serialization = truth(value, false);
      });
  cls.def(
      "__eq__",
      [](const PyLaunchConfig& a, nb::handle other) -> nb::object {
        if (!nb::isinstance<PyLaunchConfig>(other)) return nb::steal(Py_NewRef(Py_NotImplemented));
        return nb::bool_(a == nb::cast<const PyLaunchConfig&>(other));
      },
      "other"_a.none());
  cls.def("__hash__", [](const PyLaunchConfig& c) {
    std::size_t h = 17;
    const auto mix = [&](std::size_t v) { h = h * 1000003 ^ v; };
    for (const Dim3& d : {c.grid, c.block, c.cluster.value_or(Dim3{0, 0, 0})}) {
      mix(d.x);
      mix(d.y);
      mix(d.z);
    }
    mix(c.shmem_size);
    mix(c.is_cooperative * 2u + c.programmatic_stream_serialization);
    return static_cast<Py_hash_t>(h >> 1);
  });
  cls.def("__repr__", [](const PyLaunchConfig& c) {
    const auto text = [](const Dim3& d) {
      // Not a sum: GCC 12 reports an overflow in it where headers are precompiled.
      return std::string{"("}
          .append(std::to_string(d.x))
          .append(", ")
          .append(std::to_string(d.y))
          .append(", ")
          .append(std::to_string(d.z))
          .append(")");
    };
    std::string out = "LaunchConfig(grid=" + text(c.grid);
    out += ", cluster=" + (c.cluster ? text(*c.cluster) : "None");
    out += ", block=" + text(c.block) + ", shmem_size=" + std::to_string(c.shmem_size);
    out += std::string{", is_cooperative="} + (c.is_cooperative ? "True" : "False");
    if (c.programmatic_stream_serialization) out += ", programmatic_stream_serialization=True";
    return nb::str((out + ")").c_str());
  });
  cls.def("__reduce__", [](const PyLaunchConfig& c) { return nb::steal(config_reduce(c)); });
  add_function(
      m, "launch", &launch_entry,
      "launch(stream, config, kernel, /, *kernel_args)\n--\n\n"
      "Start a kernel on a stream, or record it in a graph through a GraphBuilder.\n\n"
      "Arguments are checked against the kernel's parameters: buffers and ints are "
      "addresses, NumPy and ctypes\n"
      "scalars and structures go by value, bool, int, float and complex where the "
      "parameter's size fits them.\n"
      "Where the code tells what a parameter is (PTX, code compiled here, mangled C++ names), a "
      "value of another kind is\n"
      "refused: an int for a float parameter, or a float for an int.\n\n"
      ">>> launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer, 2)\n"
      ">>> launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer)\n"
      "Traceback (most recent call last):\n"
      "TypeError: kernel add_one takes 2 arguments, 1 was given: argument 1 (4 bytes) is missing");
}
CUCORE_BIND(kBindLaunch, bind_launch)

}  // namespace cucore::python
