// Hosts that others list: Prometheus's targets, and DNS.
#include <arpa/nameser.h>
#include <netdb.h>
#include <resolv.h>

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/text.h"
#include "base/try.h"
#include "faces/client/daemon_address.h"
#include "faces/fleet/host_list.h"

namespace gpuyard::fleet {
namespace {

using Labels = std::map<std::string, std::string>;

struct TargetGroup {
  std::vector<std::string> targets;
  std::optional<Labels> labels;
};
BOOST_DESCRIBE_STRUCT(TargetGroup, (), (targets, labels))

struct Targets {
  std::vector<TargetGroup> groups;
};
BOOST_DESCRIBE_STRUCT(Targets, (), (groups))

Result<Host> parse_target(const std::string& target, bool tls) {
  const auto origin = GPUYARD_TRY(client::parse_https_url("https://" + target));
  const bool six = origin.host.find(':') != origin.host.npos;
  const std::string host = six ? "[" + origin.host + "]" : origin.host;
  return Host{origin.host, tls ? "https://" + origin.text() : "ssh://" + host};
}

// The state of one query to DNS.
class Resolver {
 public:
  explicit Resolver(Duration timeout) {
    usable_ = ::res_ninit(&state_) == 0;
    // Two rounds over all servers share the time.
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
    state_.retry = 2;
    state_.retrans = std::max(1, static_cast<int>(seconds) / (2 * std::max(1, state_.nscount)));
  }
  ~Resolver() { ::res_nclose(&state_); }
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // The bytes of the answer. Errc::not_found: there is no such record.
  Result<std::vector<unsigned char>> query(const std::string& name) {
    if (!usable_)
      return Error{Errc::unavailable, "the DNS resolver of this machine is not configured"};
    std::vector<unsigned char> answer(std::size_t{64} * 1024);
    const int length = ::res_nquery(&state_, name.c_str(), ns_c_in, ns_t_srv, answer.data(),
                                    static_cast<int>(answer.size()));
    if (length >= 0) {
      answer.resize(std::min(answer.size(), static_cast<std::size_t>(length)));
      return answer;
    }
    const bool none = state_.res_h_errno == HOST_NOT_FOUND || state_.res_h_errno == NO_DATA;
    if (none) return Error{Errc::not_found, fmt::format("no DNS SRV record {}", name)};
    return Error{Errc::unavailable, fmt::format("DNS does not respond for {}", name)};
  }

 private:
  struct __res_state state_{};
  bool usable_ = false;
};

struct Service {
  unsigned priority = 0;
  unsigned port = 0;
  std::string target;
};

// RFC 2782: priority, weight, port and target.
std::optional<Service> parse_service(const ns_msg& message, const ns_rr& record) {
  constexpr std::size_t kNumbers = 6;
  if (ns_rr_type(record) != ns_t_srv || ns_rr_rdlen(record) <= kNumbers) return std::nullopt;
  const unsigned char* const data = ns_rr_rdata(record);
  std::array<char, NS_MAXDNAME> name{};
  const int read = ::dn_expand(ns_msg_base(message), ns_msg_end(message), data + kNumbers,
                               name.data(), static_cast<int>(name.size()));
  if (read < 0) return std::nullopt;
  return Service{ns_get16(data), ns_get16(data + 4), name.data()};
}

Result<std::vector<Service>> parse_services(const std::vector<unsigned char>& answer) {
  ns_msg message{};
  if (::ns_initparse(answer.data(), static_cast<int>(answer.size()), &message) != 0) {
    return Error{Errc::unavailable, "invalid DNS response"};
  }
  std::vector<Service> services;
  for (int i = 0; i < ns_msg_count(message, ns_s_an); ++i) {
    ns_rr record{};
    if (::ns_parserr(&message, ns_s_an, i, &record) != 0) break;
    if (auto service = parse_service(message, record)) services.push_back(*std::move(service));
  }
  std::ranges::sort(services, {}, [](const Service& one) {
    return std::pair(one.priority, std::string_view(one.target));
  });
  return services;
}

}  // namespace

Result<std::vector<Host>> parse_targets(std::string_view json, const std::string& source) {
  // A document of ours is an object; Prometheus's is a list.
  const auto read =
      json::from_json<Targets>(fmt::format("{{\"groups\":{}}}", json), json::UnknownFields::ignore);
  if (!read) {
    return Error{Errc::invalid, fmt::format("{} is not a Prometheus target list", source),
                 read.error().text()};
  }
  std::vector<Host> hosts;
  for (const TargetGroup& group : read->groups) {
    const auto labels = group.labels.value_or(Labels());
    const auto scheme = labels.find("__scheme__");
    const bool tls = scheme != labels.end() && scheme->second == "https";
    for (const std::string& target : group.targets) {
      auto host = parse_target(target, tls);
      if (!host) return std::move(host).error().in(source);
      hosts.push_back(*std::move(host));
    }
  }
  return hosts;
}

TargetList targets_of(const std::vector<Host>& hosts) {
  std::vector<TargetGroup> groups;
  TargetList list;
  for (const Host& host : hosts) {
    if (const auto ssh = client::parse_ssh_url(host.url)) {
      const http::Origin origin{.host = ssh->host, .port = client::kHttpsPort};
      groups.push_back({{origin.text()}, Labels()});
    } else if (const auto https = client::parse_https_url(host.url)) {
      groups.push_back({{https->text()}, Labels{{"__scheme__", "https"}}});
    } else {
      list.left_out.push_back(host.name);
    }
  }
  list.targets = groups.size();
  list.json = json::to_json(groups) + "\n";
  return list;
}

Result<std::vector<Host>> resolve_dns_hosts(const std::string& service, Duration timeout) {
  const auto plain = [](char c) { return is_alphanumeric(c) || c == '.' || c == '-' || c == '_'; };
  if (!service.starts_with('_') || !std::ranges::all_of(service, plain)) {
    return Error{Errc::invalid,
                 fmt::format("expected a DNS service such as _gpuyard._tcp.lab.org; got \"{}\"",
                             printable(service))};
  }
  const auto answer = GPUYARD_TRY(Resolver(timeout).query(service));
  const auto services = GPUYARD_TRY(parse_services(answer));
  const std::string scheme = service.starts_with("_ssh.") ? "ssh" : "https";
  std::vector<Host> hosts;
  for (const Service& one : services) {
    const auto url =
        client::resolve_address(fmt::format("{}://{}:{}", scheme, one.target, one.port), "");
    // "." says that there is no such service; other malformed names belong to no host.
    if (url) hosts.push_back({one.target, *url, true});
  }
  return hosts;
}

}  // namespace gpuyard::fleet
