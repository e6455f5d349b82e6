// Why there is no value.
#pragma once

#include <cstdint>
#include <string>

#include <boost/describe.hpp>

namespace gpuyard {

enum class MissingReason : std::uint8_t {
  not_supported,  // this GPU or driver does not report it
  no_permission,
  device_lost,  // the GPU fell off the bus or wants a reset
  driver_gone,  // the driver was unloaded or replaced under us: only a new session helps
  timed_out,    // the driver call did not come back by our deadline
  not_ready,    // nothing has been read yet
  failed,       // the driver said something else; detail has its words
};
BOOST_DESCRIBE_ENUM(MissingReason, not_supported, no_permission, device_lost, driver_gone,
                    timed_out, not_ready, failed)

struct Missing {
  MissingReason reason = MissingReason::not_ready;
  std::string detail;  // for people, e.g. the driver's error text

  friend bool operator==(const Missing&, const Missing&) = default;
};
BOOST_DESCRIBE_STRUCT(Missing, (), (reason, detail))

// "GPU is lost" or, without a detail, the reason's own words.
std::string describe(const Missing&);

}  // namespace gpuyard
