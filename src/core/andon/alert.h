// An alert as the daemon keeps it: one time that one rule fired for one GPU, or for the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "gpu/device/device.h"

namespace gpuyard::andon {

enum class AlertState : std::uint8_t {
  firing,
  resolved,
};
BOOST_DESCRIBE_ENUM(AlertState, firing, resolved)

struct Acknowledgement {
  std::string by;
  std::string note;
  WallTime at{};

  friend bool operator==(const Acknowledgement&, const Acknowledgement&) = default;
};

struct Alert {
  std::uint64_t number = 0;  // from 1; no number is used twice
  std::string rule;
  DeviceId gpu;  // empty: the machine. `rule` and `gpu` identify an alert, not its values
  std::optional<std::uint32_t> index = {};  // of the GPU, when it was last seen
  std::string gpu_name = {};
  std::string pci_address = {};
  AlertState state = AlertState::firing;
  int severity = 0;  // of its current value
  double value = 0;
  std::string message = {};
  std::string advice = {};
  std::optional<std::uint32_t> xid = {};
  // The driver's text about that Xid; on the disk only as part of `message`.
  std::string driver_text = {};
  WallTime fired{};
  std::optional<WallTime> resolved = {};
  std::string end_reason = {};  // why it ended, unless it cleared
  std::optional<Acknowledgement> acknowledged = {};
  // The highest severity that sinks were notified of; empty if none was.
  std::optional<int> notified_severity = {};
  std::vector<std::string> notified_sinks = {};  // sinks to notify of its end
  bool simulated = false;

  friend bool operator==(const Alert&, const Alert&) = default;
};

// Returns the highest severity that the alert has, or that sinks were notified of.
int worst_severity(const Alert&);

// Returns "thermal/GPU-5f3c..." or "driver-down/node": the same each time this rule fires for this
// GPU.
std::string key_of(const Alert&);

// Returns the owner under which a rule claims settings of GPUs.
std::string owner_of_cap(std::string_view rule);
// Returns the rule of such an owner, or "" for any other owner.
std::string_view rule_of_owner(std::string_view owner);

}  // namespace gpuyard::andon
