// The queries of a view of many machines to each: a brief, small enough to be fetched every few
// seconds, and the GPUs that a claim would get.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "core/andon/alert_severity.h"
#include "faces/protocol/bounds.h"
#include "faces/protocol/resources.h"
#include "gpu/device/health.h"

namespace gpuyard::protocol {

// The use of a GPU now.
enum class GpuUse : std::uint8_t {
  free,      // nobody, and it is not withheld
  leased,    // a lease holds it
  draining,  // released, while its processes are not gone yet
  outside,   // unleased processes use it
  withheld,  // no new lease: cordoned, quarantined, lost, ...
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
GPUYARD_ABOUT(BriefGpus, {"model", "Index of its model in `models`, from 0."},
              {"use",
               "free: can be leased; leased; draining: released, but its processes are still "
               "running; outside: used without a lease; withheld: not available for leasing."},
              {"user",
               "User who leases the GPU or uses it without a lease; null: none, or unknown."},
              {"why", "Why it is withheld, in one word; otherwise null."},
              {"memory_free_mib", "Unallocated memory, MiB, rounded down."})

struct Brief : AnswerHead {
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
BOOST_DESCRIBE_STRUCT(Brief, (AnswerHead),
                      (host, instance, version, driver_version, driver_error, waiting, alerts,
                       worst_alert, configuration, models, gpus))
GPUYARD_ABOUT(
    Brief, {"host", "Host name of the machine."},
    {"instance",
     "ID of this run of the daemon; two addresses with the same ID lead to the same daemon."},
    {"waiting", "Number of waiting claims."},
    {"alerts", "Number of firing alerts that are neither acknowledged nor silenced."},
    {"configuration",
     "A digest of each non-default section of the configuration, and of the rules; different "
     "digests mean different configurations. Machine-specific sections (server, state, tls) are "
     "left out."})

struct FreeQuery {
  std::optional<std::int64_t> gpus;
  std::optional<std::int64_t> min_free_bytes;
  std::optional<std::string> model;
};
BOOST_DESCRIBE_STRUCT(FreeQuery, (), (gpus, min_free_bytes, model))
GPUYARD_ABOUT(FreeQuery, {"gpus", "Number of GPUs to claim. Default 1.", 1, 256},
              {"min_free_bytes", "Free memory required on each GPU.", 0, kMaxExactInteger},
              {"model", "Text that the GPU name must contain, in any case; at most 64 bytes.", 0,
               kMaxModelBytes})

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
GPUYARD_ABOUT(FreeGpu, {"chosen", "The claim would get this GPU now."})

struct FreeGpus : AnswerHead {
  bool enough = false;
  std::string why;
  std::int64_t waiting = 0;
  std::int64_t capacity = 0;
  bool linked = false;
  std::vector<FreeGpu> gpus;
};
BOOST_DESCRIBE_STRUCT(FreeGpus, (AnswerHead), (enough, why, waiting, capacity, linked, gpus))
GPUYARD_ABOUT(FreeGpus,
              {"enough",
               "A claim without waiting would be granted now, if the caller may claim at all."},
              {"why", "Why it would not be granted; otherwise empty."},
              {"waiting", "Number of waiting claims; 0 for a token limited to some GPUs."},
              {"capacity", "Number of GPUs the caller can see."},
              {"linked", "All chosen GPUs are linked with each other by NVLink."},
              {"gpus",
               "GPUs that a claim for one GPU could get now. Free GPUs reserved for a waiting "
               "claim are not included."})

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::BriefModel);
GPUYARD_SCHEMA(protocol::BriefGpus);
GPUYARD_SCHEMA(protocol::Brief);
GPUYARD_SCHEMA(protocol::FreeGpu);
GPUYARD_SCHEMA(protocol::FreeGpus);

}  // namespace gpuyard::json
