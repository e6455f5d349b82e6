#include "io/kube/kubeconfig.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/base64.h"
#include "base/files.h"
#include "base/json_reader.h"
#include "base/text.h"
#include "base/try.h"
#include "io/http/endpoint.h"

namespace gpuyard::kube {
namespace {

using boost::json::object;

constexpr std::size_t kMaxKubeconfigBytes = std::size_t{4} << 20;

Error kubeconfig_error(std::string what) {
  return {Errc::invalid, std::move(what)};
}

// A key that gpuyard refuses, and what to do instead.
struct RefusedKey {
  std::string_view name;
  std::string_view advice;
};

constexpr std::array kRefusedOfClusters = {
    RefusedKey{"insecure-skip-tls-verify", "set certificate-authority to the API server's CA"},
    RefusedKey{"proxy-url", "set server to an address that needs no proxy"},
    RefusedKey{"tls-server-name", "set server to a name or address in the server's certificate"},
};
constexpr std::string_view kUseToken =
    "set tokenFile to the file of a token that is renewed, or server to the address of a kubectl "
    "proxy on this machine";
constexpr std::string_view kUseOwnToken = "set tokenFile to a token of the account itself";
constexpr std::array kRefusedOfUsers = {
    RefusedKey{"exec", kUseToken},
    RefusedKey{"auth-provider", kUseToken},
    RefusedKey{"client-certificate", kUseToken},
    RefusedKey{"client-certificate-data", kUseToken},
    RefusedKey{"client-key", kUseToken},
    RefusedKey{"client-key-data", kUseToken},
    RefusedKey{"username", kUseToken},
    RefusedKey{"password", kUseToken},
    RefusedKey{"as", kUseOwnToken},
    RefusedKey{"as-uid", kUseOwnToken},
    RefusedKey{"as-groups", kUseOwnToken},
    RefusedKey{"as-user-extra", kUseOwnToken},
};

const boost::json::value* value_in(const object& in, std::string_view key) {
  return in.if_contains(boost::json::string_view(key.data(), key.size()));
}

std::string text_in(const object& in, std::string_view key) {
  const boost::json::value* value = value_in(in, key);
  const boost::json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? "" : std::string(text->data(), text->size());
}

// kubectl treats an empty value like a missing one.
bool is_set(const object& in, std::string_view key) {
  const boost::json::value* value = value_in(in, key);
  if (value == nullptr || value->is_null()) return false;
  if (const bool* flag = value->if_bool()) return *flag;
  if (const auto* text = value->if_string()) return !text->empty();
  if (const auto* list = value->if_array()) return !list->empty();
  if (const auto* members = value->if_object()) return !members->empty();
  return true;
}

// An entry of one of the lists: {"name":"prod","cluster":{...}} in "clusters".
struct Entry {
  std::string_view kind;  // "cluster"
  std::string name;
  const object* content;
};

Result<Entry> find_entry(const object& config, std::string_view kind, std::string name) {
  const boost::json::value* list = value_in(config, fmt::format("{}s", kind));
  const boost::json::array* entries = list == nullptr ? nullptr : list->if_array();
  if (entries != nullptr) {
    for (const boost::json::value& entry : *entries) {
      const object* members = entry.if_object();
      if (members == nullptr || text_in(*members, "name") != name) continue;
      const boost::json::value* content = value_in(*members, kind);
      if (content == nullptr || !content->is_object()) break;
      return Entry{kind, std::move(name), &content->get_object()};
    }
  }
  return kubeconfig_error(fmt::format("{} \"{}\" not found", kind, printable(name)));
}

Result<void> check_refused(const Entry& entry, std::span<const RefusedKey> refused) {
  const auto used = std::ranges::find_if(
      refused, [&](const RefusedKey& key) { return is_set(*entry.content, key.name); });
  if (used == refused.end()) return {};
  return kubeconfig_error(fmt::format("{} \"{}\" has {}, which gpuyard does not support; {}",
                                      entry.kind, printable(entry.name), used->name, used->advice));
}

// A CA that cannot be read must not stand for none.
Result<void> check_texts(const Entry& entry, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (is_set(*entry.content, name) && text_in(*entry.content, name).empty()) {
      return kubeconfig_error(fmt::format("{} \"{}\" has {}, which is not a string", entry.kind,
                                          printable(entry.name), name));
    }
  }
  return {};
}

Error server_error(std::string_view url) {
  return kubeconfig_error(fmt::format(
      "server: expected a URL such as https://10.0.0.1:6443; got \"{}\"", printable(url)));
}

// "https://host:6443/prefix"
Result<void> read_server(std::string_view url, ApiServer& server) {
  constexpr std::string_view kHttps = "https://";
  constexpr std::string_view kHttp = "http://";
  const bool plain =
      std::ranges::all_of(url, [](char c) { return c > 0x20 && c < 0x7F && c != '?' && c != '#'; });
  server.origin.tls = url.starts_with(kHttps);
  if (!plain || (!server.origin.tls && !url.starts_with(kHttp))) return server_error(url);
  server.origin.port = server.origin.tls ? 443 : 80;
  std::string_view prefix = url.substr(server.origin.tls ? kHttps.size() : kHttp.size());
  const std::string_view authority = prefix.substr(0, prefix.find('/'));
  prefix.remove_prefix(authority.size());
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  server.path_prefix = prefix;
  if (!http::read_authority(authority, server.origin)) return server_error(url);
  const std::string& host = server.origin.host;
  if (server.origin.tls || host == "localhost" || http::is_loopback(host)) return {};
  return kubeconfig_error(fmt::format(
      "server: \"{}\" is another machine without TLS; set a URL with https", printable(url)));
}

std::string absolute_in(const std::string& directory, const std::string& path) {
  return path.empty() || path.starts_with('/') ? path : directory + "/" + path;
}

// Data counts more than a file, as in kubectl.
Result<Credential> read_ca(const Entry& cluster, const std::string& directory) {
  GPUYARD_TRY(check_texts(cluster, {"certificate-authority-data", "certificate-authority"}));
  const std::string data = text_in(*cluster.content, "certificate-authority-data");
  if (data.empty()) {
    const std::string file = text_in(*cluster.content, "certificate-authority");
    return Credential{.file = absolute_in(directory, file)};
  }
  auto pem = decode_base64(data);
  if (pem && !pem->empty()) return Credential{.text = *std::move(pem)};
  return kubeconfig_error("certificate-authority-data is not base64");
}

Result<Credential> read_token(const object& config, const std::string& user_name,
                              const std::string& directory) {
  auto user = GPUYARD_TRY(find_entry(config, "user", user_name));
  GPUYARD_TRY(check_refused(user, kRefusedOfUsers));
  GPUYARD_TRY(check_texts(user, {"token", "tokenFile"}));
  Credential token{.text = text_in(*user.content, "token"),
                   .file = absolute_in(directory, text_in(*user.content, "tokenFile"))};
  if (!token.empty()) return token;
  return kubeconfig_error(
      fmt::format("user \"{}\" has no token; {}", printable(user_name), kUseToken));
}

Result<ApiServer> read_current_context(const object& config, const std::string& directory) {
  const std::string name = text_in(config, "current-context");
  if (name.empty()) return kubeconfig_error("current-context is not set");
  const auto context = GPUYARD_TRY(find_entry(config, "context", name));
  const auto cluster =
      GPUYARD_TRY(find_entry(config, "cluster", text_in(*context.content, "cluster")));
  GPUYARD_TRY(check_refused(cluster, kRefusedOfClusters));
  ApiServer server;
  GPUYARD_TRY(read_server(text_in(*cluster.content, "server"), server));
  if (!server.origin.tls) return server;
  auto ca = GPUYARD_TRY(read_ca(cluster, directory));
  server.ca = std::move(ca);
  auto token = GPUYARD_TRY(read_token(config, text_in(*context.content, "user"), directory));
  server.token = std::move(token);
  return server;
}

}  // namespace

Result<ApiServer> read_kubeconfig(const std::string& path) {
  const auto text = GPUYARD_TRY(read_file(path, kMaxKubeconfigBytes));
  return parse_kubeconfig(text, path);
}

Result<ApiServer> parse_kubeconfig(std::string_view text, const std::string& path) {
  const auto config = json::parse(text);
  if (!config || !config->is_object()) {
    const std::string word = quote_shell_word(path);
    Error error = kubeconfig_error(fmt::format(
        "{}: expected a kubeconfig in JSON, the part of YAML that gpuyard reads", path));
    if (!config) error.cause = config.error().message;
    error.hint = fmt::format(
        "umask 077\nkubectl --kubeconfig {} config view --raw --minify --flatten -o json > {}.json",
        word, word);
    return error;
  }
  auto server = read_current_context(config->get_object(), parent_directory(path));
  if (!server) return std::move(server).error().in(path);
  return server;
}

}  // namespace gpuyard::kube
