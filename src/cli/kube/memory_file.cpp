#include "cli/kube/memory_file.h"

#include <utility>

#include <boost/json.hpp>

#include "base/files.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "base/log.h"
#include "base/proc_stat.h"
#include "base/try.h"

namespace gpuyard {

// Nanoseconds since the boot.
static void put_json(std::string& out, const TimePoint& moment) {
  json::put(out, moment.time_since_epoch().count());
}
static void read_json(const boost::json::value& from, TimePoint& moment, const std::string& path,
                      json::Problems& problems) {
  boost::system::error_code error;
  const auto number = from.to_number<TimePoint::rep>(error);
  if (error) return problems.add(path, "expected nanoseconds");
  moment = TimePoint(Duration(number));
}

}  // namespace gpuyard

namespace gpuyard::cli::kube {
BOOST_DESCRIBE_STRUCT(FlapRecord, (),
                      (turned_bad_at, is_bad, is_flapping, good_since, rule, advice))
BOOST_DESCRIBE_STRUCT(PlacedAlert, (), (uuid, value))
BOOST_DESCRIBE_STRUCT(ReportedGpu, (), (rule, cordoned))
BOOST_DESCRIBE_STRUCT(ReportedEvents, (), (node_uid, driver_down, gpus))
BOOST_DESCRIBE_STRUCT(Memory, (),
                      (flaps, node_uid, standing_rules, deleted_rules, taint_stands, taint_alerts,
                       deleted_taint_alerts, allocatable_since, plugin_seen, reported,
                       plugin_restarts))

namespace {

constexpr std::size_t kMaxMemoryBytes = std::size_t{1} << 20;

struct SavedMemory {
  std::string boot_id;
  Memory memory;
};
BOOST_DESCRIBE_STRUCT(SavedMemory, (), (boot_id, memory))

// Gives the members that an older version did not save the values of an empty memory.
void add_new_members(boost::json::value& document) {
  auto* const saved = document.if_object();
  auto* const memory = saved != nullptr ? saved->if_contains("memory") : nullptr;
  if (memory == nullptr || !memory->is_object()) return;
  const auto empty = json::parse(json::to_json(Memory{}));
  for (const auto& member : empty->get_object()) {
    memory->get_object().emplace(member.key(), member.value());
  }
}

}  // namespace

std::string memory_text(const Memory& memory, std::string_view boot_id) {
  return json::to_json(SavedMemory{std::string(boot_id), memory});
}

Result<Memory> parse_memory(std::string_view text, std::string_view boot_id) {
  auto document = GPUYARD_TRY(json::parse(text));
  add_new_members(document);
  SavedMemory saved;
  const auto done =
      json::read(document, json::shape_of<SavedMemory>, &saved, json::UnknownFields::ignore);
  if (!done) return done.error();
  if (saved.boot_id != boot_id) return Error{Errc::not_found, "saved in another boot"};
  return std::move(saved.memory);
}

MemoryFile::MemoryFile(std::string path)
    : path_(std::move(path)), boot_id_(boot_id()), memory_(load()) {}

Memory MemoryFile::load() {
  if (path_.empty()) return {};
  auto text = read_file(path_, kMaxMemoryBytes);
  if (!text) {
    if (text.error().code != Errc::not_found) log::warning("{}", text.error().text());
    return {};
  }
  auto memory = parse_memory(*text, boot_id_);
  if (!memory) {
    log::info("{} is not used: {}", path_, memory.error().text());
    return {};
  }
  saved_ = *std::move(text);
  return *std::move(memory);
}

bool MemoryFile::save() {
  const auto written = write();
  const std::string error = written ? "" : written.error().text();
  if (!error.empty() && error != error_) {
    log::warning("{}; after a restart the agent has forgotten what an administrator deleted",
                 error);
  }
  error_ = error;
  return error_.empty();
}

Result<void> MemoryFile::write() {
  if (path_.empty()) return {};
  std::string text = memory_text(memory_, boot_id_);
  if (text == saved_) return {};
  GPUYARD_TRY(replace_file(path_, text, 0600));
  saved_ = std::move(text);
  return {};
}

}  // namespace gpuyard::cli::kube
