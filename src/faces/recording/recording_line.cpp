#include "faces/recording/recording_line.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "gpu/device/catalog.h"

namespace gpuyard::recording {

void put_json(std::string& out, const RecordedReadings& readings) {
  char separator = '{';
  for (const MetricRow& row : catalog()) {
    const auto all = readings.sample.all(row.metric);
    if (all.empty()) continue;
    out += std::exchange(separator, ',');
    json::put_string(out, json_key(row));
    out += ':';
    protocol::put_row(out, row, all);
  }
  if (separator == '{') out += '{';
  out += '}';
}

void read_json(const boost::json::value& from, RecordedReadings& to, const std::string& path,
               json::Problems& problems) {
  protocol::read_rows(from, to.sample, path, problems, protocol::AbsentPolicy::skip);
}

std::string text_of(const Header& header) {
  return json::to_json(header) + "\n";
}

std::string text_of(const RecordingLine& line) {
  std::string out;
  each_member<RecordingLine>([&](auto member) {
    using Field = std::remove_cvref_t<decltype(line.*member.pointer)>;
    if constexpr (is_optional<Field>) {
      if (!(line.*member.pointer)) return;
    }
    out += out.empty() ? '{' : ',';
    json::put_string(out, member.name);
    out += ':';
    json::put(out, line.*member.pointer);
  });
  return out + "}\n";
}

Result<Header> parse_header(std::string_view text) {
  auto header = json::from_json<Header>(text, json::UnknownFields::ignore);
  if (!header) return Error{Errc::invalid, "not a gpuyard recording"};
  if (header->gpuyard_recording != kFormatVersion) {
    return Error{Errc::unsupported,
                 fmt::format("the recording has format {}, but this program reads format {}",
                             header->gpuyard_recording, kFormatVersion)};
  }
  return header;
}

Result<RecordingLine> parse_line(std::string_view text) {
  auto line = json::from_json<RecordingLine>(text, json::UnknownFields::ignore);
  if (line && (line->t_ms < 0 || line->t_ms > kMaxRecordingLength.count())) {
    return Error{Errc::invalid, "/t_ms: out of range"};
  }
  return line;
}

namespace {

// Compares values only: times are not recorded, and reasons are compared by their words.
bool has_same_values(std::span<const Reading> a, std::span<const Reading> b) {
  return std::ranges::equal(a, b, [](const Reading& one, const Reading& other) {
    const bool both_missing = one.missing() != nullptr && other.missing() != nullptr;
    return one.index == other.index && (both_missing || one.value == other.value);
  });
}

// Returns whether the words for why `readings` are missing are unchanged.
bool has_same_reasons(const MetricRow& row, std::span<const Reading> readings,
                      const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& now) {
  return std::ranges::all_of(readings, [&](const Reading& reading) {
    if (reading.missing() == nullptr) return true;
    const auto was = before.find(protocol::json_key(row, reading.index));
    const auto is = now.find(protocol::json_key(row, reading.index));
    if (was == before.end() || is == now.end()) return was == before.end() && is == now.end();
    return was->second == is->second;
  });
}

bool has_changes(const RecordingLine& line) {
  return line.condition || line.why || line.readings || line.processes;
}

}  // namespace

RecordingLine RecordingEncoder::diff_line(const protocol::Device& device, const LastState* before) {
  RecordingLine line;
  line.gpu = device.index;
  if (before == nullptr || before->condition != device.condition || before->why != device.why) {
    line.condition = device.condition;
    line.why = device.why;
  }
  RecordedReadings changed;
  std::map<std::string, std::string> missing;
  for (const MetricRow& row : catalog()) {
    const auto now = device.readings.sample.all(row.metric);
    if (before != nullptr && has_same_values(now, before->sample.all(row.metric)) &&
        has_same_reasons(row, now, before->missing, device.missing)) {
      continue;
    }
    for (const Reading& reading : now) {
      changed.sample.set(reading);
      const auto why = device.missing.find(protocol::json_key(row, reading.index));
      if (why != device.missing.end()) missing.insert(*why);
    }
  }
  if (!changed.sample.readings().empty()) line.readings = std::move(changed);
  if (!missing.empty()) line.missing = std::move(missing);
  auto processes = protocol::gpu_processes_of(device.processes);
  if (before == nullptr || before->processes != processes) line.processes = std::move(processes);
  return line;
}

std::string RecordingEncoder::encode(const protocol::Snapshot& snapshot, Duration at) {
  std::string out;
  if (!std::exchange(header_written_, true)) {
    out += text_of(Header{kFormatVersion, snapshot.taken_at, snapshot.simulated, snapshot.driver});
  }
  const std::int64_t t_ms = to_milliseconds(at);
  std::vector<GpuIdentity> gpus;
  for (const auto& device : snapshot.devices) {
    gpus.push_back({device.index, device.uuid, device.pci_address, device.name});
  }
  if (gpus != gpus_) {
    // The indexes have changed, so everything recorded by index is void.
    last_states_.clear();
    gpus_ = gpus;
    RecordingLine line;
    line.t_ms = t_ms;
    line.gpus = std::move(gpus);
    out += text_of(line);
  }
  for (const auto& device : snapshot.devices) {
    const auto known = last_states_.find(device.index);
    RecordingLine line = diff_line(device, known != last_states_.end() ? &known->second : nullptr);
    line.t_ms = t_ms;
    if (has_changes(line)) out += text_of(line);
    last_states_[device.index] = {device.condition, device.why, device.readings.sample,
                                  device.missing, protocol::gpu_processes_of(device.processes)};
  }
  return out;
}

}  // namespace gpuyard::recording
