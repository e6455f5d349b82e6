// GPUYARD_TRY: the value of a Result, or its error returned from the function around it.
//
//   const auto limits = GPUYARD_TRY(device.power_limits());
//   GPUYARD_TRY(socket.listen());
//
// A statement expression, which g++ and clang have and the standard has not (decision 019). It
// stands alone or initialises a variable: as a part of a larger expression it would return from its
// middle. A coroutine cannot use it, because a coroutine has no `return`.
#pragma once

#include <utility>

#include "base/result.h"

namespace gpuyard {

template <class T>
T take_value(Result<T>&& result) {
  return *std::move(result);
}
inline void take_value(Result<void>&&) {}

}  // namespace gpuyard

#define GPUYARD_TRY(...)                                         \
  ({                                                             \
    auto gpuyard_tried = (__VA_ARGS__);                          \
    if (!gpuyard_tried) return std::move(gpuyard_tried).error(); \
    ::gpuyard::take_value(std::move(gpuyard_tried));             \
  })
