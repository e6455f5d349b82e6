// The readings are those of `gpuyard devices --simulate 2`. They pass through the same conversions
// as real ones, so that a new row of the catalog is in every example at once: as not supported,
// until it gets a value here. Everything else is text in examples.json.
#include "faces/api/examples.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <boost/json.hpp>

#include "base/json_writer.h"
#include "base/try.h"
#include "faces/api/principal.h"
#include "faces/protocol/processes.h"
#include "faces/protocol/resources.h"
#include "gpu/device/catalog.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard::api {

extern const std::string_view kExamplesJson;  // the build makes it of examples.json

namespace {

namespace bj = boost::json;

constexpr TimePoint kSnapshotTime{std::chrono::hours(1)};
constexpr WallTime kSnapshotWallTime{
    std::chrono::milliseconds(1'767'225'600'250)};  // the first second of 2026
constexpr auto kReadingAge = std::chrono::milliseconds(250);

// A number in the row's native unit, or a text.
struct Value {
  Metric metric;
  std::variant<Missing, std::int64_t, std::string> value;
};

std::vector<Value> common_values() {
  return {{Metric::brand, "NVIDIA"},
          {Metric::architecture, "Hopper"},
          {Metric::compute_capability, "9.0"},
          {Metric::memory_total, 85'520'809'984},
          {Metric::memory_reserved, 629'145'600},
          {Metric::power_limit, 700'000},
          {Metric::power_limit_set, 700'000},
          {Metric::power_limit_default, 700'000},
          {Metric::power_limit_min, 200'000},
          {Metric::power_limit_max, 700'000},
          {Metric::clock_graphics_max, 1980},
          {Metric::clock_sm_max, 1980},
          {Metric::clock_memory, 2619},
          {Metric::clock_memory_max, 2619},
          {Metric::ecc_mode, 1},
          {Metric::ecc_mode_pending, 1},
          {Metric::persistence_mode, 0},
          {Metric::compute_mode, 0},
          {Metric::mig_mode, 0},
          {Metric::mig_mode_pending, 0}};
}

std::vector<Value> busy_values() {
  constexpr std::int64_t kSwPowerCap = 4;
  return {{Metric::memory_free, 8'489'166'439},
          {Metric::memory_used, 77'031'643'545},
          {Metric::utilization_gpu, 97},
          {Metric::utilization_memory, 58},
          {Metric::temperature_core, 66},
          {Metric::power_draw, 604'551},
          {Metric::energy_total, 45'242'980},
          {Metric::clock_graphics, 1965},
          {Metric::clock_sm, 1965},
          {Metric::performance_state, 0},
          {Metric::throttle_reasons, kSwPowerCap}};
}

std::vector<Value> idle_values() {
  constexpr std::int64_t kIdle = 1;
  return {{Metric::memory_free, 84'891'664'384},
          {Metric::memory_used, 629'145'600},
          {Metric::utilization_gpu, 0},
          {Metric::utilization_memory, 0},
          {Metric::temperature_core, 34},
          {Metric::power_draw, 70'000},
          {Metric::energy_total, 5'040'000},
          {Metric::clock_graphics, 345},
          {Metric::clock_sm, 345},
          {Metric::performance_state, 0},
          {Metric::throttle_reasons, kIdle}};
}

Sample sample_of(const std::vector<Value>& values) {
  Sample sample;
  for (const MetricRow& row : catalog()) {
    if (row.subject != MetricSubject::device) continue;
    sample.set(
        {row.metric, 0, kSnapshotTime - kReadingAge, Missing{MissingReason::not_supported, {}}});
  }
  for (const std::vector<Value>& some : {common_values(), values}) {
    for (const Value& one : some)
      sample.set({one.metric, 0, kSnapshotTime - kReadingAge, one.value});
  }
  return sample;
}

gpuyard::DriverInfo driver() {
  return {"535.104.05", "12.2", "12.535.104", "libnvidia-ml.so.1", true};
}

constexpr std::uint32_t kTrainerPid = 4711;

// Knows the only process of the examples.
class ExampleProcesses final : public ProcessDirectory {
 public:
  ExampleProcesses() {
    facts_.pid = kTrainerPid;
    facts_.started = TimePoint(std::chrono::minutes(12));
    facts_.started_at = kSnapshotWallTime - std::chrono::minutes(48);
    facts_.uid = facts_.real_uid = 1000;
    facts_.command = "python3";
    facts_.user = std::string("alice");
    facts_.arguments = std::vector<std::string>{"python3", "train.py", "--epochs", "90"};
    CgroupInfo placement;
    placement.slurm_job = "1234";
    placement.slurm_step = "0";
    placement.unit = "slurmstepd.scope";
    placement.slice = "system.slice";
    facts_.cgroup = placement;
  }
  Result<const ProcessMetadata*> find(std::uint32_t) const override { return &facts_; }
  std::uint64_t revision() const override { return 0; }

 private:
  ProcessMetadata facts_;
};

ProcessList trainer_process() {
  constexpr std::int64_t kMemory = 76'402'497'945;
  constexpr std::int64_t kShare = 97;
  return {kSnapshotTime - kReadingAge,
          std::vector{GpuProcess{kTrainerPid, ProcessKind::compute, kMemory, kShare}}};
}

DeviceState device(std::uint32_t index, const char* uuid, const char* pci_address,
                   const std::vector<Value>& values) {
  DeviceState state;
  state.info = {uuid, index, uuid, pci_address, "NVIDIA H100 80GB HBM3", {}};
  state.sample = sample_of(values);
  return state;
}

gpuyard::Snapshot snapshot() {
  gpuyard::Snapshot snapshot;
  snapshot.generation = 42;
  snapshot.taken = kSnapshotTime;
  snapshot.wall = kSnapshotWallTime;
  snapshot.driver = {true, "", driver()};
  snapshot.devices = {
      device(0, "GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc", "0000:11:00.0", busy_values()),
      device(1, "GPU-605b2143-4b29-4751-859c-a43e91df2009", "0000:14:00.0", idle_values())};
  snapshot.devices.front().sample.set(trainer_process());
  snapshot.devices.back().sample.set(
      ProcessList{kSnapshotTime - kReadingAge, std::vector<GpuProcess>{}});
  return snapshot;
}

protocol::GPUDevicesResponse gpu_devices() {
  protocol::GPUDevicesResponse response;
  for (const DeviceState& device : snapshot().devices) {
    response.devices.push_back(gpu_device_of(device));
  }
  response.count = response.devices.size();
  return response;
}

template <class Record>
void add(bj::object& records, const Record& record) {
  records[json::schema_name<Record>] = bj::parse(json::to_json(record));
}

bj::object all_examples() {
  bj::object all = bj::parse(kExamplesJson).as_object();
  bj::object& records = all["records"].as_object();
  const gpuyard::Snapshot now = snapshot();
  const DeviceState& busy = now.devices.front();
  const ExampleProcesses directory;
  add(records, gpu_devices());
  add(records, protocol::device_of(busy, kSnapshotTime, &directory));
  add(records, protocol::device_processes_of(busy, kSnapshotTime, &directory,
                                             [](const ProcessMetadata&) { return true; }));
  add(records, protocol::driver_info_of(driver()));
  add(records, protocol::snapshot_of(now, &directory));
  protocol::Readiness ready = protocol::readiness_of(now);
  ready.now = to_rfc3339(kSnapshotWallTime);
  ready.reads_kernel_log = false;
  add(records, ready);
  return all;
}

std::string_view text_in(const bj::object& texts, std::string_view name) {
  const bj::value* text = texts.if_contains(name);
  return text == nullptr ? std::string_view() : std::string_view(text->as_string());
}

}  // namespace

Examples::Examples() : all_(std::make_unique<bj::object>(all_examples())) {}
Examples::~Examples() = default;

const bj::value* Examples::record(std::string_view schema) const {
  return all_->at("records").as_object().if_contains(schema);
}

std::string_view Examples::text(const protocol::RouteInfo& route) const {
  return text_in(all_->at("texts").as_object(), route.pattern);
}

std::string_view Examples::parameter(const protocol::RouteInfo& route,
                                     std::string_view name) const {
  if (!route.csv.empty()) {
    const auto text = text_in(all_->at("parameters_of_csv").as_object(), name);
    if (!text.empty()) return text;
  }
  if (const bj::value* const own =
          all_->at("parameters_of").as_object().if_contains(route.pattern)) {
    const auto text = text_in(own->as_object(), name);
    if (!text.empty()) return text;
  }
  return text_in(all_->at("parameters").as_object(), name);
}

Error Examples::error(Errc code, const protocol::RouteInfo& route) const {
  if (code == Errc::denied) {
    const Principal stranger;
    GPUYARD_TRY(authorise(stranger, route, Authority(0, "gpuyard", 0)));
  }
  if (const bj::value* texts = all_->at("errors").as_object().if_contains(name_of(code))) {
    for (const auto& [of, text] : texts->as_object()) {
      if (route.tag == of || route.pattern.find(of) != route.pattern.npos) {
        return {code, std::string(text.as_string())};
      }
    }
  }
  return {code, std::string(name_of(code))};
}

}  // namespace gpuyard::api
