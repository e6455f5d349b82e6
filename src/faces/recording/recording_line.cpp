#include "faces/recording/recording_line.h"

#include <algorithm>

#include <fmt/format.h>
#include <boost/json.hpp>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "gpu/device/catalog.h"

namespace gpuyard::recording {

void put_json(std::string& out, const RecordedReadings& readings) {
  protocol::put_rows(out, readings.sample, protocol::AbsentPolicy::skip);
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

// Compares values and reasons; times are not recorded.
bool has_same_values(std::span<const Reading> a, std::span<const Reading> b) {
  return std::ranges::equal(a, b, [](const Reading& one, const Reading& other) {
    return one.index == other.index && one.value == other.value;
  });
}

bool has_changes(const RecordingLine& line) {
  return line.condition || line.why || line.readings || line.processes;
}

}  // namespace

RecordingLine RecordingEncoder::diff_line(const GpuRecord& now, const GpuRecord* before) {
  RecordingLine line;
  if (before == nullptr || before->condition != now.condition || before->why != now.why) {
    line.condition = now.condition;
    line.why = now.why;
  }
  RecordedReadings changed;
  protocol::Reasons missing;
  for (const MetricRow& row : catalog()) {
    const auto readings = now.sample.all(row.metric);
    if (before != nullptr && has_same_values(readings, before->sample.all(row.metric))) continue;
    for (const Reading& reading : readings) {
      changed.sample.set(reading);
      if (const Missing* why = reading.missing()) {
        missing[protocol::json_key(row, reading.index)] = *why;
      }
    }
  }
  if (!changed.sample.readings().empty()) line.readings = std::move(changed);
  if (!missing.empty()) line.missing = std::move(missing);
  if (before == nullptr || before->processes != now.processes) line.processes = now.processes;
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
    last_records_.clear();
    gpus_ = gpus;
    RecordingLine line;
    line.t_ms = t_ms;
    line.gpus = std::move(gpus);
    out += text_of(line);
  }
  for (const auto& device : snapshot.devices) {
    GpuRecord now{device.condition, device.why,
                  protocol::with_reasons(device.readings, device.missing),
                  protocol::gpu_processes_of(device.processes)};
    const auto known = last_records_.find(device.index);
    RecordingLine line = diff_line(now, known != last_records_.end() ? &known->second : nullptr);
    line.t_ms = t_ms;
    line.gpu = device.index;
    if (has_changes(line)) out += text_of(line);
    last_records_[device.index] = std::move(now);
  }
  return out;
}

}  // namespace gpuyard::recording
