#include "sim/world_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include <fmt/format.h>

#include "base/files.h"
#include "base/proc_stat.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "sim/command.h"
#include "sim/pci_tree.h"
#include "sim/world_file.h"

namespace gpuyard::sim {
namespace {

constexpr std::size_t kMaxLockBytes = 64;

std::string lock_path(const std::string& directory) {
  return directory + "/lock";
}

// "<pid> <start time>"
std::optional<LockOwner> parse_lock_owner(std::string_view text) {
  const auto pid = take_number<pid_t>(text);
  if (!pid || *pid <= 0 || text.empty()) return std::nullopt;
  text.remove_prefix(1);
  const auto start = take_number<std::uint64_t>(text);
  return start ? std::optional(LockOwner{*pid, *start}) : std::nullopt;
}

Error already_running_error(const std::string& directory) {
  const auto lock = WorldLock::open(directory);
  const auto owner = lock ? lock->owner() : std::nullopt;
  const std::string pid_text = owner ? fmt::format(" (PID {})", owner->pid) : "";
  return Error{Errc::conflict,
               fmt::format("a simulated world{} is already running in {}", pid_text, directory)};
}

// Recognises a world by its first bytes: any layout version, from any boot.
bool is_world(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  auto magic = std::array<char, 8>{};
  return ::pread(file.get(), magic.data(), magic.size(), 0) == static_cast<ssize_t>(magic.size()) &&
         magic == kWorldMagic;
}

bool is_of_kind(const std::string& path, mode_t kind) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && (info.st_mode & S_IFMT) == kind;
}

}  // namespace

Result<UniqueFd> acquire_world_lock(const std::string& directory) {
  auto file = lock_file(lock_path(directory));
  if (!file && file.error().code == Errc::conflict) return already_running_error(directory);
  if (!file) return std::move(file).error();
  const std::string text =
      fmt::format("{} {}\n", ::getpid(), process_start_time(::getpid()).value_or(0));
  if (::ftruncate(file->get(), 0) != 0 ||
      ::write(file->get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return system_error("writing " + lock_path(directory));
  }
  return file;
}

void remove_world_lock(const std::string& directory) {
  ::unlink(lock_path(directory).c_str());
}

Result<WorldLock> WorldLock::open(const std::string& directory) {
  const std::string path = lock_path(directory);
  UniqueFd file(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return system_error("opening " + path);
  struct stat info{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Error{Errc::denied, path + " is not a regular file"};
  }
  if (info.st_uid != ::geteuid()) return Error{Errc::denied, path + " belongs to another user"};
  return WorldLock(std::move(file));
}

bool WorldLock::try_acquire() {
  return ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
}

std::optional<LockOwner> WorldLock::owner() const {
  std::array<char, kMaxLockBytes> text{};
  const ssize_t got = ::pread(file_.get(), text.data(), text.size(), 0);
  if (got <= 0) return std::nullopt;
  return parse_lock_owner({text.data(), static_cast<std::size_t>(got)});
}

void remove_leftovers(const std::string& directory) {
  const std::string state = directory + "/" + kStateFile;
  const std::string socket = directory + "/" + kWorldSocket;
  if (is_world(state)) ::unlink(state.c_str());
  if (is_of_kind(socket, S_IFSOCK)) ::unlink(socket.c_str());
  const std::string library = stripped_nvml_path(directory);
  if (is_of_kind(library, S_IFREG)) ::unlink(library.c_str());
  const std::string smi = smi_link_path(directory);
  if (is_of_kind(smi, S_IFLNK)) ::unlink(smi.c_str());
  remove_pci_tree(directory);
}

}  // namespace gpuyard::sim
