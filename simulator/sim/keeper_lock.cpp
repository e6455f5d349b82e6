#include "sim/keeper_lock.h"

#include <unistd.h>

#include <charconv>

#include <fmt/format.h>

#include "base/boot.h"
#include "base/files.h"

namespace gpuyard::sim {
namespace {

constexpr std::size_t kMaxLockText = 64;

std::string lock_path(const std::string& directory) {
  return directory + "/lock";
}

// "<pid> <start time>"
std::optional<KeeperIdentity> parse_identity(const std::string& text) {
  KeeperIdentity identity;
  const char* const end = text.data() + text.size();
  const auto pid = std::from_chars(text.data(), end, identity.pid);
  if (pid.ec != std::errc{} || pid.ptr == end || identity.pid <= 0) return std::nullopt;
  const auto start = std::from_chars(pid.ptr + 1, end, identity.start_time);
  if (start.ec != std::errc{}) return std::nullopt;
  return identity;
}

std::optional<KeeperIdentity> read_identity(const std::string& directory) {
  const auto text = read_file(lock_path(directory), kMaxLockText);
  return text ? parse_identity(*text) : std::nullopt;
}

Error already_kept(const std::string& directory) {
  const auto keeper = read_identity(directory);
  const std::string who = keeper ? fmt::format(" (pid {})", keeper->pid) : "";
  return Error{Errc::conflict, fmt::format("a keeper{} already runs in {}", who, directory)};
}

}  // namespace

Result<UniqueFd> take_keeper_lock(const std::string& directory) {
  auto file = lock_file(lock_path(directory));
  if (!file && file.error().code == Errc::conflict) return already_kept(directory);
  if (!file) return std::move(file).error();
  const std::string text =
      fmt::format("{} {}\n", ::getpid(), process_start_time(::getpid()).value_or(0));
  if (::ftruncate(file->get(), 0) != 0 ||
      ::write(file->get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return system_error("writing " + lock_path(directory));
  }
  return file;
}

std::optional<KeeperIdentity> running_keeper(const std::string& directory) {
  const auto keeper = read_identity(directory);
  if (!keeper || process_start_time(keeper->pid) != keeper->start_time) return std::nullopt;
  return keeper;
}

}  // namespace gpuyard::sim
