// A view of many machines: their answers combined. Each machine and each GPU counts once, whatever
// names lead to it. Pure; queries no daemon.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "faces/fleet/fan_out.h"
#include "faces/fleet/login_facts.h"
#include "faces/protocol/alerts.h"
#include "faces/protocol/brief.h"
#include "faces/protocol/leases.h"

namespace gpuyard::fleet {

// The result of the query of one machine.
struct FleetHost {
  std::string host;
  std::string url;
  std::optional<std::string> problem;
  std::optional<std::string> same_as;
  double took_s = 0;
};
BOOST_DESCRIBE_STRUCT(FleetHost, (), (host, url, problem, same_as, took_s))
GPUYARD_ABOUT(FleetHost, {"host", "Name or URL of the host, as given."},
              {"problem", "Why the host gave no response; null: it responded."},
              {"same_as", "An earlier name of the same daemon; its data is not counted again."},
              {"took_s", "Time from the first step to the complete response, or to the failure."})

struct FleetAnswer : protocol::AnswerHead {
  std::vector<FleetHost> hosts;
};
BOOST_DESCRIBE_STRUCT(FleetAnswer, (), (schema, simulated, hosts))
GPUYARD_ABOUT(FleetAnswer, {"simulated", "At least one machine simulates its GPUs."},
              {"hosts", "All queried hosts, in the order given."})

// A GPU and its machine.
struct FleetGpu {
  std::string host;
  std::uint32_t index = 0;
  std::string uuid;
  std::string name;
  protocol::GpuUse use = protocol::GpuUse::free;
  std::optional<std::string> user;
  std::optional<std::string> why;
  std::optional<gpuyard::Health> health;
  std::optional<std::int64_t> utilization_percent;
  std::optional<std::int64_t> memory_free_mib;
  std::optional<std::int64_t> memory_mib;
  std::optional<std::int64_t> temperature_c;
  std::optional<std::int64_t> power_w;
  std::vector<std::string> also_on;
};
BOOST_DESCRIBE_STRUCT(FleetGpu, (),
                      (host, index, uuid, name, use, user, why, health, utilization_percent,
                       memory_free_mib, memory_mib, temperature_c, power_w, also_on))
GPUYARD_ABOUT(FleetGpu,
              {"also_on", "Other machines that list the same UUID; the GPU is shown once."})

struct FleetGpus : FleetAnswer {
  std::vector<FleetGpu> gpus;
};
BOOST_DESCRIBE_STRUCT(FleetGpus, (FleetAnswer), (gpus))

struct FleetModel {
  std::string name;
  std::int64_t gpus = 0;
};
BOOST_DESCRIBE_STRUCT(FleetModel, (), (name, gpus))

// A machine.
struct FleetNode {
  std::string host;
  std::vector<FleetModel> models;
  std::int64_t gpus = 0;
  std::int64_t free = 0;
  std::int64_t leased = 0;
  std::int64_t outside = 0;
  std::int64_t withheld = 0;
  std::int64_t unwell = 0;
  std::optional<std::int64_t> utilization_percent;
  std::optional<std::int64_t> memory_free_mib;
  std::optional<std::int64_t> memory_mib;
  std::optional<std::int64_t> hottest_c;
  std::optional<std::int64_t> power_w;
  std::int64_t waiting = 0;
  std::int64_t alerts = 0;
  std::optional<AlertLevel> worst_alert;
  std::string version;
  std::optional<std::string> driver_version;
  std::optional<std::string> driver_error;
  std::int64_t power_unknown = 0;
  std::int64_t memory_unknown = 0;
};
BOOST_DESCRIBE_STRUCT(FleetNode, (),
                      (host, models, gpus, free, leased, outside, withheld, unwell,
                       utilization_percent, memory_free_mib, memory_mib, hottest_c, power_w,
                       waiting, alerts, worst_alert, version, driver_version, driver_error,
                       power_unknown, memory_unknown))
GPUYARD_ABOUT(FleetNode, {"leased", "Number of leased GPUs, including draining ones."},
              {"outside", "Number of GPUs used without a lease."},
              {"withheld", "Number of GPUs withheld from leasing: cordoned, quarantined, lost."},
              {"unwell", "Number of degraded or unhealthy GPUs, leased or not."},
              {"utilization_percent", "Mean of the GPUs with known utilisation."},
              {"power_unknown",
               "Number of GPUs whose power is unknown and not included in power_w."},
              {"memory_unknown",
               "Number of GPUs whose free memory is unknown and not included in memory_free_mib."})

struct FleetNodes : FleetAnswer {
  std::int64_t gpus = 0;
  std::int64_t free = 0;
  std::optional<std::int64_t> power_w;
  std::vector<FleetNode> nodes;
  std::int64_t power_unknown = 0;
};
BOOST_DESCRIBE_STRUCT(FleetNodes, (FleetAnswer), (gpus, free, power_w, nodes, power_unknown))
GPUYARD_ABOUT(FleetNodes, {"gpus", "All GPUs of all machines, each counted once."},
              {"free", "Number of these GPUs that are free."},
              {"power_w",
               "Power draw of these GPUs, as far as known; null if unknown for all of them."},
              {"power_unknown",
               "Number of GPUs whose power is unknown and not included in power_w."})

// The GPUs of one user.
struct HostGpus {
  std::string host;
  std::vector<std::uint32_t> indexes;
};
BOOST_DESCRIBE_STRUCT(HostGpus, (), (host, indexes))

struct FleetUser {
  std::string user;
  std::int64_t gpus = 0;
  std::int64_t outside = 0;
  std::optional<std::int64_t> utilization_percent;
  std::vector<HostGpus> places;
};
BOOST_DESCRIBE_STRUCT(FleetUser, (), (user, gpus, outside, utilization_percent, places))
GPUYARD_ABOUT(FleetUser, {"user", "User name; the same name on two machines counts as one user."},
              {"outside", "Number of these GPUs used without a lease."})

struct FleetUsers : FleetAnswer {
  std::vector<FleetUser> users;
};
BOOST_DESCRIBE_STRUCT(FleetUsers, (FleetAnswer), (users))

// The GPUs of one machine that a claim would be granted now.
struct FleetOffer {
  std::string host;
  std::string url;
  std::int64_t free = 0;
  bool linked = false;
  std::vector<protocol::FreeGpu> gpus;
};
BOOST_DESCRIBE_STRUCT(FleetOffer, (), (host, url, free, linked, gpus))
GPUYARD_ABOUT(FleetOffer, {"free", "Number of GPUs there that match the claim."},
              {"linked", "The chosen GPUs are linked with each other by NVLink."},
              {"gpus", "GPUs the claim would get."})

struct FleetOffers : FleetAnswer {
  std::vector<FleetOffer> offers;
};
BOOST_DESCRIBE_STRUCT(FleetOffers, (FleetAnswer), (offers))
GPUYARD_ABOUT(FleetOffers, {"offers", "Best first; empty: none available now."})

struct FleetClaim {
  std::string host;
  protocol::Lease lease;
};
BOOST_DESCRIBE_STRUCT(FleetClaim, (), (host, lease))

struct FleetQueue : FleetAnswer {
  std::vector<FleetClaim> waiting;
};
BOOST_DESCRIBE_STRUCT(FleetQueue, (FleetAnswer), (waiting))
GPUYARD_ABOUT(FleetQueue, {"waiting", "Longest wait first."})

struct FleetAlert {
  std::string host;
  protocol::Alert alert;
};
BOOST_DESCRIBE_STRUCT(FleetAlert, (), (host, alert))

struct FleetAlerts : FleetAnswer {
  std::vector<FleetAlert> alerts;
};
BOOST_DESCRIBE_STRUCT(FleetAlerts, (FleetAnswer), (alerts))
GPUYARD_ABOUT(FleetAlerts, {"alerts", "Firing alerts, most severe first."})

struct FleetUsage : FleetAnswer {
  protocol::Usage usage;
};
BOOST_DESCRIBE_STRUCT(FleetUsage, (FleetAnswer), (usage))
GPUYARD_ABOUT(FleetUsage, {"usage", "Usage of all machines, summed by row key."})

struct FleetFinding {
  std::string what;
  std::vector<std::string> hosts;
  std::string text;
  AlertLevel level = AlertLevel::warning;
};
BOOST_DESCRIBE_STRUCT(FleetFinding, (), (what, hosts, text, level))
GPUYARD_ABOUT(FleetFinding,
              {"what",
               "Kind of finding: unreachable, not_ready, version, driver, slurm, uid, clock, "
               "munge_key, configuration, gpu_twice, same_machine or note."},
              {"hosts", "Hosts concerned; where machines differ, those in the minority."},
              {"level", "info, warning or error."})

// A fact that could not be compared.
struct FleetUnknown {
  std::string what;
  std::vector<std::string> hosts;
  std::string text;
};
BOOST_DESCRIBE_STRUCT(FleetUnknown, (), (what, hosts, text))
GPUYARD_ABOUT(FleetUnknown, {"what", "Unknown fact: driver, slurm, uid, clock or munge_key."},
              {"hosts", "Hosts where it is unknown."},
              {"text", "The fact, the hosts and the reason."})

struct FleetDiagnosis : FleetAnswer {
  bool healthy = false;
  std::vector<FleetFinding> findings;
  std::vector<FleetUnknown> unknown;
};
BOOST_DESCRIBE_STRUCT(FleetDiagnosis, (FleetAnswer), (healthy, findings, unknown))
GPUYARD_ABOUT(FleetDiagnosis,
              {"healthy", "The list of findings is empty. Unknown facts do not count."})

using Brief = protocol::Brief;
template <class Answer>
using HostReplies = std::vector<HostReply<Answer>>;

FleetNodes nodes_of(const HostReplies<Brief>&);
FleetGpus gpus_of(const HostReplies<Brief>&);
// Most GPUs first.
FleetUsers users_of(const FleetGpus&);
// Linked GPUs first if it is more than one, then well ones, then where the fewest are left over,
// then the coolest.
FleetOffers offers_of(const HostReplies<ReplyWithBrief<protocol::FreeGpus>>&);
FleetQueue queue_of(const HostReplies<ReplyWithBrief<protocol::Queue>>&);
FleetAlerts alerts_of(const HostReplies<ReplyWithBrief<protocol::Alerts>>&);
// `by_host`: a row a machine instead of the rows that the machines have.
FleetUsage usage_of(const HostReplies<ReplyWithBrief<protocol::Usage>>&, bool by_host);

// The answers to the queries of doctor.
struct DoctorReply {
  protocol::Readiness readiness;
  WallTime requested_at{};  // by our clock, as replied_at
  WallTime replied_at{};
  // A machine without Slurm has no version. An error is the reason why it is unknown.
  Result<std::optional<std::string>> slurm_version = Error{Errc::unavailable, "not checked"};
  LoginFacts login = {};
};
// A clock that is off by more than this is reported, with its offset.
inline constexpr std::chrono::seconds kMaxClockOffset{2};
// From here on it is a warning.
inline constexpr std::chrono::seconds kClockOffsetWarning{60};
// munged accepts no credential that is older than this, or as far in the future.
inline constexpr std::chrono::seconds kMungeLifetime{300};
FleetDiagnosis diagnosis_of(const HostReplies<ReplyWithBrief<DoctorReply>>&);

}  // namespace gpuyard::fleet
