#include "base/trusted_file.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/files.h"
#include "base/text.h"

namespace gpuyard {
namespace {

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
