// The setter: the only process of a daemon that changes GPUs, and the only one that needs a right
// for it. It reads nothing that strangers send. From its daemon it takes records of one size
// (setter_record.h), and it refuses a value beyond the driver's range or the administrator's
// bounds, a change beyond the rate of a GPU, and one that its log has no room for. A change that
// restores an earlier value waits for its turn, and is not refused for the log.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "gpu/driver/change_log.h"
#include "gpu/driver/driver_host.h"

namespace gpuyard::driver {

struct SetterPolicy {
  // Bounds of the power limit, in milliwatts, within the driver's range.
  std::optional<std::int64_t> lowest_mw = {};
  std::optional<std::int64_t> highest_mw = {};
  std::int64_t changes_a_minute = kDefaultChangesPerMinute;  // of each GPU

  static constexpr std::int64_t kDefaultChangesPerMinute = 240;
};

struct SetterOptions {
  SetterPolicy policy;
  std::string log;      // the file of the log of changes
  std::string version;  // of this program: a daemon of another version does not use the setter
};

// Serves one daemon until it closes its end. Sends Hello first, with a descriptor of this process,
// by which a daemon that did not start it sees its end; without a driver, Hello says why and the
// setter ends.
void serve_setter(UniqueFd socket, const MakeBackend&, const SetterOptions&);
// Says in a Hello why this process cannot be a setter.
void send_refusal(int socket, const Error& why, const std::string& version);

// Returns Errc::invalid for a power limit beyond the administrator's bounds.
Result<void> check_bounds(const SetterPolicy&, const Setting&);
// Describes the bounds that `range`, the driver's, does not contain, and what follows: those beyond
// it have no effect, and one that leaves nothing of it allows no power limit. "": all are within.
std::string unusable_bounds(const SetterPolicy&, const SettingValue& range);

}  // namespace gpuyard::driver
