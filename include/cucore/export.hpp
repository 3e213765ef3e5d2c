// cucore/export.hpp: marks what libcucore.so exports; everything else in it is hidden.
#pragma once

#define CUCORE_EXPORT __attribute__((visibility("default")))
