// Facts about a machine that its daemon does not report, because they are of the user who logs in:
// the user's UID there, and whether munged there has the key of this machine's munged. A shell
// there finds them, through ssh.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "faces/fleet/fan_out.h"

namespace gpuyard::fleet {

struct Login {
  std::string user;
  std::uint32_t uid = 0;
};

enum class MungeKey : std::uint8_t { same, different };

// An error is the reason why a fact is unknown.
struct LoginFacts {
  Result<Login> login = Error{Errc::unavailable, "not checked"};
  Result<MungeKey> munge_key = Error{Errc::unavailable, "not checked"};
  bool has_munge = false;  // false also where it is unknown
};

// The time limit of each command that is run, here and there.
inline constexpr Duration kLoginCommandTimeout = std::chrono::seconds(3);

// Returns a credential of this machine's munged, which only processes of this user may decode: a
// machine that receives it cannot present it to Slurm. Blocks for kLoginCommandTimeout at most.
Result<std::string> make_munge_credential();

// The script for a POSIX shell, and the facts in its output. The credential's error becomes that of
// the key.
std::string login_script(const Result<std::string>& credential);
LoginFacts parse_login_facts(std::string_view output, const Result<std::string>& credential);

// Runs the script on the machine of a daemon. Only ssh leads to a shell; a daemon of this machine,
// which has `host` as its host name, needs none. Blocks for the login and the commands.
LoginFacts check_login(const http::Endpoint& daemon, const std::string& host, const FanOutOptions&,
                       const Result<std::string>& credential);

}  // namespace gpuyard::fleet
