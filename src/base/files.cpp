#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/text.h"

namespace gpuyard {
namespace {

Errc errc_of(int code) {
  switch (code) {
    case ENOENT:
      return Errc::not_found;
    case EACCES:
    case EPERM:
      return Errc::denied;
    case EADDRINUSE:
    case EEXIST:
      return Errc::conflict;
    default:
      return Errc::internal;
  }
}

// Makes one directory. The caller judges whatever exists there already.
Result<void> make_directory(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), mode) != 0) {
    if (errno == EEXIST) return {};
    return system_error("creating " + path);
  }
  // Sets the mode through the open directory: under a umask of 077 others could not enter
  // directories made for them.
  const UniqueFd made(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!made || ::fchmod(made.get(), mode) != 0) return system_error("setting the mode of " + path);
  return {};
}

std::string without_trailing_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

DeniedFileOpener& denied_file_opener() {
  static DeniedFileOpener instance;
  return instance;
}

bool is_denied(int error) {
  return error == EACCES || error == EPERM;
}

constexpr int kMaxSymlinks = 40;  // the kernel's own limit

// The remaining steps of a path, the next one last.
class PathSteps {
 public:
  void prepend(const std::filesystem::path& path) {
    std::vector<std::string> steps;
    for (const auto& step : path) steps.push_back(step.string());
    steps_.insert(steps_.end(), steps.rbegin(), steps.rend());
  }
  bool empty() const { return steps_.empty(); }
  std::string take() {
    std::string step = std::move(steps_.back());
    steps_.pop_back();
    return step;
  }

 private:
  std::vector<std::string> steps_;
};

bool is_null_device(const struct stat& info) {
  return S_ISCHR(info.st_mode) && info.st_rdev == ::makedev(1, 3);
}

std::string_view kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "link";
    case S_IFIFO:
      return "pipe";
    case S_IFSOCK:
      return "socket";
    default:
      return "device";
  }
}

struct Trust {
  std::vector<uid_t> owners;
  std::vector<gid_t> groups;  // that may write
};

struct Fault {
  std::string what;
  std::string hint;  // empty if there is no command for it
};

// Returns how another user could write to `place`. A command is suggested only for regular files:
// other programs may need a directory, a device or a link's target as it is.
std::optional<Fault> fault_of(const std::string& place, const struct stat& info,
                              const Trust& trust) {
  if (is_null_device(info)) return std::nullopt;
  const bool file = S_ISREG(info.st_mode);
  const std::string mode =
      fmt::format("{}mode {:04o}", file ? "" : fmt::format("a {}, ", kind_of(info.st_mode)),
                  info.st_mode & 07777U);
  const auto hint = [&](std::string_view command) {
    return file ? fmt::format("{} {}", command, quote_shell_word(place)) : "";
  };
  if (std::ranges::count(trust.owners, info.st_uid) == 0) {
    return Fault{fmt::format("{} belongs to UID {} ({})", place, info.st_uid, mode),
                 hint("chown root:root")};
  }
  const bool link = S_ISLNK(info.st_mode);
  const bool owners_alone = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  const bool by_group =
      (info.st_mode & S_IWGRP) != 0 && std::ranges::count(trust.groups, info.st_gid) == 0;
  if (link || owners_alone || !(by_group || (info.st_mode & S_IWOTH) != 0)) return std::nullopt;
  const std::string owner =
      info.st_uid == 0 ? "root" : fmt::format("UID {}", static_cast<unsigned>(info.st_uid));
  return Fault{
      fmt::format("other users can write to {}, which belongs to {} ({})", place, owner, mode),
      hint("chmod go-w")};
}

std::string step_into(const std::string& place, const std::string& step) {
  if (step == "/") return step;
  if (step == "..") return parent_directory(place);
  return place == "/" ? place + step : fmt::format("{}/{}", place, step);
}

// A missing file is an error other than Errc::invalid.
Result<void> check_trusted(const Trust& trust, const std::string& path, std::string_view why,
                           std::string_view remedy) {
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(path, failed);
  if (failed) return Error{Errc::not_found, path + " is not a path"};
  PathSteps steps;
  steps.prepend(absolute);
  std::string place = "/";
  for (int links = 0; !steps.empty();) {
    const std::string step = steps.take();
    if (step.empty() || step == ".") continue;
    const std::string next = step_into(place, step);
    struct stat info{};
    if (::lstat(next.c_str(), &info) != 0) return system_error("opening " + next);
    if (const auto fault = fault_of(next, info, trust)) {
      Error error{Errc::invalid, fmt::format("{}: {}, but {}", path, why, fault->what)};
      if (!remedy.empty()) {
        error.message.append("; ").append(remedy);
      } else if (fault->hint.empty()) {
        error.message += "; keep it in a directory that only root can write to";
      } else {
        error.hint = fault->hint;
      }
      return error;
    }
    if (!S_ISLNK(info.st_mode)) {
      place = next;
    } else if (++links <= kMaxSymlinks) {
      steps.prepend(std::filesystem::read_symlink(next, failed));
    } else {
      return Error{Errc::not_found, path + " has too many links"};
    }
  }
  return {};
}

// The code that reads the file reports what is missing.
Result<void> check_if_privileged(const Trust& trust, const std::string& path, std::string_view why,
                                 std::string_view remedy) {
  if (!has_privileges()) return {};
  auto trusted = check_trusted(trust, path, why, remedy);
  return trusted || trusted.error().code == Errc::invalid ? std::move(trusted) : Result<void>();
}

constexpr std::string_view kRunByRoot = "it controls what root runs";

}  // namespace

Error system_error(std::string_view doing) {
  const int code = errno;
  return Error{errc_of(code), fmt::format("{}: {}", doing, std::generic_category().message(code))};
}

void set_denied_file_opener(DeniedFileOpener open) {
  denied_file_opener() = std::move(open);
}

Result<UniqueFd> open_to_read(const std::string& path, int flags) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags));
  if (file) return file;
  const bool denied = is_denied(errno);
  const Error error = system_error("opening " + path);
  if (!denied || !denied_file_opener()) return error;
  auto given = denied_file_opener()(path);
  return given ? std::move(given) : Result<UniqueFd>(error);
}

Result<struct stat> stat_file(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) == 0) return info;
  const bool denied = is_denied(errno);
  const Error error = system_error("opening " + path);
  if (!denied || !denied_file_opener()) return error;
  const auto given = denied_file_opener()(path);
  if (!given || ::fstat(given->get(), &info) != 0) return error;
  return info;
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  const auto file = open_to_read(path);
  if (!file) return file.error();
  std::string text;
  std::array<char, 4096> chunk{};
  for (;;) {
    const ssize_t got = ::read(file->get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("reading " + path);
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > limit) {
      return Error{Errc::invalid, fmt::format("{} is larger than {} bytes", path, limit)};
    }
  }
}

std::string program_path() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

std::string parent_directory(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<void> make_directories(const std::string& path, unsigned mode) {
  for (std::size_t at = 1; at != std::string::npos;) {
    at = path.find('/', at);
    const std::string part = path.substr(0, at);
    if (auto made = make_directory(part, mode); !made) return made;
    if (at != std::string::npos) ++at;
  }
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return system_error("opening " + path);
  if (!S_ISDIR(info.st_mode)) return Error{Errc::conflict, path + " is not a directory"};
  return {};
}

Result<void> check_private_directory(const std::string& path) {
  const std::string name = without_trailing_slashes(path);  // with one, lstat would follow a link
  struct stat info{};
  if (::lstat(name.c_str(), &info) != 0) return system_error("opening " + name);
  if (!S_ISDIR(info.st_mode)) return Error{Errc::denied, name + " is not a directory"};
  if (info.st_uid != ::geteuid()) return Error{Errc::denied, name + " belongs to another user"};
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Error{Errc::denied, name + " is writable by other users"};
  }
  return {};
}

Result<void> make_private_directory(const std::string& path, unsigned mode) {
  if (auto made = make_directory(without_trailing_slashes(path), mode); !made) return made;
  return check_private_directory(path);
}

Result<void> replace_file(const std::string& path, std::string_view text, unsigned mode) {
  const std::string draft = path + ".new";
  ::unlink(draft.c_str());
  const UniqueFd file(
      ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  const bool written =
      file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.get()) == 0 && ::rename(draft.c_str(), path.c_str()) == 0;
  const Error why = system_error("writing " + path);
  if (written) return {};
  ::unlink(draft.c_str());
  return why;
}

Result<UniqueFd> lock_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) return system_error("opening " + path);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Error{Errc::conflict, path + " is locked by another process"};
    return system_error("locking " + path);
  }
  return file;
}

Result<void> check_trusted_by_root(const std::string& path, std::string_view why,
                                   std::string_view remedy) {
  if (why.empty()) {
    why = ::geteuid() == 0 ? kRunByRoot : "it controls what a process with capabilities runs";
  }
  return check_if_privileged({{0}, {0}}, path, why, remedy);
}

Result<void> check_trusted_by(const std::vector<uid_t>& owners, const std::string& path,
                              std::string_view why) {
  return check_if_privileged(
      {owners, {0, ::getegid()}}, path, why,
      "keep it in a directory that only root and the daemon's user can write to");
}

Result<void> check_only_root_can_change(const std::string& path) {
  return check_trusted({{0}, {0}}, path, kRunByRoot, {});
}

}  // namespace gpuyard
