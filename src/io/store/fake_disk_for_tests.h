// A disk in memory that knows what a power cut would leave of it: all that was synced, and any part
// of the rest. Every operation on it is a value, so that the past can be done again up to any
// moment.
//
// It behaves as a real one: a sync covers one file; a name is on the disk when its directory is
// synced, and names come in order; each sector of 512 bytes that was not synced is there, is not,
// or only its beginning is; a sync that fails may leave what it covered unwritten, and the next
// does not try it again. A write spoils no byte beside it ("powersafe overwrite", which SQLite
// expects of every disk).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpuyard::store {

using Random = std::mt19937_64;

inline bool chance(Random& random, double probability) {
  return std::uniform_real_distribution<double>(0, 1)(random) < probability;
}
inline std::size_t below(Random& random, std::size_t limit) {
  return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

using FileNumber = std::uint64_t;  // as an inode: a name may go, and another come

struct DiskStep {
  enum class Kind : std::uint8_t { create, remove, write, truncate, sync, failed_sync, sync_names };
  Kind kind;
  FileNumber file = 0;
  std::string name = {};
  std::size_t at = 0;                             // where it is written, or the new size
  std::shared_ptr<const std::string> bytes = {};  // that are written
  std::uint64_t seed = 0;                         // decides what a failed sync leaves
};

class DiskState {
 public:
  void take(const DiskStep& step) {
    switch (step.kind) {
      case DiskStep::Kind::create:
        names_[step.name] = step.file;
        files_[step.file];
        unsynced_names_.push_back(step);
        break;
      case DiskStep::Kind::remove:
        names_.erase(step.name);
        unsynced_names_.push_back(step);
        break;
      case DiskStep::Kind::write:
      case DiskStep::Kind::truncate:
        change(files_[step.file].now, step);
        files_[step.file].unsynced.push_back(step);
        break;
      case DiskStep::Kind::sync:
        for (const DiskStep& one : files_[step.file].unsynced) {
          change(files_[step.file].synced, one);
        }
        files_[step.file].unsynced.clear();
        break;
      case DiskStep::Kind::failed_sync: {
        Random random(step.seed);
        leave_some(files_[step.file], random, chance(random, 0.5) ? 0 : 0.5);
        break;
      }
      case DiskStep::Kind::sync_names:
        for (const DiskStep& one : unsynced_names_) rename(one);
        unsynced_names_.clear();
        break;
    }
  }

  // Cuts the power and restores it.
  void cut(Random& random) {
    constexpr std::array kKept = {0.0, 0.5, 0.9, 1.0};
    const double kept = kKept[below(random, kKept.size())];
    const std::size_t names = below(random, unsynced_names_.size() + 1);
    for (std::size_t i = 0; i < names; ++i) rename(unsynced_names_[i]);
    unsynced_names_.clear();
    for (auto& [number, file] : files_) {
      leave_some(file, random, kept);
      file.now = file.synced;
    }
    names_ = synced_names_;
    std::erase_if(files_, [&](const auto& file) { return !has_name(file.first); });
  }

  std::optional<FileNumber> find(const std::string& name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? std::nullopt : std::optional(found->second);
  }
  const std::string& content(FileNumber file) const {
    static const std::string kNone;
    const auto found = files_.find(file);
    return found == files_.end() ? kNone : found->second.now;
  }
  std::size_t used() const {
    std::size_t bytes = 0;
    for (const auto& [number, file] : files_) bytes += has_name(number) ? file.now.size() : 0;
    return bytes;
  }
  // Sets what a file contains, as if it were synced: to make damage.
  void set(FileNumber file, const std::string& content) { files_[file] = {content, content, {}}; }

 private:
  static constexpr std::size_t kSector = 512;

  struct File {
    std::string now;     // as programs see it
    std::string synced;  // as the disk has it
    std::vector<DiskStep> unsynced;
  };

  static void put(std::string& content, std::size_t at, std::string_view bytes) {
    if (content.size() < at + bytes.size()) content.resize(at + bytes.size());
    std::ranges::copy(bytes, content.begin() + static_cast<std::ptrdiff_t>(at));
  }
  static void change(std::string& content, const DiskStep& step) {
    if (step.kind == DiskStep::Kind::truncate) {
      content.resize(step.at);
    } else {
      put(content, step.at, *step.bytes);
    }
  }
  void rename(const DiskStep& step) {
    if (step.kind == DiskStep::Kind::create) {
      synced_names_[step.name] = step.file;
    } else {
      synced_names_.erase(step.name);
    }
  }
  bool has_name(FileNumber number) const {
    const auto is_it = [&](const auto& entry) { return entry.second == number; };
    return std::ranges::any_of(names_, is_it) || std::ranges::any_of(synced_names_, is_it);
  }

  // Keeps each part that is not synced with probability `kept`; the rest is never written.
  static void leave_some(File& file, Random& random, double kept) {
    for (const DiskStep& step : file.unsynced) {
      if (step.kind == DiskStep::Kind::write) {
        write_some(file.synced, step, random, kept);
      } else if (chance(random, kept)) {
        change(file.synced, step);
      }
    }
    file.unsynced.clear();
  }
  static void write_some(std::string& content, const DiskStep& step, Random& random, double kept) {
    const std::string_view bytes = *step.bytes;
    for (std::size_t from = 0; from < bytes.size();) {
      const std::size_t to = std::min(bytes.size(), from + kSector - (step.at + from) % kSector);
      const bool torn = chance(random, 0.1);
      const std::size_t length = torn ? below(random, to - from + 1) : to - from;
      if (torn || chance(random, kept)) put(content, step.at + from, bytes.substr(from, length));
      from = to;
    }
  }
  std::map<std::string, FileNumber> names_;
  std::map<std::string, FileNumber> synced_names_;
  std::vector<DiskStep> unsynced_names_;
  std::map<FileNumber, File> files_;
};

}  // namespace gpuyard::store
