// The readings are those of `gpuyard devices --simulate 2`. They pass through the same conversions
// as real ones, so that a new row of the catalog is in every example at once: as not supported,
// until it gets a value here.
#include "api/examples.h"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "api/principal.h"
#include "device/catalog.h"
#include "protocol/routes.h"

namespace gpuyard::api {
namespace {

constexpr TimePoint kTaken{std::chrono::hours(1)};
constexpr WallTime kWall{std::chrono::milliseconds(1'767'225'600'250)};  // the first second of 2026
constexpr auto kAge = std::chrono::milliseconds(250);

constexpr std::string_view kEventsExample =
    "retry: 2000\n\n"
    "id: 5f0c1d9be2a47b63-17\n"
    "event: resync\n"
    R"(data: {"reason":"new_listener","snapshot":{"schema":1,"simulated":true,"generation":42,)"
    R"("taken_at":"2026-01-01T00:00:00.250Z","driver_initialised":true,"driver_error":null,)"
    R"("devices":[{"index":0,"uuid":"GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc",)"
    R"("condition":"responsive","health":"healthy","utilization_gpu_percent":97,)"
    R"("temperature_core_c":66,"power_draw_w":604.551,"clock_sm_mhz":1965,)"
    R"("memory_used_bytes":77031643545,"memory_total_bytes":85520809984}]}})"
    "\n\n"
    "id: 5f0c1d9be2a47b63-18\n"
    "event: device\n"
    R"(data: {"at":"2026-01-01T00:00:07.250Z","device":"GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc",)"
    R"("index":0,"kind":"xid","severity":"stop","xid":79,"text":"Xid 79: The GPU has fallen off the bus."})"
    "\n\n"
    ":\n\n";

constexpr std::string_view kPowerExample =
    "retry: 2000\n\n"
    "event: power\n"
    R"(data: {"index":0,"uuid":"GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc","t_ms":1767225600250,)"
    R"("power_w":604.551,"instant":true,"why":null,"skipped":0})"
    "\n\n";

// A number in the row's native unit, or a text.
struct Value {
  Metric metric;
  std::variant<Missing, std::int64_t, std::string> value;
};

std::vector<Value> of_any_h100() {
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

std::vector<Value> of_a_busy_one() {
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

std::vector<Value> of_an_idle_one() {
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
  for (const Row& row : catalog()) {
    if (row.subject != Subject::device) continue;
    sample.set({row.metric, 0, kTaken - kAge, Missing{MissingReason::not_supported, {}}});
  }
  for (const std::vector<Value>& some : {of_any_h100(), values}) {
    for (const Value& one : some) sample.set({one.metric, 0, kTaken - kAge, one.value});
  }
  return sample;
}

gpuyard::DriverInfo driver() {
  return {"535.104.05", "12.2", "12.535.104", "libnvidia-ml.so.1", true};
}

constexpr std::uint32_t kTrainer = 4711;

// Knows the one process there is.
class ExampleBook final : public ProcessBook {
 public:
  ExampleBook() {
    facts_.pid = kTrainer;
    facts_.started = TimePoint(std::chrono::minutes(12));
    facts_.started_at = kWall - std::chrono::minutes(48);
    facts_.uid = facts_.real_uid = 1000;
    facts_.command = "python3";
    facts_.user = std::string("alice");
    facts_.arguments = std::vector<std::string>{"python3", "train.py", "--epochs", "90"};
    Placement placement;
    placement.slurm_job = "1234";
    placement.slurm_step = "0";
    placement.unit = "slurmstepd.scope";
    placement.slice = "system.slice";
    facts_.placement = placement;
  }
  Result<const ProcessFacts*> find(std::uint32_t) const override { return &facts_; }
  std::uint64_t revision() const override { return 0; }

 private:
  ProcessFacts facts_;
};

ProcessList trainer() {
  constexpr std::int64_t kMemory = 76'402'497'945;
  constexpr std::int64_t kShare = 97;
  return {kTaken - kAge, std::vector{GpuProcess{kTrainer, ProcessKind::compute, kMemory, kShare}}};
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
  snapshot.taken = kTaken;
  snapshot.wall = kWall;
  snapshot.driver = {true, "", driver()};
  snapshot.devices = {
      device(0, "GPU-ce751ccb-2c51-4ca8-8a5f-e1cbf99717fc", "0000:11:00.0", of_a_busy_one()),
      device(1, "GPU-605b2143-4b29-4751-859c-a43e91df2009", "0000:14:00.0", of_an_idle_one())};
  snapshot.devices.front().sample.set(trainer());
  snapshot.devices.back().sample.set(ProcessList{kTaken - kAge, std::vector<GpuProcess>{}});
  return snapshot;
}

}  // namespace

protocol::GPUDevicesResponse example_of(std::type_identity<protocol::GPUDevicesResponse>) {
  protocol::GPUDevicesResponse response;
  for (const DeviceState& device : snapshot().devices) {
    response.devices.push_back(protocol::gpu_device_of(device));
  }
  response.count = response.devices.size();
  return response;
}

protocol::Device example_of(std::type_identity<protocol::Device>) {
  const ExampleBook book;
  return protocol::device_of(snapshot().devices.front(), kTaken, &book);
}

protocol::DeviceProcesses example_of(std::type_identity<protocol::DeviceProcesses>) {
  const ExampleBook book;
  return protocol::device_processes_of(snapshot().devices.front(), kTaken, &book,
                                       [](const ProcessFacts&) { return true; });
}

protocol::History example_of(std::type_identity<protocol::History>) {
  constexpr std::int64_t kTen = 10'000;
  const DeviceState device = snapshot().devices.front();
  const std::int64_t first = kWall.time_since_epoch().count() / kTen * kTen;
  protocol::History history;
  history.simulated = true;
  history.index = device.info.index;
  history.uuid = device.info.uuid;
  history.name = device.info.name;
  history.metric = "power_draw_w";
  history.unit = "W";
  history.resolution = protocol::HistoryResolution::ten_seconds;
  history.step_ms = kTen;
  history.since = history.covers_since = to_rfc3339(kWall);
  history.until = to_rfc3339(kWall + std::chrono::hours(2));
  history.summary = {30, 70.0, 502.117, 611.902, 70.25};
  history.points = {{first, 590.117, 601.23, 611.902},
                    {first + kTen, 598.871, 604.551, 609.4},
                    {first + 2 * kTen, {}, {}, {}},
                    {first + 9 * kTen, 70.0, 71.5, 88.25}};
  return history;
}

protocol::DriverInfo example_of(std::type_identity<protocol::DriverInfo>) {
  return protocol::driver_info_of(driver());
}

protocol::Snapshot example_of(std::type_identity<protocol::Snapshot>) {
  const ExampleBook book;
  return protocol::snapshot_of(snapshot(), &book);
}

protocol::Health example_of(std::type_identity<protocol::Health>) {
  return {"ok", "0.1.0"};
}

protocol::Readiness example_of(std::type_identity<protocol::Readiness>) {
  return protocol::readiness_of(snapshot());
}

std::string_view text_example(const protocol::RouteInfo& route) {
  if (route.pattern == protocol::kEvents.pattern) return kEventsExample;
  if (route.pattern == protocol::kPowerStream.pattern) return kPowerExample;
  if (route.pattern != "/metrics") return "";
  return "# HELP gpuyard_gpu_temperature_celsius Core temperature.\n"
         "# TYPE gpuyard_gpu_temperature_celsius gauge\n"
         "gpuyard_gpu_temperature_celsius{device=\"0\"} 66\n"
         "gpuyard_gpu_temperature_celsius{device=\"1\"} 34\n";
}

std::string_view parameter_example(const protocol::RouteInfo& route, std::string_view name) {
  if (name == "since" && !route.csv.empty()) return "2h";
  if (name == "until" && !route.csv.empty()) return "10m";
  if (name == "id") return "0";
  if (name == "window") return kWindowExample;
  if (name == "operation") return kOperationExample;
  if (name == "lease") return kLeaseExample;
  if (name == "alert") return "42";
  if (name == "silence") return kSilenceExample;
  if (name == "rule") return "thermal";
  if (name == "fence") return "17";
  if (name == "signal") return "TERM";
  if (name == "gpu") return "0";
  if (name == "limit") return "20";
  if (name == "before") return "18";
  if (name == "file") return "swagger-ui.css";
  if (name == "gpus") return "0,1";
  if (name == "since" || name == "last_event_id") return "5f0c1d9be2a47b63-17";
  if (name == "follow") return "true";
  if (name == "samples") return "summary";
  if (name == "metric") return "power_draw";
  if (name == "since_s") return "604800";
  if (name == "by") return "user";
  return "";
}

Error error_example(Errc code, const protocol::RouteInfo& route) {
  switch (code) {
    case Errc::invalid:
      return {code, "unknown parameter \"fields\""};
    case Errc::not_found:
      if (route.pattern.ends_with("{window}")) return {code, "there is no open window \"9\""};
      if (route.pattern.ends_with("{operation}")) return {code, "there is no operation \"9\""};
      if (route.pattern.ends_with("{silence}")) return {code, "there is no silence \"9\""};
      if (route.pattern.ends_with("/alerts/test")) return {code, "there is no sink \"opss\""};
      if (route.pattern.find("{alert}") != route.pattern.npos) {
        return {code, "there is no alert 43; `gpuyard alerts` lists them"};
      }
      if (route.pattern.find("{lease}") != route.pattern.npos) {
        return {code, "there is no lease \"9\"; one that is over is forgotten after a day"};
      }
      return {code, "GPU index 2 is out of range"};
    case Errc::unavailable:
      return {code, "NVML Shared Library Not Found"};
    case Errc::denied: {
      const Principal stranger;
      if (auto permitted = authorise(stranger, route, Authority(0, "gpuyard", 0)); !permitted)
        return permitted.error();
      break;
    }
    case Errc::unsupported:
      return {code, "Not Supported"};
    case Errc::conflict:
      if (route.tag == "Alerts") {
        return {code, "alert 42 is over; there is nothing to acknowledge"};
      }
      if (route.tag == "Leases")
        return {code, "fence 16 is not the one of this lease, which is 17"};
      return {code, "uid 1001 has the GPU clocks of GPU 0 until 2026-01-01T01:00:00.000Z"};
    case Errc::busy:
      if (route.tag == "Alerts") {
        return {code, "there are 256 silences already; end some of them"};
      }
      if (route.tag == "Leases") return {code, "20000 claims wait already; try again later"};
      return {code, "64 commands wait for GPU 0 already"};
    case Errc::device_lost:
      return {code, "GPU is lost"};
    case Errc::timed_out:
      return {code, "GPU 0 did not answer in time"};
    default:
      break;
  }
  return {code, std::string(name_of(code))};
}

}  // namespace gpuyard::api
