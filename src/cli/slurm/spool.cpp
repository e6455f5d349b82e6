#include "cli/slurm/spool.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/files.h"
#include "base/json_reader.h"
#include "base/json_writer.h"

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
  constexpr std::size_t kMost = std::size_t{64} * 1024;
  auto text = read_file(path(name), kMost);
  if (!text) return std::nullopt;
  return *std::move(text);
}

void Spool::write(const std::string& name, const std::string& text) const {
  if (!make_private_directory(directory_)) return;
  static_cast<void>(replace_file(path(name), text, 0600).ok());
}

bool Spool::drop(const std::string& name) const {
  return ::unlink(path(name).c_str()) == 0;
}

std::vector<std::string> Spool::noted(const std::string& prefix) const {
  std::vector<std::string> jobs;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix)) jobs.push_back(name.substr(prefix.size()));
  }
  std::ranges::sort(jobs);
  return jobs;
}

Result<UniqueFd> Spool::lock() const {
  if (auto made = make_private_directory(directory_); !made) return made.error();
  return lock_file(path("lock"));
}

std::optional<Told> Spool::told() const {
  return read_as<Told>(read("told"));
}

void Spool::tell(const Told& told) const {
  write("told", json::to_json(told));
}

std::optional<Devices> Spool::devices() const {
  return read_as<Devices>(read("devices"));
}

void Spool::keep(const Devices& devices) const {
  write("devices", json::to_json(devices));
}

void Spool::note_begin(const std::string& job, const protocol::JobWish& wish) const {
  if (begun().size() < kMostNotes) write("begin-" + job, json::to_json(wish));
}

void Spool::note_end(const std::string& job) const {
  if (ended().size() < kMostNotes) write("end-" + job, "");
}

std::optional<protocol::JobWish> Spool::begin_of(const std::string& job) const {
  return read_as<protocol::JobWish>(read("begin-" + job));
}

}  // namespace gpuyard::cli::slurm
