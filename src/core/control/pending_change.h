// One change of one GPU that waits to be carried out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "control/holding.h"
#include "device/device.h"
#include "device/setting.h"

namespace gpuyard::control {

// What somebody asks control for, and what he hears of it.

// Who wants it. An owner replaces his own claims.
struct Asker {
  std::string owner;   // "uid 1000", "zeus:1000", "lease:ID"
  bool admin = false;  // may say `force`
  std::string request_id = {};
  TimePoint received{};
  // Of a lease: who asks, and whose lease it is, "uid 0" and "uid 1002".
  std::string principal = {};
  std::string lessee = {};
  // Who is behind the user who asks, where several share what one may have.
  std::string person = {};
  bool over_tcp = false;  // nobody vouches for him

  // As the audit has it: "uid 0 under lease ID of uid 1002".
  std::string name() const;
  // Under whose name it is counted how often he asks.
  const std::string& counted() const {
    return !person.empty() ? person : !principal.empty() ? principal : owner;
  }
};

// Whether the asker may still change that GPU. Empty: nothing takes that right away.
using Right = std::function<Result<void>(const DeviceId&)>;

struct Put {
  Setting setting;
  std::optional<Duration> lasts = {};  // empty: until its owner restores it
};

// Gives up the asker's claim: what others want comes in force, or the baseline.
struct Restore {
  std::optional<SettingKind> kind = {};  // empty: of every kind
};

// No process may use the GPU; all GPUs are away while it lasts.
struct Reset {};

using Action = std::variant<Put, Restore, ClearEcc, Reset>;

struct Request {
  Asker asker;
  std::vector<DeviceId> gpus;  // each once
  Action action;
  bool force = false;      // also against other owners; needs an admin
  bool atomic = false;     // of several GPUs: all, or none
  bool dry_run = false;    // only say what would happen
  bool exclusive = false;  // not beside other owners, even where a setting can be shared
  // Asked again right before the driver is: what was asked for may have waited behind others.
  Right right = {};
};

enum class Outcome : std::uint8_t {
  applied,         // and read back
  assumed,         // the driver took it; it cannot be read back
  pending_reboot,  // in force from the next reset or reboot on
  held,            // somebody else wants less power: his limit stays in force, this one waits
  restored,        // as others want it, or as it was before anybody set it
  drifted,         // not restored: somebody else has changed it meanwhile, and it is left alone
  cleared,         // the counters are 0
  reset,           // the GPU was reset
  planned,         // it was only asked what would happen
  queued,          // nobody waits for it
  rolled_back,     // it worked here, but not on another GPU
  failed,          // `error` says why
};
BOOST_DESCRIBE_ENUM(Outcome, applied, assumed, pending_reboot, held, restored, drifted, cleared,
                    reset, planned, queued, rolled_back, failed)

// What came of one change of one GPU.
struct Change {
  DeviceId gpu;
  std::optional<std::uint32_t> index = {};
  std::string operation = {};            // its id
  std::optional<SettingKind> kind = {};  // none of clearing and resetting
  Outcome outcome = Outcome::failed;
  std::optional<Setting> before = {};
  std::optional<Setting> after = {};      // in force now; or would be
  std::optional<std::string> owner = {};  // whose that is now
  std::optional<WallTime> until = {};     // when it is put back by itself
  std::optional<Error> error = {};
};

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

struct PendingChange {
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

// From a request to the orders that it makes for each GPU. Pure.

inline constexpr std::size_t kMostGpus = 64;  // of one request
inline constexpr Duration kLongest = std::chrono::hours(24 * 366);

// Errc::invalid, for what is wrong with it whatever GPU it is asked of.
Result<void> check_request(const Request&);

// What was asked for, of one GPU.
Job job_of(const Action&);

// One order; to restore everything, one for each setting that the asker holds. `holdings` are the
// GPU's.
std::vector<PendingChange> orders_of(const Request&,
                                     const std::map<SettingKind, Holding>& holdings);

// Who may change which claims, and to what. Pure.

// When it is.
struct Moment {
  TimePoint now;
  WallTime wall;
};

// Does to the claims of `holding` what the order says. Errors: conflict, with who has it until
// when; not_found, the asker wants nothing of it; busy, too many want it.
Result<void> change_claims(Holding& holding, const PendingChange&, const DeviceInfo&, Moment);

}  // namespace gpuyard::control
