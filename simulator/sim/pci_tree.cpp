#include "sim/pci_tree.h"

#include <sys/stat.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/files.h"
#include "base/try.h"
#include "sim/pci_address.h"
#include "sim/pci_files.h"

namespace gpuyard::sim {
namespace {

constexpr unsigned kFileMode = 0644;
constexpr unsigned kLastUseMode = 0666;  // any user's program may use a GPU

std::chrono::nanoseconds modified_at(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return {};
  return std::chrono::seconds(status.st_mtim.tv_sec) +
         std::chrono::nanoseconds(status.st_mtim.tv_nsec);
}

Result<void> write_status(const std::string& directory, const char* status) {
  return replace_file(directory + "/power/runtime_status", fmt::format("{}\n", status), kFileMode);
}

Result<void> write_slot(const std::string& directory, std::chrono::milliseconds delay) {
  GPUYARD_TRY(make_directories(directory + "/power"));
  GPUYARD_TRY(replace_file(directory + "/power/control", "auto\n", kFileMode));
  GPUYARD_TRY(replace_file(directory + "/power/autosuspend_delay_ms",
                           fmt::format("{}\n", delay.count()), kFileMode));
  GPUYARD_TRY(replace_file(directory + "/" + kLastUseFile, "", kLastUseMode));
  return write_status(directory, "active");
}

}  // namespace

Result<std::unique_ptr<PciTree>> PciTree::create(const std::string& world_directory,
                                                 const World& world,
                                                 std::chrono::milliseconds delay) {
  std::unique_ptr<PciTree> tree(new PciTree(world_directory, delay));
  for (const Gpu& gpu : world.gpus) {
    Slot slot{.directory = fmt::format("{}/{}/{}", world_directory, kPciDirectory,
                                       sysfs_pci_address(gpu.identity).data()),
              .used_at = BootClock::now()};
    GPUYARD_TRY(write_slot(slot.directory, delay));
    tree->slots_.push_back(std::move(slot));
  }
  return tree;
}

PciTree::~PciTree() {
  remove_pci_tree(world_directory_);
}

void remove_pci_tree(const std::string& world_directory) {
  namespace fs = std::filesystem;
  const fs::path root = world_directory + "/" + kPciDirectory;
  std::error_code failed;
  if (!fs::is_directory(fs::symlink_status(root, failed))) return;
  std::vector<fs::path> slots;
  for (auto entry = fs::directory_iterator(root, failed);
       !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    if (fs::exists(entry->path() / kLastUseFile, failed)) slots.push_back(entry->path());
  }
  for (const fs::path& slot : slots) fs::remove_all(slot, failed);
  fs::remove(root, failed);  // fails if anything else is in it
}

void PciTree::update(const World& world, TimePoint now) {
  if (updated_at_ && now - *updated_at_ < kPeriod) return;
  updated_at_ = now;
  for (std::size_t place = 0; place < slots_.size(); ++place) {
    Slot& slot = slots_[place];
    const auto last_use = modified_at(slot.directory + "/" + kLastUseFile);
    const bool called = last_use != std::exchange(slot.last_use, last_use);
    const Gpu& gpu = world.gpus[place];
    if (called || gpu.demand.load > 0 || !gpu.processes.list().empty()) slot.used_at = now;
    const bool suspended = now - slot.used_at >= delay_;
    if (suspended == slot.suspended) continue;
    const auto written = write_status(slot.directory, suspended ? "suspended" : "active");
    if (written) slot.suspended = suspended;  // else it is tried again
  }
}

}  // namespace gpuyard::sim
