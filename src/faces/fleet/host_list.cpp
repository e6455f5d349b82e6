#include "faces/fleet/host_list.h"

#include <unistd.h>

#include <cstring>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/trusted_file.h"
#include "base/try.h"
#include "faces/client/daemon_address.h"
#include "io/http/client.h"

namespace gpuyard::fleet {
namespace {

constexpr Duration kDiscoveryTimeout = std::chrono::seconds(5);
constexpr std::size_t kMaxTargetsBytes = std::size_t{4} * 1024 * 1024;
constexpr std::string_view kHttpSd = "http_sd:";
constexpr std::string_view kDns = "dns:";

// A URL, or a name: of hosts.toml, else of ssh.
Result<Host> parse_host(const std::string& word, const std::string& hosts_file) {
  auto url = client::resolve_address(word, hosts_file);
  if (!url && url.error().code == Errc::not_found) {
    url = client::resolve_address("ssh://" + word, hosts_file);
  }
  if (!url) return std::move(url).error();
  return Host{word, *url};
}

Result<std::vector<Host>> load_hosts_file(const std::string& file) {
  const auto named = GPUYARD_TRY(client::read_hosts_file(file));
  std::vector<Host> hosts;
  for (const auto& [name, url] : named) hosts.push_back({name, url});
  // n2 before n10, as people count.
  std::ranges::sort(hosts, [](const Host& one, const Host& other) {
    return ::strverscmp(one.name.c_str(), other.name.c_str()) < 0;
  });
  return hosts;
}

Result<std::vector<Host>> load_file_sd(const std::string& file) {
  // The file decides on which machines root's answers are believed.
  GPUYARD_TRY(::geteuid() == 0 ? check_trusted_by_root(file) : Result<void>());
  const auto text = GPUYARD_TRY(read_file(file, kMaxTargetsBytes));
  return parse_targets(text, file);
}

// The parts of "http://host:port/path".
struct Page {
  http::Origin origin;
  std::string target;
};

Result<Page> parse_page_url(const std::string& url) {
  const bool tls = url.starts_with("https://");
  const std::string_view scheme = tls ? "https://" : "http://";
  const std::string_view rest = std::string_view(url).substr(std::min(url.size(), scheme.size()));
  const std::string_view server = rest.substr(0, rest.find('/'));
  // Servers are written alike in all URLs of ours.
  const auto origin = client::parse_https_url(fmt::format("https://{}", server));
  if (!url.starts_with(scheme) || !origin) {
    return Error{Errc::invalid,
                 fmt::format("expected http://HOST[:PORT]/PATH; got \"{}\"", printable(url))};
  }
  Page page{*origin, std::string(rest.substr(server.size()))};
  if (page.target.empty()) page.target = "/";
  page.origin.tls = tls;
  if (!server.ends_with(fmt::format(":{}", origin->port))) page.origin.port = tls ? 443 : 80;
  return page;
}

Result<std::vector<Host>> fetch_http_sd(const std::string& url) {
  const auto page = parse_page_url(url);
  if (!page) return page.error();
  http::ClientRequest request;
  request.target = page->target;
  const auto answer = http::fetch(page->origin, request, kDiscoveryTimeout, kMaxTargetsBytes);
  if (!answer) return answer.error();
  if (answer->status != 200) {
    return Error{Errc::unavailable,
                 fmt::format("{} responded with status {}", url, answer->status)};
  }
  auto hosts = parse_targets(answer->body, url);
  if (!hosts) return Error{Errc::unavailable, hosts.error().text()};
  for (Host& host : *hosts) host.from_untrusted_source = !page->origin.tls;
  return hosts;
}

bool is_network_source(const std::string& word) {
  return word.starts_with(kHttpSd) || word.starts_with(kDns);
}

Result<std::vector<Host>> resolve_word(const std::string& word, const std::string& hosts_file) {
  if (word.starts_with(kHttpSd)) return fetch_http_sd(word.substr(kHttpSd.size()));
  if (word.starts_with(kDns)) return resolve_dns_hosts(word.substr(kDns.size()), kDiscoveryTimeout);
  const bool plain = word.find("://") == word.npos;
  if (plain && word.ends_with(".toml")) return load_hosts_file(word);
  if (plain && word.ends_with(".json")) return load_file_sd(word);
  auto host = GPUYARD_TRY(parse_host(word, hosts_file));
  return std::vector{std::move(host)};
}

// Adds hosts that are not there yet. One whose name another host has is called by its URL.
void add_hosts(const std::vector<Host>& some, std::vector<Host>& all,
               std::set<std::string>& known) {
  for (Host host : some) {
    if (!known.insert(host.url).second) continue;
    if (host.name != host.url && !known.insert(host.name).second) host.name = host.url;
    all.push_back(std::move(host));
  }
}

std::vector<std::string> split_words(const std::vector<std::string>& words) {
  std::vector<std::string> parts;
  for (const std::string& word : words) {
    std::string_view rest(word);
    while (!rest.empty()) {
      const auto part = trim(take_until(',', rest));
      if (!part.empty()) parts.emplace_back(part);
    }
  }
  return parts;
}

}  // namespace

Result<std::vector<Host>> resolve_hosts(const std::vector<std::string>& words,
                                        const std::string& hosts_file) {
  std::vector<std::string> parts = split_words(words);
  if (parts.empty() && !words.empty()) {
    return Error{Errc::invalid, fmt::format("--hosts: expected {}; got \"\"", kHostsForms)};
  }
  if (words.empty()) parts = {hosts_file};
  std::vector<Host> all;
  std::set<std::string> known;
  for (const std::string& part : parts) {
    const auto some = resolve_word(part, hosts_file);
    if (!some && words.empty() && some.error().code == Errc::not_found) break;
    if (some) {
      add_hosts(*some, all, known);
    } else if (some.error().code == Errc::invalid || !is_network_source(part)) {
      return Error(some.error()).in("--hosts " + printable(part));
    } else {
      add_hosts({{part, part, true, some.error().text()}}, all, known);
    }
  }
  if (all.size() > kMaxHosts) {
    return Error{Errc::invalid,
                 fmt::format("{} hosts exceed the maximum of {}", all.size(), kMaxHosts)};
  }
  if (!all.empty()) return all;
  return Error{Errc::invalid, "no machines given",
               fmt::format("{} names none, and --hosts and GPUYARD_HOSTS are not set", hosts_file),
               "gpuyard fleet --hosts n1,n2"};
}

}  // namespace gpuyard::fleet
