#include "cli/slurm/spool.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <ranges>
#include <thread>
#include <utility>

#include "base/files.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/try.h"

namespace gpuyard::cli::slurm {
namespace {

template <class Record>
std::optional<Record> read_as(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  auto record = json::from_json<Record>(*text, json::UnknownFields::ignore);
  if (!record) return std::nullopt;
  return *std::move(record);
}

}  // namespace

std::optional<std::string> Spool::read(const std::string& name) const {
  constexpr std::size_t kMaxFileBytes = std::size_t{64} * 1024;
  auto text = read_file(path(name), kMaxFileBytes);
  if (!text) return std::nullopt;
  return *std::move(text);
}

void Spool::write(const std::string& name, const std::string& text) const {
  if (!make_private_directory(directory_)) return;
  static_cast<void>(replace_file(path(name), text, 0600).ok());
}

bool Spool::remove_note(const std::string& name) const {
  return ::unlink(path(name).c_str()) == 0;
}

std::vector<std::string> Spool::saved_jobs(const std::string& prefix) const {
  std::vector<std::pair<std::filesystem::file_time_type, std::string>> jobs;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, none)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix) || name.ends_with(".new")) continue;
    jobs.emplace_back(entry.last_write_time(none), name.substr(prefix.size()));
  }
  std::ranges::sort(jobs);
  const auto names = std::views::values(jobs);
  return {names.begin(), names.end()};
}

Result<UniqueFd> Spool::lock(Duration timeout) const {
  constexpr auto kLockPollInterval = std::chrono::milliseconds(20);
  GPUYARD_TRY(make_private_directory(directory_));
  const TimePoint end = BootClock::now() + timeout;
  while (true) {
    auto lock = lock_file(path("lock"));
    const bool taken = !lock && lock.error().code == Errc::conflict;
    if (!taken || BootClock::now() >= end) return lock;
    std::this_thread::sleep_for(kLockPollInterval);
  }
}

std::optional<NodeReport> Spool::node_report() const {
  return read_as<NodeReport>(read("told"));
}

void Spool::save_node_report(const NodeReport& report) const {
  write("told", json::to_json(report));
}

std::optional<DeviceList> Spool::devices() const {
  return read_as<DeviceList>(read("devices"));
}

void Spool::save_devices(const DeviceList& devices) const {
  write("devices", json::to_json(devices));
}

void Spool::save_begin(const std::string& job, const JobNote& note) const {
  if (saved_begins().size() < kMaxNotes) write("begin-" + job, json::to_json(note));
}

void Spool::save_end(const std::string& job) const {
  if (saved_ends().size() < kMaxNotes) write("end-" + job, "");
}

std::optional<JobNote> Spool::find_begin(const std::string& job) const {
  return read_as<JobNote>(read("begin-" + job));
}

}  // namespace gpuyard::cli::slurm
