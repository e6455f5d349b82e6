// One change of one GPU that waits for its turn.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/request.h"

namespace gpuyard::control {

// What control does of itself.
struct Expire {  // ends the claims whose time has passed
  SettingKind kind{};
};
struct Settle {  // looks what has become of it: reconcile.h
  SettingKind kind{};
};
struct Suspend {  // puts the baseline back, and keeps the claims for the next start
  SettingKind kind{};
};
// Takes back what the asker changed, because it failed elsewhere: as far as nobody has changed it
// since.
struct Reinstate {
  SettingKind kind{};
  std::vector<Claim> before;         // of all owners
  std::optional<SettingValue> made;  // what the asker has wanted since; none: nothing any more
  bool forced = false;               // others lost theirs
};

using Job = std::variant<Put, Restore, ClearEcc, Reset, Expire, Settle, Suspend, Reinstate>;

// Its setting; none of ClearEcc and Reset, nor of Restore of every kind.
std::optional<SettingKind> kind_of(const Job&);
// "set power_limit to 300 W"
std::string text_of(const Job&);

struct Order {
  Asker asker;
  Job job;
  bool force = false;
  bool dry_run = false;
  bool exclusive = false;
  Right right = {};
  std::string operation = {};
  // Once, with the claims as they were; may be empty.
  std::function<void(const Change&, std::vector<Claim> claims_before)> done = {};
};

// Who is asking when control does something of itself.
inline constexpr const char* kOurselves = "gpuyard";

}  // namespace gpuyard::control
