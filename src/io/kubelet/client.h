// What the kubelet says of the devices of its pods: its PodResources API over its Unix socket.
//
// Thread: any; each function makes one connection, and blocks for `timeout` at most.
//
// Errors, each with the path of the socket:
//   not_found     there is no such socket: no kubelet, or its folder is not mounted
//   denied        the socket's permissions, or the kubelet, refuse it; the socket is root's
//   unsupported   this kubelet does not have the call (UNIMPLEMENTED)
//   busy          the kubelet limits the rate of calls (RESOURCE_EXHAUSTED); a later one helps
//   timed_out     no whole response in time
//   unavailable   nobody listens, the connection ended, or another gRPC status, which is named
//   invalid       no HTTP/2, no gRPC, or a malformed message
//   internal      the response is larger than kMaxMessageBytes (unary_call.h)
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "io/kubelet/pod_resources.h"

namespace gpuyard::kubelet {

inline constexpr const char* kDefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock";
// A kubelet answers from memory, in milliseconds.
inline constexpr Duration kCallTimeout = std::chrono::seconds(1);

// The pods of this node that the kubelet knows. Before Kubernetes 1.34 finished ones, too.
Result<std::vector<Pod>> fetch_pods(const std::string& socket_path,
                                    Duration timeout = kCallTimeout);

// The devices that it would give to pods. Since Kubernetes 1.23.
Result<AllocatableDevices> fetch_allocatable_devices(const std::string& socket_path,
                                                     Duration timeout = kCallTimeout);

}  // namespace gpuyard::kubelet
