// An alert as the daemon keeps it: one time that one rule fired for one GPU, or for the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "device/device.h"

namespace gpuyard::andon {

enum class State : std::uint8_t {
  firing,
  resolved,
};
BOOST_DESCRIBE_ENUM(State, firing, resolved)

struct Acknowledgement {
  std::string by;
  std::string note;
  WallTime at{};

  friend bool operator==(const Acknowledgement&, const Acknowledgement&) = default;
};

struct Alert {
  std::uint64_t number = 0;  // from 1; no two ever have the same
  std::string rule;
  DeviceId gpu;  // empty: the machine. With `rule` what it is, whatever its values are
  std::optional<std::uint32_t> index = {};  // of the GPU, when it was seen last
  std::string gpu_name = {};
  std::string pci_address = {};
  State state = State::firing;
  int severity = 0;  // by its value now
  double value = 0;
  std::string message = {};
  std::string advice = {};
  std::optional<std::uint32_t> xid = {};
  WallTime fired{};
  std::optional<WallTime> resolved = {};
  std::string ending = {};  // why, where it is not that it cleared
  std::optional<Acknowledgement> acknowledged = {};
  // The highest severity that sinks were told of; nothing: none was.
  std::optional<int> told = {};
  std::vector<std::string> heard_by = {};  // sinks that hear of its end
  bool simulated = false;

  friend bool operator==(const Alert&, const Alert&) = default;
};

// As bad as it ever was told to be, or is.
int worst_severity(const Alert&);

// "thermal/GPU-5f3c...", "driver-down/node": the same each time this rule fires for this GPU.
std::string key_of(const Alert&);

// What is set of GPUs because of a rule is claimed under this name.
std::string owner_of_cap(std::string_view rule);
// The rule of such an owner; "" for others.
std::string_view rule_of_owner(std::string_view owner);

}  // namespace gpuyard::andon
