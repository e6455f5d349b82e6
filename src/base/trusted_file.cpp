#include "base/trusted_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"

namespace gpuyard {
namespace {

constexpr int kMostLinks = 40;  // as the kernel follows

// The steps of a path that are still to be taken, the next one last.
class Way {
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

// What lets somebody else in, and the command that keeps him out.
std::optional<std::string> fault_of(const std::string& place, const struct stat& info) {
  if (info.st_uid != 0) {
    return fmt::format("{} belongs to uid {} (mode {:04o}); `chown root:root {}` makes it root's",
                       place, info.st_uid, info.st_mode & 07777U, place);
  }
  const bool link = S_ISLNK(info.st_mode);
  const bool owners_alone = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
  const bool by_group = info.st_gid != 0 && (info.st_mode & S_IWGRP) != 0;
  if (link || owners_alone || !(by_group || (info.st_mode & S_IWOTH) != 0)) return std::nullopt;
  return fmt::format(
      "others may write to {}, which is root's (mode {:04o}); `chmod go-w {}` ends "
      "that",
      place, info.st_mode & 07777U, place);
}

std::string step_into(const std::string& place, const std::string& step) {
  if (step == "/") return step;
  if (step == "..") return parent_directory(place);
  return place == "/" ? place + step : fmt::format("{}/{}", place, step);
}

}  // namespace

Result<void> check_trusted_by_root(const std::string& path) {
  std::error_code failed;
  const auto absolute = std::filesystem::absolute(path, failed);
  if (::geteuid() != 0 || failed) return {};
  Way way;
  way.prepend(absolute);
  std::string place = "/";
  for (int links = 0; !way.empty();) {
    const std::string step = way.take();
    if (step.empty() || step == ".") continue;
    const std::string next = step_into(place, step);
    struct stat info{};
    if (::lstat(next.c_str(), &info) != 0) return {};  // whoever reads it says why
    if (const auto fault = fault_of(next, info)) {
      return Error{Errc::invalid, fmt::format("{}: it says what root runs, and {}", path, *fault)};
    }
    if (!S_ISLNK(info.st_mode)) {
      place = next;
    } else if (++links <= kMostLinks) {
      way.prepend(std::filesystem::read_symlink(next, failed));
    } else {
      return {};
    }
  }
  return {};
}

}  // namespace gpuyard
