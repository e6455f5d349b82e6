// The facts about a board of this machine that outlive the daemon, so that a board that is missing
// after a restart is still listed.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/proc_stat.h"
#include "gpu/device/device.h"
#include "gpu/device/ecc_baseline.h"

namespace gpuyard {

struct KnownBoard {
  std::string uuid;
  std::uint32_t index = 0;  // the last one that the driver gave it
  std::string pci_address;
  std::string name;
  bool listed = true;  // false: the driver no longer lists it
  WallTime first_seen{};
  WallTime last_seen{};
  std::string boot_id = {};  // the boot in which `errors` were counted
  EccState errors = {};

  friend bool operator==(const KnownBoard&, const KnownBoard&) = default;
};

}  // namespace gpuyard
