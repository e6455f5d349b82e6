#include "io/notify/sink_config.h"

#include <algorithm>
#include <optional>
#include <variant>

#include <fmt/format.h>

#include "base/base64.h"
#include "base/files.h"
#include "base/json_reader.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/toml_reader.h"
#include "base/try.h"
#include "io/http/endpoint.h"
#include "io/notify/requests.h"
#include "io/notify/secret.h"

namespace gpuyard::notify {
namespace {

using enum SinkKind;

using Value = std::variant<std::string, std::vector<std::string>, std::int64_t>;
enum class Type : std::uint8_t { text, list, integer };  // which of them, in that order

// A sink that is not read in full yet.
struct SinkDraft {
  SinkConfig sink;
  std::string ca_file;
  bool url_from_file = false;
  std::optional<http::Proxy> proxy;
  std::string username;
  Secret password;
  Secret bearer_token;
};

// A key of a table `[sink.NAME]`.
struct SinkKey {
  std::string_view name;
  std::vector<SinkKind> kinds;  // which kinds of sink have it; empty: all
  Type type;
  // The error does not repeat the value, which may be a secret.
  Result<void> (*set)(SinkDraft&, const Value&);
};

constexpr std::size_t kMaxCaBytes = std::size_t{4} << 20;
constexpr std::string_view kPagerDutyUrl = "https://events.pagerduty.com/v2/enqueue";

Error invalid_error(std::string what) {
  return {Errc::invalid, std::move(what)};
}

// The file has invalid content or cannot be read: see SinkConfig::unusable_reason.
Error unavailable_error(std::string what) {
  return {Errc::unavailable, std::move(what)};
}

const std::string& text_of(const Value& value) {
  return std::get<std::string>(value);
}

template <auto Member>
Result<void> set_enum(SinkDraft& draft, const Value& value) {
  auto& member = draft.sink.*Member;
  using E = std::remove_reference_t<decltype(member)>;
  const auto known = enum_from_name<E>(text_of(value));
  if (!known) {
    return invalid_error(fmt::format("expected {}; got \"{}\"",
                                     json::allowed_words(json::shape_of<E>),
                                     printable(text_of(value))));
  }
  member = *known;
  return {};
}

Result<std::int64_t> read_in_range(const Value& value, std::int64_t min, std::int64_t max) {
  const auto number = std::get<std::int64_t>(value);
  if (number >= min && number <= max) return number;
  return invalid_error(fmt::format("expected {} to {}; got {}", min, max, number));
}

template <auto Member, std::int64_t min, std::int64_t max>
Result<void> set_seconds(SinkDraft& draft, const Value& value) {
  const auto seconds = GPUYARD_TRY(read_in_range(value, min, max));
  draft.sink.*Member = std::chrono::seconds(seconds);
  return {};
}

Result<void> set_rate(SinkDraft& draft, const Value& value) {
  const auto rate = GPUYARD_TRY(read_in_range(value, 1, 6000));
  draft.sink.rate_per_minute = static_cast<unsigned>(rate);
  return {};
}

Result<void> set_url_text(SinkDraft& draft, const std::string& text) {
  if (!draft.sink.url.origin.host.empty()) return invalid_error("a url is already set");
  auto url = GPUYARD_TRY(parse_url(text));
  draft.sink.url = std::move(url);
  return {};
}

Result<void> set_url(SinkDraft& draft, const Value& value) {
  return set_url_text(draft, text_of(value));
}

Result<void> set_url_file(SinkDraft& draft, const Value& value) {
  const auto text = GPUYARD_TRY(read_secret(text_of(value)));
  if (!draft.sink.url.origin.host.empty()) return invalid_error("a url is already set");
  draft.url_from_file = true;
  const auto taken = set_url_text(draft, text.reveal());
  if (!taken) return unavailable_error(fmt::format("{}: {}", text_of(value), taken.error().text()));
  return {};
}

template <auto Place>
Result<void> set_secret(SinkDraft& draft, const Value& value) {
  auto secret = GPUYARD_TRY(read_secret(text_of(value)));
  Place(draft) = std::move(secret);
  return {};
}
constexpr auto kKey = [](SinkDraft& draft) -> Secret& { return draft.sink.key; };
constexpr auto kPassword = [](SinkDraft& draft) -> Secret& { return draft.password; };
constexpr auto kToken = [](SinkDraft& draft) -> Secret& { return draft.bearer_token; };

Result<void> set_username(SinkDraft& draft, const Value& value) {
  draft.username = text_of(value);
  if (!draft.username.empty() && draft.username.find(':') == std::string::npos) return {};
  return invalid_error("must be a name without a colon");
}

Result<void> set_ca_file(SinkDraft& draft, const Value& value) {
  draft.ca_file = text_of(value);
  if (!draft.ca_file.starts_with('/')) return invalid_error("must be an absolute path");
  const auto text = read_file(draft.ca_file, kMaxCaBytes);
  if (!text) return unavailable_error(text.error().text());
  if (text->find("-----BEGIN ") != text->npos) return {};
  return unavailable_error(draft.ca_file + " contains no PEM certificate");
}

Result<void> set_proxy(SinkDraft& draft, const Value& value) {
  const auto url = parse_url(text_of(value));
  if (!url || url->origin.tls || url->target.reveal() != "/") {
    return invalid_error("must be a URL such as http://gateway.example.org:3128");
  }
  draft.proxy = http::Proxy{url->origin.host, url->origin.port};
  draft.sink.proxy_userinfo = url->userinfo;
  if (!url->userinfo.empty()) {
    draft.proxy->authorization = "Basic " + encode_base64(url->userinfo.reveal());
  }
  return {};
}

Result<void> set_argv(SinkDraft& draft, const Value& value) {
  draft.sink.argv = std::get<std::vector<std::string>>(value);
  if (!draft.sink.argv.empty() && !draft.sink.argv.front().empty()) return {};
  return invalid_error("must begin with the program");
}

const std::vector<SinkKind> kUrlKinds = {webhook, slack, pagerduty, alertmanager};
const std::vector<SinkKind> kQueuedKinds = {command, webhook, slack, pagerduty, alertmanager};
const std::vector<SinkKind> kLoginKinds = {webhook, alertmanager};

// Sets how we identify ourselves to the receiver; at most one way may be given.
Result<void> authorize(SinkDraft& draft) {
  const bool login = !draft.username.empty() || !draft.password.empty();
  const Secret& userinfo = draft.sink.url.userinfo;
  const int credential_count =
      (login ? 1 : 0) + (draft.bearer_token.empty() ? 0 : 1) + (userinfo.empty() ? 0 : 1);
  if (credential_count > 1) {
    return invalid_error(
        "only one of username, bearer_token_file and a user in the URL may be set");
  }
  if (login && (draft.username.empty() || draft.password.empty())) {
    return invalid_error("username and password_file must be set together");
  }
  if (login) {
    const std::string both = draft.username + ":" + draft.password.reveal();
    draft.sink.authorization = Secret("Basic " + encode_base64(both));
    draft.sink.credential = draft.password;
  } else if (!userinfo.empty()) {
    const std::string& both = userinfo.reveal();
    draft.sink.authorization = Secret("Basic " + encode_base64(both));
    draft.sink.credential = Secret(both.substr(both.find(':') + 1));  // all, if there is no colon
  } else if (!draft.bearer_token.empty()) {
    draft.sink.authorization = Secret("Bearer " + draft.bearer_token.reveal());
    draft.sink.credential = draft.bearer_token;
  }
  return {};
}

bool is_this_machine(const std::string& host) {
  const bool literal = http::to_socket_address(http::Endpoint::tcp(host, 1)).ok();
  return host == "localhost" || host == "::1" || (literal && host.starts_with("127."));
}

// Each message to Slack or PagerDuty has a secret that lets its reader send others.
bool exposes_secret(const SinkConfig& sink) {
  return (sink.kind == slack || sink.kind == pagerduty) && !sink.url.origin.tls &&
         !is_this_machine(sink.url.origin.host);
}

Result<void> finish_url(SinkDraft& draft) {
  SinkConfig& sink = draft.sink;
  if (sink.url.origin.host.empty() && sink.kind == pagerduty) sink.url = *parse_url(kPagerDutyUrl);
  if (sink.url.origin.host.empty()) {
    return invalid_error(
        fmt::format("a sink of kind {} needs url or url_file", enum_name(sink.kind)));
  }
  if (exposes_secret(sink)) {
    return invalid_error(fmt::format("a sink of kind {} sends a secret, so its URL must use https",
                                     enum_name(sink.kind)));
  }
  if (!draft.ca_file.empty() && !sink.url.origin.tls) {
    return invalid_error("ca_file requires an https URL");
  }
  sink.url.origin.ca_file = draft.ca_file;
  sink.url.origin.proxy = draft.proxy;
  return authorize(draft);
}

const std::vector<SinkKey>& sink_keys() {
  static const std::vector<SinkKey> keys = {
      {"kind", {}, Type::text, &set_enum<&SinkConfig::kind>},
      {"min_level", {}, Type::text, &set_enum<&SinkConfig::min_level>},
      {"rate_per_minute", kQueuedKinds, Type::integer, &set_rate},
      {"timeout_s", kQueuedKinds, Type::integer, &set_seconds<&SinkConfig::timeout, 1, 300>},
      {"argv", {command}, Type::list, &set_argv},
      {"url", kUrlKinds, Type::text, &set_url},
      {"url_file", kUrlKinds, Type::text, &set_url_file},
      {"ca_file", kUrlKinds, Type::text, &set_ca_file},
      {"proxy", kUrlKinds, Type::text, &set_proxy},
      {"secret_file", {webhook}, Type::text, &set_secret<kKey>},
      {"routing_key_file", {pagerduty}, Type::text, &set_secret<kKey>},
      {"username", kLoginKinds, Type::text, &set_username},
      {"password_file", kLoginKinds, Type::text, &set_secret<kPassword>},
      {"bearer_token_file", kLoginKinds, Type::text, &set_secret<kToken>},
      {"resend_s", {alertmanager}, Type::integer, &set_seconds<&SinkConfig::resend, 5, 3600>},
  };
  return keys;
}

// The sink, or what is wrong with it as a whole.
Result<SinkConfig> finish_sink(SinkDraft draft) {
  const SinkKind kind = draft.sink.kind;
  if (kind == command && draft.sink.argv.empty()) {
    return invalid_error("a sink of kind command needs argv");
  }
  if (kind == pagerduty && draft.sink.key.empty()) {
    return invalid_error("a sink of kind pagerduty needs routing_key_file");
  }
  if (kind != log && kind != command) {
    GPUYARD_TRY(finish_url(draft));
  }
  return std::move(draft.sink);
}

constexpr std::size_t kMaxNameLength = 32;

bool is_name(std::string_view text) {
  const auto fits = [](char c) { return is_alphanumeric(c) || c == '_' || c == '-'; };
  return !text.empty() && text.size() <= kMaxNameLength && std::ranges::all_of(text, fits);
}

class SinkReader {
 public:
  SinkReader(const std::string& file, const std::set<std::string>& only)
      : file_(file), selected_names_(only) {}

  Result<std::vector<SinkConfig>> read(const toml::table& document) {
    for (const auto& [name, node] : document) {
      if (name == "rule") continue;
      const auto* tables = node.as_table();
      if (name != "sink" || tables == nullptr) {
        return at(
            name.source(),
            fmt::format("unknown \"{}\"; expected a table [rule.NAME] or [sink.NAME]", name.str()));
      }
      GPUYARD_TRY(read_tables(*tables));
    }
    return std::move(sinks_);
  }

 private:
  Error at(const toml::source_region& where, const std::string& what) const {
    return toml_error(file_, where, what);
  }

  Result<void> read_tables(const toml::table& tables) {
    for (const auto& [name, node] : tables) {
      const auto* table = node.as_table();
      if (table == nullptr || !is_name(name.str())) {
        return at(name.source(), fmt::format("a sink must be a table [sink.NAME], with a name of "
                                             "up to {} letters, digits, '_' and '-'",
                                             kMaxNameLength));
      }
      if (!selected_names_.empty() && !selected_names_.contains(std::string(name.str()))) continue;
      if (sinks_.size() == kMaxSinks) {
        return at(
            name.source(),
            fmt::format("there are more than {} sinks; let one of them forward alerts", kMaxSinks));
      }
      auto sink = GPUYARD_TRY(read_sink(std::string(name.str()), name.source(), *table));
      sinks_.push_back(std::move(sink));
    }
    return {};
  }

  // `kind` first: it says which other keys there are.
  Result<SinkConfig> read_sink(const std::string& name, const toml::source_region& where,
                               const toml::table& table) {
    SinkDraft draft;
    draft.sink.name = name;
    const auto kind = table.find("kind");
    if (kind == table.end()) return at(where, fmt::format("sink.{} has no kind", name));
    GPUYARD_TRY(read_key(draft, "kind", kind->second, kind->first.source()));
    for (const auto& [key, node] : table) {
      if (key == "kind") continue;
      GPUYARD_TRY(read_key(draft, key.str(), node, key.source()));
    }
    // The remaining checks need the files.
    if (!draft.sink.unusable_reason.empty()) return std::move(draft.sink);
    auto sink = finish_sink(draft);
    if (sink) return sink;
    Error error = at(where, fmt::format("sink.{}: {}", name, sink.error().text()));
    if (!draft.url_from_file) return error;
    draft.sink.unusable_reason = error.text();
    return std::move(draft.sink);
  }

  Result<void> read_key(SinkDraft& draft, std::string_view name, const toml::node& node,
                        const toml::source_region& where) {
    const auto& keys = sink_keys();
    const auto key = std::ranges::find(keys, name, &SinkKey::name);
    const std::string full = fmt::format("sink.{}.{}", draft.sink.name, name);
    if (key == keys.end()) return at(where, unknown_key(draft.sink.name, name));
    const auto& kinds = key->kinds;
    if (!kinds.empty() && std::ranges::find(kinds, draft.sink.kind) == kinds.end()) {
      return at(where, fmt::format("\"{}\" is not allowed for a sink of kind {}; remove it", full,
                                   enum_name(draft.sink.kind)));
    }
    const auto type = static_cast<std::size_t>(key->type);
    const auto value = toml_value<Value>(node, type);
    // Without the value: it may be a secret.
    if (!value) return at(where, fmt::format("{} must be {}", full, kTomlTypes.at(type)));
    const auto done = key->set(draft, *value);
    if (done) return {};
    Error error = at(where, fmt::format("{}: {}", full, done.error().text()));
    if (done.error().code != Errc::unavailable) return error;
    if (draft.sink.unusable_reason.empty()) draft.sink.unusable_reason = error.text();
    return {};
  }

  static std::string unknown_key(std::string_view sink, std::string_view name) {
    std::vector<std::string_view> known;
    for (const SinkKey& key : sink_keys()) known.push_back(key.name);
    return unknown_word("key", name, known, fmt::format("; known keys: {}", fmt::join(known, " ")),
                        fmt::format("sink.{}.", sink));
  }

  const std::string& file_;
  const std::set<std::string>& selected_names_;
  std::vector<SinkConfig> sinks_;
};

// "example.org" and ".example.org" except that host and those below it, "*" all.
bool is_excepted(const std::string& host) {
  std::string_view rest = environment_variable("no_proxy");
  if (rest.empty()) rest = environment_variable("NO_PROXY");
  while (!rest.empty()) {
    std::string_view one = trim(take_until(',', rest));
    if (one.starts_with('.')) one.remove_prefix(1);
    if (one.empty()) continue;
    if (one == "*" || host == one || host.ends_with("." + std::string(one))) return true;
  }
  return false;
}

}  // namespace

Result<std::vector<SinkConfig>> read_sinks(std::string_view toml, const std::string& file,
                                           const std::set<std::string>& only) {
  const auto document = GPUYARD_TRY(parse_toml(toml, file));
  return SinkReader(file, only).read(document);
}

std::string unused_proxy(const SinkConfig& sink) {
  const http::Origin& origin = sink.url.origin;
  if (origin.host.empty() || origin.proxy || is_this_machine(origin.host)) return "";
  if (is_excepted(origin.host)) return "";
  const std::vector<const char*> names =
      origin.tls ? std::vector<const char*>{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}
                 : std::vector<const char*>{"http_proxy", "all_proxy", "ALL_PROXY"};
  const auto set = std::ranges::find_if(
      names, [](const char* name) { return !environment_variable(name).empty(); });
  return set == names.end() ? "" : *set;
}

std::string SinkConfig::destination() const {
  if (kind == SinkKind::log) return "stderr";
  if (kind == SinkKind::command) return argv.front();
  if (url.origin.host.empty()) return "unknown";  // the file with its URL cannot be read
  return url.origin.text();
}

std::vector<std::string> referenced_files(std::string_view toml, const std::string& file) {
  std::vector<std::string> files;
  const auto document = parse_toml(toml, file);
  const toml::table* const sinks = document ? (*document)["sink"].as_table() : nullptr;
  if (sinks == nullptr) return files;
  for (const auto& [name, sink] : *sinks) {
    if (!sink.is_table()) continue;
    for (const auto& [key, value] : *sink.as_table()) {
      const auto path = toml_as<std::string>(value);
      if (path && key.str().ends_with("_file")) files.push_back(*path);
    }
  }
  return files;
}

}  // namespace gpuyard::notify
