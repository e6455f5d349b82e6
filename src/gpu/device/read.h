// One question to one GPU's driver, and its answer: what crosses between whoever wants readings and
// whoever may call the driver.
#pragma once

#include <cstdint>

#include <boost/describe.hpp>

#include "device/device.h"
#include "device/metric.h"

namespace gpuyard {

struct ReadRequest {
  std::uint64_t id = 0;  // chosen by the asker, given back with the answer
  DeviceId device;
  ProbeSet probes;
};
BOOST_DESCRIBE_STRUCT(ReadRequest, (), (id, device, probes))

struct ReadReply {
  std::uint64_t id = 0;
  DeviceId device;
  Sample sample;  // every row the probes fill
};
BOOST_DESCRIBE_STRUCT(ReadReply, (), (id, device, sample))

}  // namespace gpuyard
