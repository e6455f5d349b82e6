#include "faces/fleet/host_list.h"

#include <unistd.h>

#include <cstring>

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "faces/client/daemon_address.h"
#include "io/http/client.h"

namespace gpuyard::fleet {
namespace {

constexpr Duration kPatience = std::chrono::seconds(5);
constexpr std::size_t kMostOfFile = std::size_t{4} * 1024 * 1024;
constexpr std::string_view kHttpSd = "http_sd:";
constexpr std::string_view kDns = "dns:";

// A URL, or a name: of hosts.toml, else of ssh.
Result<Host> host_called(const std::string& word, const std::string& hosts_file) {
  auto url = client::address_of(word, hosts_file);
  if (!url && url.error().code == Errc::not_found) {
    url = client::address_of("ssh://" + word, hosts_file);
  }
  if (!url) return std::move(url).error();
  return Host{word, *url};
}

Result<std::vector<Host>> hosts_in_file(const std::string& file) {
  const auto named = client::hosts_named_in(file);
  if (!named) return named.error();
  std::vector<Host> hosts;
  for (const auto& [name, url] : *named) hosts.push_back({name, url});
  // n2 before n10, as people count.
  std::ranges::sort(hosts, [](const Host& one, const Host& other) {
    return ::strverscmp(one.name.c_str(), other.name.c_str()) < 0;
  });
  return hosts;
}

Result<std::vector<Host>> hosts_in_file_sd(const std::string& file) {
  // The file decides on which machines root's answers are believed.
  auto trusted = ::geteuid() == 0 ? check_trusted_by_root(file) : Result<void>();
  if (!trusted) return std::move(trusted).error();
  const auto text = read_file(file, kMostOfFile);
  if (!text) return text.error();
  return hosts_in_targets(*text, file);
}

// The parts of "http://host:port/path".
struct Page {
  http::Origin origin;
  std::string target;
};

Result<Page> page_of(const std::string& url) {
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

Result<std::vector<Host>> hosts_in_http_sd(const std::string& url) {
  const auto page = page_of(url);
  if (!page) return page.error();
  http::ClientRequest request;
  request.target = page->target;
  const auto answer = http::fetch(page->origin, request, kPatience, kMostOfFile);
  if (!answer) return answer.error();
  if (answer->status != 200) {
    return Error{Errc::unavailable,
                 fmt::format("{} responded with status {}", url, answer->status)};
  }
  auto hosts = hosts_in_targets(answer->body, url);
  if (!hosts) return Error{Errc::unavailable, hosts.error().text()};
  for (Host& host : *hosts) host.from_strangers = !page->origin.tls;
  return hosts;
}

bool is_on_network(const std::string& word) {
  return word.starts_with(kHttpSd) || word.starts_with(kDns);
}

Result<std::vector<Host>> hosts_of_word(const std::string& word, const std::string& hosts_file) {
  if (word.starts_with(kHttpSd)) return hosts_in_http_sd(word.substr(kHttpSd.size()));
  if (word.starts_with(kDns)) return hosts_in_dns(word.substr(kDns.size()), kPatience);
  const bool plain = word.find("://") == word.npos;
  if (plain && word.ends_with(".toml")) return hosts_in_file(word);
  if (plain && word.ends_with(".json")) return hosts_in_file_sd(word);
  auto host = host_called(word, hosts_file);
  if (!host) return std::move(host).error();
  return std::vector{*std::move(host)};
}

// Adds hosts that are not there yet. One whose name another host has is called by its URL.
void add(const std::vector<Host>& some, std::vector<Host>& all, std::set<std::string>& known) {
  for (Host host : some) {
    if (!known.insert(host.url).second) continue;
    if (host.name != host.url && !known.insert(host.name).second) host.name = host.url;
    all.push_back(std::move(host));
  }
}

std::vector<std::string> parts_of(const std::vector<std::string>& words) {
  std::vector<std::string> parts;
  for (const std::string& word : words) {
    std::string_view rest(word);
    while (!rest.empty()) {
      const auto part = trimmed(take_until(',', rest));
      if (!part.empty()) parts.emplace_back(part);
    }
  }
  return parts;
}

}  // namespace

Result<std::vector<Host>> hosts_of(const std::vector<std::string>& words,
                                   const std::string& hosts_file) {
  std::vector<std::string> parts = parts_of(words);
  if (parts.empty() && !words.empty()) {
    return Error{Errc::invalid, fmt::format("--hosts: expected {}; got \"\"", kHostsForms)};
  }
  if (words.empty()) parts = {hosts_file};
  std::vector<Host> all;
  std::set<std::string> known;
  for (const std::string& part : parts) {
    const auto some = hosts_of_word(part, hosts_file);
    if (!some && words.empty() && some.error().code == Errc::not_found) break;
    if (some) {
      add(*some, all, known);
    } else if (some.error().code == Errc::invalid || !is_on_network(part)) {
      return Error(some.error()).in("--hosts " + printable(part));
    } else {
      add({{part, part, true, some.error().text()}}, all, known);
    }
  }
  if (all.size() > kMostHosts) {
    return Error{Errc::invalid,
                 fmt::format("{} hosts exceed the maximum of {}", all.size(), kMostHosts)};
  }
  if (!all.empty()) return all;
  return Error{Errc::invalid, "no machines given",
               fmt::format("{} names none, and --hosts and GPUYARD_HOSTS are not set", hosts_file),
               "gpuyard fleet --hosts n1,n2"};
}

}  // namespace gpuyard::fleet
