#include "notify/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/files.h"
#include "base/unique_fd.h"
#include "notify/sink_config.h"

namespace gpuyard::notify {
namespace {

Error bad_secret(std::string what) {
  return {Errc::invalid, std::move(what)};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

Result<void> check_mode(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return bad_secret(system_error("opening " + path).message);
  if (!S_ISREG(info.st_mode)) return bad_secret(path + " is not a file");
  if ((info.st_mode & S_IRWXO) == 0) return {};
  return bad_secret(
      fmt::format("{} holds a secret, and others than its owner and group may read or "
                  "change it; do: chmod o-rwx {}",
                  path, path));
}

}  // namespace

Result<Secret> read_secret(const std::string& path) {
  if (!path.starts_with('/')) return bad_secret("must be an absolute path");
  if (auto fine = check_mode(path); !fine) return std::move(fine).error();
  const auto text = read_file(path, kMostSecretBytes);
  if (!text) return bad_secret(text.error().message);
  const std::string_view secret = trimmed(*text);
  if (secret.empty()) return bad_secret(path + " is empty");
  const bool one_line = std::ranges::none_of(
      secret, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (!one_line) return bad_secret(path + " must hold one line, the secret");
  return Secret(std::string(secret));
}

}  // namespace gpuyard::notify
