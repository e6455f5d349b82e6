#include "io/notify/secret.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"
#include "io/http/origin.h"
#include "io/http/target.h"
#include "io/notify/sink_config.h"

namespace gpuyard::notify {
namespace {

Error secret_error(std::string what) {
  return {Errc::unavailable, std::move(what)};
}

Result<void> check_mode(const std::string& path) {
  const auto info = stat_file(path);
  if (!info) return secret_error(info.error().text());
  if (!S_ISREG(info->st_mode)) return secret_error(path + " is not a file");
  if ((info->st_mode & S_IRWXO) == 0) return {};
  Error error =
      secret_error(fmt::format("{} contains a secret, but others can read or change it", path));
  error.hint = fmt::format("chmod o-rwx {}", quote_shell_word(path));
  return error;
}

Error url_error() {
  return {Errc::invalid, "is not a URL such as https://host/path or http://127.0.0.1:9093"};
}

bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
}

}  // namespace

Result<Secret> read_secret(const std::string& path) {
  if (!path.starts_with('/')) return Error{Errc::invalid, "must be an absolute path"};
  GPUYARD_TRY(check_mode(path));
  const auto text = read_file(path, kMaxSecretBytes);
  if (!text) return secret_error(text.error().text());
  const std::string_view secret = trim(*text);
  if (secret.empty()) return secret_error(path + " is empty");
  const bool one_line = std::ranges::none_of(
      secret, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (!one_line) return secret_error(path + " must contain one line, the secret");
  return Secret(std::string(secret));
}

Result<Url> parse_url(std::string_view text) {
  constexpr std::string_view kHttps = "https://";
  constexpr std::string_view kHttp = "http://";
  if (!is_plain(text)) return url_error();
  Url url;
  url.origin.tls = text.starts_with(kHttps);
  if (!url.origin.tls && !text.starts_with(kHttp)) return url_error();
  url.origin.port = url.origin.tls ? 443 : 80;
  text.remove_prefix(url.origin.tls ? kHttps.size() : kHttp.size());
  text = text.substr(0, text.find('#'));
  const std::size_t path = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, path);
  if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
    const auto userinfo = http::percent_decode(authority.substr(0, at));
    if (!userinfo) return url_error();
    url.userinfo = Secret(*userinfo);
    authority.remove_prefix(at + 1);
  }
  if (!http::read_authority(authority, url.origin)) return url_error();
  std::string target(text.substr(path));
  if (!target.starts_with('/')) target.insert(0, "/");
  url.target = Secret(std::move(target));
  return url;
}

}  // namespace gpuyard::notify
