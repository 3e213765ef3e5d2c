// SPDX-License-Identifier: Apache-2.0
// cuUserObject*: objects of the program that graphs keep alive.
#include <algorithm>

#include "cpu/device/guard.hpp"
#include "cpu/graph/graph.hpp"

using namespace cucpu::driver;

extern "C" {

CUresult cuUserObjectCreate(CUuserObject* out, void* data, CUhostFn destroy, unsigned int count,
                            unsigned int flags) {
  return guarded([&] {
    require(out && destroy && count > 0 && flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
    auto object = make_object<UserObject>(data, destroy);
    for (unsigned i = 0; i < count; ++i) object->retain();
    *out = object->publish_unowned();
  });
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  return guarded([&] {
    require(count > 0);
    UserObject& object = object_of<UserObject>(handle, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; ++i) object.retain();
  });
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  return guarded([&] {
    require(count > 0);
    UserObject& object = object_of<UserObject>(handle, CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; ++i) object.release();
  });
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned int count,
                                 unsigned int flags) {
  return guarded([&] {
    require(count > 0 && flags <= CU_GRAPH_USER_OBJECT_MOVE);
    Graph& g = graph_of(graph);
    UserObject& object = object_of<UserObject>(handle, CUDA_ERROR_INVALID_VALUE);
    const std::lock_guard lock{graph_mutex()};
    for (unsigned i = 0; i < count; ++i) {
      g.user_objects.emplace_back(&object);
      if (flags & CU_GRAPH_USER_OBJECT_MOVE) object.release();
    }
  });
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle, unsigned int count) {
  return guarded([&] {
    require(count > 0);
    Graph& g = graph_of(graph);
    UserObject& object = object_of<UserObject>(handle, CUDA_ERROR_INVALID_VALUE);
    const Ref<UserObject> keep{
        &object};  // the program's destructor must not run with the lock held
    const std::lock_guard lock{graph_mutex()};
    for (unsigned i = 0; i < count; ++i) {
      const auto at = std::find_if(g.user_objects.begin(), g.user_objects.end(),
                                   [&](const auto& r) { return r.get() == &object; });
      require(at != g.user_objects.end());
      g.user_objects.erase(at);
    }
  });
}

}  // extern "C"
