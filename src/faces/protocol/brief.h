// What a view of many machines asks of one: a brief, small enough to be asked for every few
// seconds, and which GPUs a claim would get.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "andon/alert.h"
#include "base/json_shape.h"
#include "base/record.h"
#include "device/health.h"
#include "protocol/bounds.h"
#include "protocol/resources.h"

namespace gpuyard::protocol {

// Who has a GPU now.
enum class GpuUse : std::uint8_t {
  free,      // nobody, and it is handed out
  leased,    // a lease holds it
  draining,  // given up, while its processes are not gone yet
  outside,   // processes use it outside any lease
  withheld,  // it is not handed out: cordoned, quarantined, lost, ...
};
BOOST_DESCRIBE_ENUM(GpuUse, free, leased, draining, outside, withheld)

struct BriefModel {
  std::string name;
  std::optional<std::int64_t> memory_mib;
};
BOOST_DESCRIBE_STRUCT(BriefModel, (), (name, memory_mib))

// Columns, which take far fewer bytes than rows: each has a value for each GPU, in the same order.
struct BriefGpus {
  std::vector<std::uint32_t> index;
  std::vector<std::string> uuid;
  std::vector<std::uint32_t> model;
  std::vector<GpuUse> use;
  std::vector<std::optional<std::string>> user;
  std::vector<std::optional<std::string>> why;
  std::vector<std::optional<gpuyard::Health>> health;
  std::vector<std::optional<std::int64_t>> utilization_percent;
  std::vector<std::optional<std::int64_t>> memory_free_mib;
  std::vector<std::optional<std::int64_t>> temperature_c;
  std::vector<std::optional<std::int64_t>> power_w;
};
BOOST_DESCRIBE_STRUCT(BriefGpus, (),
                      (index, uuid, model, use, user, why, health, utilization_percent,
                       memory_free_mib, temperature_c, power_w))
GPUYARD_ABOUT(
    BriefGpus, {"model", "Its place in `models`, from 0."},
    {"use",
     "free: nobody has it and it is handed out; leased; draining: given up, and its processes are "
     "not gone yet; outside: used outside any lease; withheld: not handed out."},
    {"user", "Who has the GPU, or uses it outside any lease; null: nobody, or not known."},
    {"why", "Why it is withheld, in a word; else null."}, {"memory_free_mib", "Rounded down."})

struct Brief {
  int schema = kSchemaVersion;
  bool simulated = false;
  std::string host;
  std::string instance;
  std::string version;
  std::optional<std::string> driver_version;
  std::optional<std::string> driver_error;
  std::int64_t waiting = 0;
  std::int64_t alerts = 0;
  std::optional<AlertLevel> worst_alert;
  std::map<std::string, std::string> configuration;
  std::vector<BriefModel> models;
  BriefGpus gpus;
};
BOOST_DESCRIBE_STRUCT(Brief, (),
                      (schema, simulated, host, instance, version, driver_version, driver_error,
                       waiting, alerts, worst_alert, configuration, models, gpus))
GPUYARD_ABOUT(
    Brief, {"host", "The machine's own name."},
    {"instance",
     "Of this run of the daemon: two addresses that tell the same one lead to one daemon."},
    {"waiting", "How many claims wait."},
    {"alerts", "How many alerts fire that nobody has acknowledged or silenced."},
    {"configuration",
     "A digest of each section of the configuration that is not as it is by default, and of the "
     "rules: where two machines have different ones, they are configured differently. Sections "
     "that belong to one machine (server, state, tls) are left out."})

struct FreeQuery {
  std::optional<std::int64_t> gpus;
  std::optional<std::int64_t> min_free_bytes;
  std::optional<std::string> model;
};
BOOST_DESCRIBE_STRUCT(FreeQuery, (), (gpus, min_free_bytes, model))
GPUYARD_ABOUT(FreeQuery, {"gpus", "How many GPUs the claim would want. 1.", 1, 256},
              {"min_free_bytes", "So much memory is to be free on each.", 0, kLargestExact},
              {"model", "Part of the GPU's name, in any case; at most 64 bytes.", 0, kLongestModel})

struct FreeGpu {
  std::uint32_t index = 0;
  std::string uuid;
  std::string name;
  std::optional<std::int64_t> memory_free_bytes;
  std::optional<std::int64_t> temperature_c;
  std::optional<gpuyard::Health> health;
  bool chosen = false;
};
BOOST_DESCRIBE_STRUCT(FreeGpu, (),
                      (index, uuid, name, memory_free_bytes, temperature_c, health, chosen))
GPUYARD_ABOUT(FreeGpu, {"chosen", "The claim would get this one now."})

struct FreeGpus {
  int schema = kSchemaVersion;
  bool simulated = false;
  bool enough = false;
  std::string why;
  std::int64_t waiting = 0;
  std::int64_t capacity = 0;
  bool linked = false;
  std::vector<FreeGpu> gpus;
};
BOOST_DESCRIBE_STRUCT(FreeGpus, (),
                      (schema, simulated, enough, why, waiting, capacity, linked, gpus))
GPUYARD_ABOUT(
    FreeGpus,
    {"enough", "A claim that does not wait would be granted now, if the caller may claim at all."},
    {"why", "Why it would not be; else empty."},
    {"waiting", "How many claims wait; 0 for a token of some GPUs."},
    {"capacity", "How many GPUs there are, of those that the caller sees."},
    {"linked", "All chosen GPUs are linked with each other by NVLink."},
    {"gpus",
     "Of these a claim of one GPU would get one. Free GPUs that are kept for a claim that "
     "waits are not among them."})

}  // namespace gpuyard::protocol

namespace gpuyard::json {

template <OneOf<protocol::BriefModel, protocol::BriefGpus, protocol::Brief, protocol::FreeGpu,
                protocol::FreeGpus>
              T>
inline constexpr bool has_schema<T> = true;

}  // namespace gpuyard::json
