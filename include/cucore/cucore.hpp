// SPDX-License-Identifier: Apache-2.0
// cucore/cucore.hpp: includes all headers of the library.
#pragma once

#include "cucore/buffer.hpp"               // IWYU pragma: export
#include "cucore/buffer_ref.hpp"           // IWYU pragma: export
#include "cucore/checkpoint.hpp"           // IWYU pragma: export
#include "cucore/container.hpp"            // IWYU pragma: export
#include "cucore/context.hpp"              // IWYU pragma: export
#include "cucore/copy.hpp"                 // IWYU pragma: export
#include "cucore/device.hpp"               // IWYU pragma: export
#include "cucore/device_resources.hpp"     // IWYU pragma: export
#include "cucore/dlpack.hpp"               // IWYU pragma: export
#include "cucore/driver.hpp"               // IWYU pragma: export
#include "cucore/embedded_code.hpp"        // IWYU pragma: export
#include "cucore/error.hpp"                // IWYU pragma: export
#include "cucore/event.hpp"                // IWYU pragma: export
#include "cucore/graph.hpp"                // IWYU pragma: export
#include "cucore/graph_builder.hpp"        // IWYU pragma: export
#include "cucore/graph_drawing.hpp"        // IWYU pragma: export
#include "cucore/graph_node.hpp"           // IWYU pragma: export
#include "cucore/graphics.hpp"             // IWYU pragma: export
#include "cucore/ipc.hpp"                  // IWYU pragma: export
#include "cucore/kernel.hpp"               // IWYU pragma: export
#include "cucore/launch.hpp"               // IWYU pragma: export
#include "cucore/linker.hpp"               // IWYU pragma: export
#include "cucore/location.hpp"             // IWYU pragma: export
#include "cucore/managed.hpp"              // IWYU pragma: export
#include "cucore/memory_resource.hpp"      // IWYU pragma: export
#include "cucore/object_code.hpp"          // IWYU pragma: export
#include "cucore/owned.hpp"                // IWYU pragma: export
#include "cucore/pathfinder.hpp"           // IWYU pragma: export
#include "cucore/program.hpp"              // IWYU pragma: export
#include "cucore/program_cache.hpp"        // IWYU pragma: export
#include "cucore/shared_buffer.hpp"        // IWYU pragma: export
#include "cucore/stream.hpp"               // IWYU pragma: export
#include "cucore/strided_memory_view.hpp"  // IWYU pragma: export
#include "cucore/system.hpp"               // IWYU pragma: export
#include "cucore/system_device.hpp"        // IWYU pragma: export
#include "cucore/system_events.hpp"        // IWYU pragma: export
#include "cucore/system_parts.hpp"         // IWYU pragma: export
#include "cucore/tensor_map.hpp"           // IWYU pragma: export
#include "cucore/texture.hpp"              // IWYU pragma: export
#include "cucore/typed_kernel.hpp"         // IWYU pragma: export
#include "cucore/virtual_memory.hpp"       // IWYU pragma: export
