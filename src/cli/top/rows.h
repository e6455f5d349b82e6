// The rows of each list: the object, its stable name, and the values by which people choose and
// order rows. An action is bound to the name, never to a place in a list.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/filter.h"
#include "cli/screen/screen.h"
#include "cli/top/screen_data.h"

namespace gpuyard::cli::top {

// The fields of GPUs (cli/read/gpu_filter.h), and of processes: vram in GiB, sm and cpu in
// percent. A process has the fields of its GPU, too.
inline constexpr std::array<std::string_view, 18> kFields = {
    "gpu",    "model", "util",    "mem", "temp", "power", "clock", "user", "why",
    "health", "pid",   "command", "sm",  "vram", "cpu",   "lease", "pod",  "job"};

std::size_t field_index(std::string_view name);

struct GpuRow {
  const protocol::Device* device = nullptr;
  std::string name;  // the UUID
  std::vector<FilterValue> values = {};
};

struct ProcessRow {
  const protocol::Process* process = nullptr;
  const protocol::Device* device = nullptr;
  std::string name;  // with the start: a pid may be another's later
  std::vector<FilterValue> values = {};
};

// A row that is drawn as one text.
struct TextRow {
  std::string name;  // empty: no action is possible
  std::string text;
  Tone tone = Tone::plain;
  std::string command = {};  // for a shell: drawn behind the text if all of it fits
};

// In the order of the data, into which they point.
std::vector<GpuRow> gpu_rows(const ScreenData&);
std::vector<ProcessRow> process_rows(const ScreenData&);
std::vector<TextRow> queue_rows(const ScreenData&);
std::vector<TextRow> alert_rows(const ScreenData&);
std::vector<TextRow> usage_rows(const ScreenData&);

// Prefixes of the names of rows.
inline constexpr std::string_view kLeasePrefix = "lease ";
inline constexpr std::string_view kProcessPrefix = "process ";
inline constexpr std::string_view kWithheldPrefix = "held ";
inline constexpr std::string_view kAlertPrefix = "alert ";

std::string name_of(const protocol::Device&);
std::string name_of(const protocol::Process&, const protocol::Device&);

// Whether `a` comes before `b` by this field; values that are not known come last either way.
bool is_before(const FilterValue& a, const FilterValue& b, bool descending);

// "2d01h" of a process or a lease.
std::string age_of(const std::optional<WallTime>& since, WallTime now);
// "61G", "0.3G", "12M"; "-" if it is not known.
std::string short_bytes(const std::optional<std::int64_t>& bytes);

}  // namespace gpuyard::cli::top
