// Finds the machines that a user means: from names, URLs, hosts.toml, Prometheus's file_sd and
// http_sd, and DNS. Queries no daemon.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::fleet {

struct Host {
  std::string name;  // as people call it; no two are the same
  std::string url;   // as client::parse_daemon_address() takes it
  // Named by something that anybody on the network could have written: DNS, or http_sd without TLS.
  // The token of the environment is not for it.
  bool from_untrusted_source = false;
  std::string problem = {};  // why it cannot be queried: a list that could not be had

  friend bool operator==(const Host&, const Host&) = default;
};

inline constexpr std::size_t kMaxHosts = 4096;

// The forms of --hosts, for messages.
inline constexpr std::string_view kHostsForms =
    "comma-separated names or URLs, FILE.toml (like hosts.toml), FILE.json (Prometheus file_sd), "
    "http_sd:URL or dns:_gpuyard._tcp.DOMAIN";

// Returns the hosts that `words` mean, each of which has one or several of kHostsForms; all hosts
// of `hosts_file` if there are no words. A name that the file does not have is one of ssh's. Blocks
// for DNS and http_sd, 5 s at most for each; a list that cannot be had from there is a host with a
// problem. Errors say which word, and what is expected.
Result<std::vector<Host>> resolve_hosts(const std::vector<std::string>& words,
                                        const std::string& hosts_file);

// Reads Prometheus's list of targets, [{"targets": ["n1:9411"], "labels": {...}}]. A target with
// the label __scheme__ "https" is queried there; any other by ssh, without its port, which is
// Prometheus's.
Result<std::vector<Host>> parse_targets(std::string_view json, const std::string& source);

// Prometheus's list of targets for these hosts.
struct TargetList {
  std::string json;
  std::size_t targets = 0;
  std::vector<std::string> left_out = {};  // names of hosts without an address on the network
};

// Writes what parse_targets() reads. A host of ssh has the daemon's default port for HTTPS, and no
// label: the scrape configuration decides its scheme.
TargetList targets_of(const std::vector<Host>&);

// Queries DNS for the service's SRV records: _ssh._tcp leads to ssh, any other service to https.
Result<std::vector<Host>> resolve_dns_hosts(const std::string& service, Duration timeout);

}  // namespace gpuyard::fleet
