// What went wrong with changes of settings that nobody waits for.
#pragma once

#include <optional>

#include "control/control.h"

namespace gpuyard::daemon {

// Of the request as a whole, or of the first GPU where it failed.
inline std::optional<Error> error_of(const Result<control::Control::Changes>& changes) {
  if (!changes) return changes.error();
  for (const control::Change& change : *changes) {
    if (change.error) return change.error;
  }
  return std::nullopt;
}

}  // namespace gpuyard::daemon
