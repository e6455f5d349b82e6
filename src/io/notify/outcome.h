// How one try to tell a sink ended, by what is to be done next.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"

namespace gpuyard::notify {

struct Outcome {
  enum class Kind {
    taken,    // the sink has it
    later,    // try again
    refused,  // trying again changes nothing
  };
  Kind kind = Kind::taken;
  std::string why = {};                // no secret; "" of what was taken
  std::optional<Duration> after = {};  // the receiver asked for so much patience

  static Outcome taken() { return {}; }
  static Outcome later(std::string why) { return {Kind::later, std::move(why)}; }
  static Outcome refused(std::string why) { return {Kind::refused, std::move(why)}; }
};

}  // namespace gpuyard::notify
