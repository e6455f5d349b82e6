// The result of one change of one GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "gpu/device/device.h"
#include "gpu/device/setting.h"

namespace gpuyard::control {

enum class ChangeOutcome : std::uint8_t {
  applied,         // and read back
  assumed,         // the driver took it; it cannot be read back
  pending_reboot,  // in force from the next reset or reboot on
  held,            // another owner's lower power limit stays in force, and this claim waits
  restored,        // to the claims of others, or to the baseline
  drifted,         // not restored, and left alone: another program has changed it meanwhile
  cleared,         // the counters are 0
  reset,           // the GPU was reset
  planned,         // a dry run: nothing was changed
  queued,          // not done yet: the caller did not wait
  rolled_back,     // it worked here, but not on another GPU
  failed,          // `error` says why
};
BOOST_DESCRIBE_ENUM(ChangeOutcome, applied, assumed, pending_reboot, held, restored, drifted,
                    cleared, reset, planned, queued, rolled_back, failed)

struct ChangeResult {
  DeviceId gpu;
  std::optional<std::uint32_t> index = {};
  std::string operation_id = {};         // its id
  std::optional<SettingKind> kind = {};  // empty for clearing and resetting
  ChangeOutcome outcome = ChangeOutcome::failed;
  std::optional<Setting> before = {};
  std::optional<Setting> after = {};      // in force now; for a dry run, what would be
  std::optional<std::string> owner = {};  // of the claim in force
  std::optional<WallTime> until = {};     // when that claim expires
  std::optional<Error> error = {};
};

}  // namespace gpuyard::control
