#include "cli/slurm/plan_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"
#include "base/text.h"
#include "base/try.h"

namespace gpuyard::cli::slurm {
namespace {

constexpr std::size_t kMaxPlannedFileBytes = std::size_t{16} * 1024 * 1024;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) lines.push_back(take_until('\n', text));
  return lines;
}

bool exists(const std::string& path) {
  struct stat found{};
  return ::lstat(path.c_str(), &found) == 0;
}

// Files that are being put into a directory. Without commit() they go again, and with them the
// directory if it is new.
class Placement {
 public:
  explicit Placement(std::string directory)
      : directory_(std::move(directory)), is_new_(!exists(directory_)) {}
  Placement(const Placement&) = delete;
  Placement& operator=(const Placement&) = delete;
  ~Placement() {
    std::error_code ignored;
    if (!stage_.empty()) std::filesystem::remove_all(stage_, ignored);
    if (committed_) return;
    for (const std::string& path : placed_) ::unlink(path.c_str());
    if (is_new_) ::rmdir(directory_.c_str());
  }

  Result<void> make_stage() {
    GPUYARD_TRY(make_private_directory(directory_));
    std::string path = directory_ + "/.plan-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return system_error("creating " + path);
    stage_ = path;
    return {};
  }
  Result<void> stage(const std::string& name, const ClusterFile& file) {
    return replace_file(stage_ + "/" + name, file.text, file.mode);
  }
  Result<void> place(const std::string& name, bool replaces) {
    const std::string from = stage_ + "/" + name;
    const std::string to = directory_ + "/" + name;
    const unsigned flags = replaces ? 0 : RENAME_NOREPLACE;
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) != 0) {
      return system_error("writing " + to);
    }
    placed_.push_back(to);
    return {};
  }
  void commit() { committed_ = true; }

 private:
  std::string directory_;
  bool is_new_;
  std::string stage_;
  std::vector<std::string> placed_;
  bool committed_ = false;
};

// Decides under which name a file goes into the directory.
Result<PlacedFile> placed_file(const std::string& directory, const ClusterFile& file) {
  const std::string path = directory + "/" + file.name;
  if (!exists(path)) return PlacedFile{file.name};
  if (file.keep_existing) return PlacedFile{file.name, PlacedFile::State::unchanged};
  const auto text = GPUYARD_TRY(read_file(path, kMaxPlannedFileBytes));
  if (text == file.text) return PlacedFile{file.name, PlacedFile::State::unchanged};
  PlacedFile placed{file.name + ".new", PlacedFile::State::beside};
  // A file for its owner alone may have a password.
  constexpr unsigned kForOthers = 077;
  if ((file.mode & kForOthers) != 0) placed.difference = line_difference(text, file.text);
  return placed;
}

}  // namespace

std::vector<std::string> line_difference(std::string_view old_text, std::string_view new_text) {
  const auto old_lines = lines_of(old_text);
  const auto new_lines = lines_of(new_text);
  std::vector<std::string> difference;
  const auto add_extra = [&](const auto& lines, const auto& others, char sign) {
    std::map<std::string_view, std::size_t> left;
    for (const std::string_view line : others) ++left[line];
    for (const std::string_view line : lines) {
      std::size_t& count = left[line];
      if (count > 0) {
        --count;
      } else {
        difference.push_back(fmt::format("{} {}", sign, line));
      }
    }
  };
  add_extra(old_lines, new_lines, '-');
  add_extra(new_lines, old_lines, '+');
  return difference;
}

Result<std::vector<PlacedFile>> place_files(const std::string& directory,
                                            const std::vector<ClusterFile>& files) {
  Placement placement(directory);
  GPUYARD_TRY(placement.make_stage());
  std::vector<PlacedFile> placed;
  for (const ClusterFile& file : files) {
    auto one = GPUYARD_TRY(placed_file(directory, file));
    if (one.state != PlacedFile::State::unchanged) GPUYARD_TRY(placement.stage(one.name, file));
    placed.push_back(std::move(one));
  }
  for (const PlacedFile& file : placed) {
    if (file.state == PlacedFile::State::unchanged) continue;
    GPUYARD_TRY(placement.place(file.name, file.state == PlacedFile::State::beside));
  }
  placement.commit();
  return placed;
}

}  // namespace gpuyard::cli::slurm
