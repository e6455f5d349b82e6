// The reports of the Kubernetes agent on this machine: which pods have which GPUs, and which GPUs
// the device plugin hides. A pod is named by its namespace and its name, as the kubelet names it,
// which does not say its UID.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "base/record.h"
#include "core/lease/lease.h"
#include "faces/protocol/bounds.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/resources.h"
#include "faces/protocol/route.h"

namespace gpuyard::protocol {

struct PodName {
  std::string pod_namespace;
  std::string pod;
};
BOOST_DESCRIBE_STRUCT(PodName, (), (pod_namespace, pod))

struct Pod {
  std::string pod;  // "default/trainer-0"
  std::string lease;
  lease::LeaseState state{};
  std::vector<std::uint32_t> gpus;  // indexes
  std::vector<std::string> uuids;
  std::string since;  // RFC 3339
  std::string left;
  std::optional<double> draining_s;
  std::optional<double> idle_s;
};
BOOST_DESCRIBE_STRUCT(Pod, (), (pod, lease, state, gpus, uuids, since, left, draining_s, idle_s))
GPUYARD_ABOUT(Pod, {"pod", "Namespace and name of the pod, with a slash between them."},
              {"left", "Processes or memory on its GPUs after the pod ended; otherwise empty."},
              {"draining_s", "Seconds since it was reported gone; null: it still runs."},
              {"idle_s", "Seconds for which all its GPUs have been idle; 0: one is busy."})

struct Pods : AnswerHead {
  bool observes = false;
  std::vector<Pod> pods;
};
BOOST_DESCRIBE_STRUCT(Pods, (AnswerHead), (observes, pods))
GPUYARD_ABOUT(Pods, {"observes", "Kubernetes allocates the GPUs, and leases only observe."},
              {"pods", "Pods that have GPUs, or left something on them; oldest lease first."})

struct PodRequest {
  std::vector<std::string> uuids;
  std::optional<std::string> note;
};
BOOST_DESCRIBE_STRUCT(PodRequest, (), (uuids, note))
GPUYARD_ABOUT(PodRequest,
              {"uuids", "UUIDs of its GPUs. Only whole GPUs: a share of one has no lease.", 1,
               kMaxGpuNames, 1, kMaxGpuNameBytes},
              {"note", "Names of its containers, for display; at most 200 bytes.", 0,
               kMaxNoteBytes})

struct PodStarted : AnswerHead {
  Lease lease;
  std::vector<std::string> unknown;
};
BOOST_DESCRIBE_STRUCT(PodStarted, (AnswerHead), (lease, unknown))
GPUYARD_ABOUT(PodStarted, {"unknown", "UUIDs of the pod without a GPU in the driver."})

struct DevicePluginReport {
  std::vector<std::string> hidden;
};
BOOST_DESCRIBE_STRUCT(DevicePluginReport, (), (hidden))
GPUYARD_ABOUT(DevicePluginReport,
              {"hidden",
               "UUIDs of all GPUs that it does not offer to pods while it offers others; empty: "
               "none.",
               0, kMaxGpuNames, 1, kMaxGpuNameBytes})

struct DevicePlugin : AnswerHead {
  std::vector<std::string> hidden;
};
BOOST_DESCRIBE_STRUCT(DevicePlugin, (AnswerHead), (hidden))
GPUYARD_ABOUT(DevicePlugin, {"hidden", "UUIDs of the GPUs that it hides, as the report has them."})

inline constexpr Route<NoParams, Pods> kPods{
    {"GET", "/api/gpu/pods", "Kubernetes", Scope::read, GpuScope::whole,
     "Pods that have GPUs of this machine. After a restart the agent sees here which leases it has "
     "to end."}};

inline constexpr Route<NoParams, Pods> kForgetPods{
    {"DELETE", "/api/gpu/pods", "Kubernetes", Scope::admin, GpuScope::whole,
     "Leases the GPUs through gpuyard again, until the agent reports a pod. Refused while a pod "
     "has GPUs here, and if [lease] mode is observe. Ended pods are forgotten; their usage records "
     "remain.",
     kConflictOrUnavailable}};

// Routes through which the agent reports a pod. The records of leases have its lease and usage, so
// the audit has no line.
constexpr RouteInfo pod_route(std::string_view method, std::string_view summary,
                              std::span<const Errc> failures) {
  RouteInfo route{method,          "/api/gpu/pods/{pod_namespace}/{pod}",
                  "Kubernetes",    Scope::admin,
                  GpuScope::whole, summary,
                  failures};
  route.audit = AuditWriter::none;
  return route;
}

inline constexpr Route<PodName, PodStarted, PodRequest> kBeginPod{pod_route(
    "PUT",
    "Records that a pod has GPUs allocated by Kubernetes, as a lease, whatever their condition. A "
    "pod that had one of them is gone. Repeated requests with the same GPUs are for the same "
    "lease; with other GPUs, the pod's earlier lease ends. From then on, leases only observe, "
    "unless [lease] mode says otherwise.",
    kNotFoundConflictOrUnavailable)};

inline constexpr Route<PodName, LeaseAnswer> kEndPod{pod_route(
    "DELETE",
    "Records that a pod is gone. Its lease drains until no process is left on its GPUs. Repeated "
    "requests return the lease as it is, for a day after its end.",
    kNotFoundOrUnavailable)};

// The report is repeated each minute, and changes nothing that a person has set, so the audit has
// no line.
inline constexpr Route<NoParams, DevicePlugin, DevicePluginReport> kReportDevicePlugin{[] {
  RouteInfo route{"PUT",
                  "/api/gpu/kubernetes/plugin",
                  "Kubernetes",
                  Scope::admin,
                  GpuScope::whole,
                  "Records which GPUs Kubernetes' device plugin does not offer to pods, for the "
                  "alert `plugin-disagrees`. A report counts for 3 minutes."};
  route.audit = AuditWriter::none;
  return route;
}()};

}  // namespace gpuyard::protocol

namespace gpuyard::json {

GPUYARD_SCHEMA(protocol::Pod);
GPUYARD_SCHEMA(protocol::Pods);
GPUYARD_SCHEMA(protocol::PodRequest);
GPUYARD_SCHEMA(protocol::PodStarted);
GPUYARD_SCHEMA(protocol::DevicePluginReport);
GPUYARD_SCHEMA(protocol::DevicePlugin);

}  // namespace gpuyard::json
