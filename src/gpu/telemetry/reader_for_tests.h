// A driver that refuses every query, for tests that need none of its answers.
#pragma once

#include "gpu/telemetry/telemetry.h"

namespace gpuyard::telemetry {

class NoReader final : public Reader {
  bool read(const ReadRequest&) override { return false; }
};

}  // namespace gpuyard::telemetry
