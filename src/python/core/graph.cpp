// SPDX-License-Identifier: Apache-2.0
// graph.cpp: cuda.core.graph.Graph, an executable graph.
#include "cucore/graph.hpp"

#include <chrono>
#include <optional>
#include <thread>

#include "driver/host_function.hpp"
#include "graph_support.hpp"
#include "py_buffer.hpp"
#include "py_graph_builder.hpp"
#include "submission.hpp"

namespace cucore::python {
namespace {

/// An executable graph. This object owns the objects that the nodes use. User objects of the driver
/// would cost more at every launch than the launch itself. Launches of one graph never overlap, so
/// all are complete when the last one is.
struct PyGraph {
  GraphOwners owners{};  // objects that the nodes use; before `graph`, which fills it
  Graph graph{};
  nb::object updates{};     // dict: node -> objects of its last update; null before the first
  Stream last{};            // the stream of the last launch
  bool is_exposed = false;  // other code has the handle and may launch it
  std::vector<std::pair<Event, nb::object>>
      retired{};  // replaced objects that a launch may still use

  PyGraph(const GraphDefinition& made_from, const GraphCompleteOptions& options) {
    WithoutGil release;
    graph = options.device_launch ? made_from.instantiate(options)  // launched by kernels, too
                                  : made_from.instantiate(options, owners);
  }
  PyGraph(PyGraph&&) = default;
  ~PyGraph() { close(); }

  /// Sets the objects that a node uses from the next launch on.
  void keep(std::size_t node, nb::handle things) {
    std::erase_if(retired, [](const auto& pair) { return !is_pending(pair.first); });
    if (!updates.is_valid()) updates = nb::dict();
    nb::dict all = nb::borrow<nb::dict>(updates);
    nb::object key = nb::int_(node);
    if (all.contains(key)) retire(all[key]);
    all[key] = things;
  }
  /// Retires the objects of all node updates: the whole graph has new parameters, so later launches
  /// do not use them.
  void clear_updates() {
    if (updates.is_valid()) retire(std::exchange(updates, nb::object{}));
  }
  void update(const GraphDefinition& source) {
    GraphOwners fresh;
    {
      WithoutGil release;
      graph.update(source, fresh);
    }
    GraphOwners old = std::exchange(owners, std::move(fresh));
    if (is_running()) keep_until_done(std::make_shared<GraphOwners>(std::move(old)));
    clear_updates();
  }
  void close() {
    if (graph.handle() == nullptr) return;
    clear_updates();
    for (auto& [event, things] : retired) {
      if (is_pending(event)) keep_until_done(keep_alive(std::move(things)));
    }
    retired.clear();
    GraphOwners old = std::move(owners);
    if (!old.empty() && is_running())
      keep_until_done(std::make_shared<GraphOwners>(std::move(old)));
    last = Stream{};
    // The destruction may wait for a callback that needs the GIL. During finalization there are no
    // callbacks, and the objects that the graph kept can be released only on this thread.
    std::optional<WithoutGil> release;
    if (Py_IsInitialized() != 0) release.emplace();
    graph.close();
  }

 private:
  static bool is_pending(const Event& event) noexcept {
    const detail::Waiting waiting{host_calls_are_pending()};
    return detail::query(event) == CUDA_ERROR_NOT_READY;
  }
  void retire(nb::object things) noexcept {
    if (last.is_closed()) return;
    try {
      Event done;
      {
        const detail::Waiting waiting{host_calls_are_pending()};
        if (last.is_capturing()) {  // rare, and a query would invalidate the capture: leaked
          (void)things.release();
          return;
        }
        done = last.record();
      }
      retired.emplace_back(std::move(done), std::move(things));
    } catch (const CUDAError&) {
      // The context is lost, and with it any launch that could use them.
    }
  }
  /// Returns whether the last launch may still use the owned objects.
  bool is_running() const {
    if (is_exposed && !interpreter_is_ending()) {  // may run on any stream: synchronize all
      WithoutGil release;
      (void)detail::synchronize_current_context();
    }
    if (last.is_closed()) return false;
    const detail::Waiting waiting{host_calls_are_pending()};
    if (detail::takes_part_in_capture(last)) return true;  // a query would invalidate the capture
    return detail::query(last) == CUDA_ERROR_NOT_READY;
  }
  /// During finalization: waits for a stream and returns whether it is idle. Python objects cannot
  /// be released later. A kernel that does not end must not block the exit of the process, so all
  /// graphs together wait for at most one second.
  static bool settles(StreamRef stream) {
    static std::chrono::milliseconds patience{1000};
    while (detail::query(stream) == CUDA_ERROR_NOT_READY) {
      if (patience.count() <= 0) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
      patience -= std::chrono::milliseconds{1};
    }
    return true;
  }
  /// Makes the driver release objects when the last launch is complete.
  void keep_until_done(std::shared_ptr<void> things) const {
    std::optional<detail::Waiting> waiting{host_calls_are_pending()};
    if (detail::takes_part_in_capture(last)) {  // rare, and not worth a node: leaked
      new std::shared_ptr<void>{std::move(things)};
      return;
    }
    const bool is_done = interpreter_is_ending() && settles(last);
    if (!is_done && detail::release_after(last, things)) return;
    waiting.reset();
    if (!is_done && !interpreter_is_ending()) {  // no event for the end of the launch: synchronize
      WithoutGil release;
      (void)detail::synchronize(last);
    }
    release_owner(new std::shared_ptr<void>{std::move(things)});
  }
};

// Exposes the objects that nodes use to the garbage collector, for callbacks that refer to their
// own graph.
int graph_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(nb::handle{self})) return 0;
  const PyGraph& graph = self_of<PyGraph>(self);
  for (const auto& owner : graph.owners) {
    if (const int stopped = visit_kept(owner, visit, arg); stopped != 0) return stopped;
  }
  Py_VISIT(graph.updates.ptr());
  for (const auto& [event, things] : graph.retired) Py_VISIT(things.ptr());
  return 0;
}
int graph_clear(PyObject* self) {
  PyGraph& graph = self_of<PyGraph>(self);
  graph.close();
  return 0;
}

/// Launches without the GIL, like launch_unlocked in launch.cpp.
[[gnu::noinline]] void launch_unlocked(Graph graph, Stream stream) {
  const WithoutGil release;
  graph.launch(stream);
}

PyObject* graph_launch(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<1> names{"stream"};
  std::array<PyObject*, 1> given;
  parse("launch", names, 1, 1, args, nargs, kwnames, given);
  Stream storage;
  const Stream& stream = stream_argument(given[0], "launch", storage);
  PyGraph& held = self_of<PyGraph>(self);
  const Graph& graph = held.graph;
  if (graph.handle() == nullptr) throw InvalidStateError("the graph is closed");
  // The first launch uploads the graph to the device, which may block.
  const bool is_first = held.last.handle() != stream.handle() || held.last.is_closed();
  constexpr unsigned kWeight = 8;  // a graph takes more of the queue than a kernel
  if (!is_first && may_keep_lock(stream.handle(), kWeight)) {
    graph.launch(stream);
    Py_RETURN_NONE;
  }
  const Stream before = std::exchange(held.last, stream);
  try {
    launch_unlocked(graph, stream);
  } catch (...) {
    self_of<PyGraph>(self).last = before;  // the stream on which it may still run
    throw;
  }
  Py_RETURN_NONE;
}

PyObject* graph_upload(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<1> names{"stream"};
  std::array<PyObject*, 1> given;
  parse("upload", names, 1, 1, args, nargs, kwnames, given);
  Stream storage;
  const Stream& stream = stream_argument(given[0], "upload", storage);
  {
    const Graph held_graph = self_of<PyGraph>(self).graph;  // another thread may close the objects
    const Stream held_stream = stream;
    WithoutGil release;
    held_graph.upload(held_stream);
  }
  Py_RETURN_NONE;
}

/// Returns the C++ definition of a GraphDefinition or of a finished GraphBuilder.
GraphDefinition definition_of(PyObject* source) {
  static PyObject* const name = PyUnicode_InternFromString("_def");
  if (is_graph_builder(source)) {
    if (const GraphBuilder& builder = native_builder(source); builder.is_built())
      return builder.built();
    throw nb::value_error(
        "update(): the graph builder has built no graph: it is closed, or end_building() was not "
        "called");
  }
  const nb::object native = nb::steal(PyObject_GetAttr(source, name));
  if (native.is_valid() && nb::isinstance<GraphDefinition>(native))
    return nb::cast<const GraphDefinition&>(native);
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "expected a GraphDefinition or a GraphBuilder, not %s",
               Py_TYPE(source)->tp_name);
  throw nb::python_error();
}

PyObject* graph_update(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  static const Names<1> names{"source"};
  std::array<PyObject*, 1> given;
  parse("update", names, 1, 1, args, nargs, kwnames, given);
  const GraphDefinition source = definition_of(given[0]);
  self_of<PyGraph>(self).update(source);
  Py_RETURN_NONE;
}

CUgraphExec exec_of(const PyGraph& graph) {
  if (graph.graph.handle() == nullptr) throw InvalidStateError("the graph is closed");
  return graph.graph.handle();
}

void bind_exec(nb::module_& m) {
  static PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&graph_traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(&graph_clear)},
                                {0, nullptr}};
  nb::class_<PyGraph> cls(
      m, "Graph", nb::is_weak_referenceable(), nb::type_slots(slots),
      "A graph ready to launch: made by GraphBuilder.complete() or "
      "GraphDefinition.instantiate().\n\n"
      "It keeps what its nodes use (buffers, kernels, callbacks), as long as it is open or a "
      "launch of it "
      "runs.\n\n"
      ">>> definition = GraphDefinition()\n"
      ">>> node = definition.memset(buffer, 7, buffer.size)\n"
      ">>> graph = definition.instantiate()\n"
      ">>> graph.launch(stream)\n"
      ">>> stream.sync()\n"
      ">>> graph[node].update(dst=buffer, value=8, width=buffer.size)  # for the launches to come\n"
      ">>> graph.close()");
  nb::setattr(cls, "__module__", nb::str("cuda.core.graph"));
  forbid_pickling<
      "a Graph cannot be pickled: it names memory and code of this process; pickle the "
      "kernels and the buffers, and build the graph where it runs">(cls);
  def_fast<alone<graph_launch>>(
      cls, "launch", "launch($self, stream)\n--\n\nRun the whole graph, ordered on a stream.");
  def_fast<alone<graph_upload>>(
      cls, "upload",
      "upload($self, stream)\n--\n\nMake the device ready, so that the first launch is as fast as "
      "the others.");
  cls.def("close", &PyGraph::close, nb::lock_self(), "Destroy the graph. Idempotent.");
  cls.def_prop_ro(
      "is_closed", [](const PyGraph& g) { return g.graph.handle() == nullptr; },
      "True after close().");
  cls.def_prop_ro(
      "handle",
      [](PyGraph& g) {
        g.is_exposed = true;
        return driver_object("CUgraphExec", number(g.graph.handle()));
      },
      "The driver's handle, for cuda.bindings.");
  def_fast<alone<graph_update>>(
      cls, "update",
      "update($self, source)\n--\n\nTake the parameters of a graph of the same shape over.");
  cls.def(
      "__getitem__",
      [](nb::handle self, nb::handle node) {
        static constinit Member executable_node{"cuda.core.graph", "_executable_node"};
        return (*executable_node)(self, node);
      },
      "node"_a);
  const auto node = [](const PyGraph& g, std::size_t handle) {
    return ExecutableNodeRef{exec_of(g), node_of(handle)};
  };
  cls.def("_set_kernel", [=](const PyGraph& g, std::size_t n, const PyLaunchConfig& config,
                             nb::handle kernel, nb::handle args) {
    with_arguments(kernel, args, [&](const Kernel& k, void** pointers) {
      node(g, n).set_kernel(config, k, pointers);
    });
  });
  cls.def("_set_memcpy", [=](const PyGraph& g, std::size_t n, const PyCopyEnd& dst,
                             const PyCopyEnd& src, const PyCopyExtent& extent) {
    const ExecutableNodeRef changed = node(g, n);
    const WithoutGil release;
    changed.set_memcpy(copy_end(dst), copy_end(src), copy_extent(extent));
  });
  cls.def("_set_memset",
          [=](const PyGraph& g, std::size_t n, std::size_t dst, unsigned value,
              unsigned element_size, std::size_t width, std::size_t height, std::size_t pitch) {
            const ExecutableNodeRef changed = node(g, n);
            const WithoutGil release;
            changed.set_memset(memset_of(dst, value, element_size, width, height, pitch));
          });
  cls.def(
      "_set_host",
      [=](const PyGraph& g, std::size_t n, nb::handle callable, std::size_t address,
          std::size_t data) {
        const ExecutableNodeRef changed = node(g, n);
        const HostNodeParams call = host_call(callable, address, data);
        const WithoutGil release;
        changed.set_host(call);
      },
      "node"_a, "callable"_a.none(), "address"_a, "data"_a);
  cls.def("_set_child", [=](const PyGraph& g, std::size_t n, const GraphDefinition& child) {
    const ExecutableNodeRef changed = node(g, n);
    const WithoutGil release;
    changed.set_child_graph(child);
  });
  cls.def("_set_event", [=](const PyGraph& g, std::size_t n, const Event& event) {
    const ExecutableNodeRef changed = node(g, n);
    const WithoutGil release;
    changed.set_event(event);
  });
  cls.def("_set_enabled", [=](const PyGraph& g, std::size_t n, bool on) {
    const ExecutableNodeRef changed = node(g, n);
    const WithoutGil release;
    changed.set_enabled(on);
  });
  cls.def("_is_enabled", [=](const PyGraph& g, std::size_t n) { return node(g, n).is_enabled(); });
  cls.def("_keep", &PyGraph::keep, "node"_a, "things"_a.none(), nb::lock_self());
  cls.def(
      "__eq__",
      [](const PyGraph& a, nb::handle other) -> nb::object {
        if (!nb::isinstance<PyGraph>(other)) return nb::steal(Py_NewRef(Py_NotImplemented));
        return nb::bool_(a.graph.handle() == nb::cast<const PyGraph&>(other).graph.handle());
      },
      "other"_a.none());
  cls.def("__hash__", [](const PyGraph& g) { return std::hash<void*>{}(g.graph.handle()) ^ 0x47; });
  cls.def("__repr__", [](const PyGraph& g) {
    if (g.graph.handle() == nullptr) return std::string{"<Graph closed>"};
    char text[64];
    std::snprintf(text, sizeof text, "<Graph handle=%#zx>", number(g.graph.handle()));
    return std::string{text};
  });
}

}  // namespace

GraphCompleteOptions complete_options(nb::handle options, Stream& upload) {
  GraphCompleteOptions read;
  if (options.is_none()) return read;
  static constinit Member type{"cuda.core.graph._options", "GraphCompleteOptions"};
  const nb::object given = options_of(options.ptr(), *type);
  const auto is_set = [&](const char* name) {
    const int truth = PyObject_IsTrue(nb::object{given.attr(name)}.ptr());
    if (truth < 0) throw nb::python_error();
    return truth != 0;
  };
  read.auto_free_on_launch = is_set("auto_free_on_launch");
  read.device_launch = is_set("device_launch");
  read.use_node_priority = is_set("use_node_priority");
  if (const nb::object stream = given.attr("upload_stream"); !stream.is_none()) {
    upload = stream_argument(stream.ptr(), "complete");
    read.upload_stream = upload;
    read.upload = true;
  }
  return read;
}

nb::object make_graph(const GraphDefinition& definition, const GraphCompleteOptions& options) {
  static const nb::handle type = nb::type<PyGraph>();
  nb::object graph = nb::inst_alloc(type);
  new (nb::inst_ptr<PyGraph>(graph)) PyGraph{definition, options};
  nb::inst_mark_ready(graph);
  return graph;
}

/// Runs a Python callable on a thread of the driver. Passes its exceptions to sys.unraisablehook.
void CUDA_CB call_python(void* data) {
  const cucore::detail::HostFunctionScope inside;
  const WithGil gil;
  if (!gil) return;
  run_or_sleep([data] {
    PyObject* result = PyObject_CallNoArgs(static_cast<PyObject*>(data));
    if (result == nullptr) PyErr_WriteUnraisable(static_cast<PyObject*>(data));
    Py_XDECREF(result);
    return 0;
  });
}

void bind_graph(nb::module_& m) {
  set_release_hook(&schedule_release);
  bind_exec(m);
}
CUCORE_BIND(kBindGraph, bind_graph)

}  // namespace cucore::python
