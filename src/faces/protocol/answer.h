// The fields at the start of most API responses.
#pragma once

#include "base/record.h"

namespace gpuyard::protocol {

// 1 until a field changes its meaning or is removed.
inline constexpr int kSchemaVersion = 1;

struct AnswerHead {
  int schema = kSchemaVersion;
  bool simulated = false;  // the GPUs
};
BOOST_DESCRIBE_STRUCT(AnswerHead, (), (schema, simulated))

}  // namespace gpuyard::protocol
