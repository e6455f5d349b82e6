// The sinks and how each is reached, from the tables `[sink.NAME]` of a TOML file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "io/notify/notification.h"
#include "io/notify/secret.h"

namespace gpuyard::notify {

inline constexpr std::size_t kMaxSinks = 16;  // each over the network has a thread of its own
inline constexpr std::size_t kMaxSecretBytes = 4096;

enum class SinkKind : std::uint8_t { log, command, webhook, slack, pagerduty, alertmanager };
BOOST_DESCRIBE_ENUM(SinkKind, log, command, webhook, slack, pagerduty, alertmanager)

struct SinkConfig {
  std::string name;
  SinkKind kind = SinkKind::log;
  Url url;                        // of all but log and command
  Secret key;                     // webhook: the signing key; pagerduty: the routing key
  Secret authorization;           // the value of the field Authorization; "": none is sent
  Secret credential;              // the password or token in it, which a receiver may repeat
  Secret proxy_userinfo;          // "user:password" at the proxy of `url`; "": none
  std::vector<std::string> argv;  // command

  NotificationLevel min_level = NotificationLevel::warning;
  Duration timeout = std::chrono::seconds(10);  // of one try
  unsigned rate_per_minute = 30;
  Duration resend = std::chrono::seconds(60);  // alertmanager
  // Why the sink cannot be used now, as "FILE:LINE: fault of a file that it needs"; its alerts wait
  // until then. "": it can be used.
  std::string unusable_reason;

  // The destination, for people: "hooks.slack.com", "/usr/bin/logger", "stderr". No secret.
  std::string destination() const;

  friend bool operator==(const SinkConfig&, const SinkConfig&) = default;
};

// Returns the name of a variable of the environment that names a proxy for the sink's URL, although
// none is used: the sink has no proxy of its own. "" if there is none, or if no_proxy excepts the
// host. A proxy that is set for all programs of a machine is the usual reason why a sink is not
// reached.
std::string unused_proxy(const SinkConfig&);

// The sinks of one file, in the order of their names. The tables `[rule.NAME]` are read elsewhere;
// anything else at the top is an error. Errc::invalid has "FILE:LINE: what, why, what to do", and
// never a secret. Secret files are read here; an unusable one closes only its own sink, because it
// can be fixed without a change of this file. `only`: the names of the sinks to read, and whose
// secret files are read; empty: all.
Result<std::vector<SinkConfig>> read_sinks(std::string_view toml, const std::string& file,
                                           const std::set<std::string>& only = {});

// The files that the sinks name, by keys such as password_file; none if the text is not understood.
std::vector<std::string> referenced_files(std::string_view toml, const std::string& file);

}  // namespace gpuyard::notify
