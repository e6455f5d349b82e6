// A driver that takes no question: for tests of what does not come from it.
#pragma once

#include "telemetry/telemetry.h"

namespace gpuyard::telemetry {

class NoReader final : public Reader {
  bool read(const ReadRequest&) override { return false; }
};

}  // namespace gpuyard::telemetry
