// The format of a recording: a text file with one JSON object a line. The first line is the header;
// each other line has the changes of one GPU at one moment. Units and words are those of the REST
// API, so that any program can read it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "faces/protocol/resources.h"
#include "gpu/device/process.h"

namespace gpuyard::recording {

inline constexpr int kFormatVersion = 1;
// Longer than any recording, and well within what a Duration can hold.
inline constexpr std::chrono::milliseconds kMaxRecordingLength = std::chrono::hours(24 * 365 * 100);
// Bytes; a GPU with a full list of processes needs a tenth of it.
inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20U;

struct Header {
  int gpuyard_recording = kFormatVersion;
  std::string began_at;  // RFC 3339
  bool simulated = false;
  protocol::DriverInfo driver;
};
BOOST_DESCRIBE_STRUCT(Header, (), (gpuyard_recording, began_at, simulated, driver))

// The names by which people know a GPU.
struct GpuIdentity {
  std::uint32_t index = 0;
  std::string uuid;
  std::string pci_address;
  std::string name;

  friend bool operator==(const GpuIdentity&, const GpuIdentity&) = default;
};
BOOST_DESCRIBE_STRUCT(GpuIdentity, (), (index, uuid, pci_address, name))

// Rows of the catalog by their JSON keys; missing rows are left out.
struct RecordedReadings {
  Sample sample;
};
void put_json(std::string& out, const RecordedReadings&);
void read_json(const boost::json::value& from, RecordedReadings& to, const std::string& path,
               json::Problems&);

// The changes of one moment; a field that is left out has not changed.
struct RecordingLine {
  std::int64_t t_ms = 0;                         // since the recording began
  std::optional<std::vector<GpuIdentity>> gpus;  // all GPUs from now on
  std::optional<std::uint32_t> gpu;  // the index of the GPU that the other fields describe
  std::optional<DeviceCondition> condition;
  std::optional<std::string> why;
  std::optional<RecordedReadings> readings;
  std::optional<protocol::Reasons> missing;  // of `readings`
  std::optional<std::vector<GpuProcess>> processes;
};
BOOST_DESCRIBE_STRUCT(RecordingLine, (),
                      (t_ms, gpus, gpu, condition, why, readings, missing, processes))

// Both return text with its line end.
std::string text_of(const Header&);
std::string text_of(const RecordingLine&);

Result<Header> parse_header(std::string_view);
Result<RecordingLine> parse_line(std::string_view);

// Turns snapshots into a recording's lines: the changes since the snapshot before. Pure; writes no
// file.
class RecordingEncoder {
 public:
  // Returns the changes at `at`, the time since the recording began; the first time with the
  // header. "" if nothing changed.
  std::string encode(const protocol::Snapshot&, Duration at);

 private:
  struct GpuRecord {
    DeviceCondition condition = DeviceCondition::responsive;
    std::optional<std::string> why;
    Sample sample;
    std::optional<std::vector<GpuProcess>> processes;
  };

  static RecordingLine diff_line(const GpuRecord& now, const GpuRecord* before);

  bool header_written_ = false;
  std::vector<GpuIdentity> gpus_;
  std::map<std::uint32_t, GpuRecord> last_records_;
};

}  // namespace gpuyard::recording
