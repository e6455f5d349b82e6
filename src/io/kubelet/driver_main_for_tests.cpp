// The client as a program, for the test with the kubelet's own stubs:
//
//   kubelet_driver SOCKET pods SECONDS          prints a line for each pod, device and claim
//   kubelet_driver SOCKET allocatable SECONDS   prints a line for each device
//
// SECONDS is the timeout.
// Exit status: 0, or 1 with the name of the Errc and the error.
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/text.h"
#include "io/kubelet/client.h"

namespace gpuyard::kubelet {
namespace {

void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
}

int fail(const Error& error) {
  say(fmt::format("{}: {}", name_of(error.code), error.text()));
  return 1;
}

std::string to_text(const PluginDevice& device) {
  return fmt::format("{} {} {}", device.resource, device.id, device.shared ? "shared" : "whole");
}

int print_pods(const std::string& socket, Duration timeout) {
  const auto pods = fetch_pods(socket, timeout);
  if (!pods) return fail(pods.error());
  for (const Pod& pod : *pods) {
    say(fmt::format("pod {}/{}", pod.namespace_name, pod.name));
    for (const AssignedDevice& device : pod.devices) {
      say(fmt::format("device {} {}", device.container, to_text(device)));
    }
    for (const ClaimedDevice& claimed : pod.claims) {
      say(fmt::format("claim {} {}/{} {}/{}/{} {}", claimed.container, claimed.claim_namespace,
                      claimed.claim, claimed.driver, claimed.pool, claimed.device,
                      claimed.shared ? "shared" : "whole"));
    }
  }
  return 0;
}

int print_allocatable(const std::string& socket, Duration timeout) {
  const auto allocatable = fetch_allocatable_devices(socket, timeout);
  if (!allocatable) return fail(allocatable.error());
  for (const PluginDevice& device : allocatable->devices) say("device " + to_text(device));
  return 0;
}

}  // namespace
}  // namespace gpuyard::kubelet

int main(int argc, char** argv) {
  using namespace gpuyard;
  const std::string_view call = argc == 4 ? argv[2] : "";
  const auto seconds = parse_number<int>(argc == 4 ? argv[3] : "");
  const Duration timeout = std::chrono::seconds(seconds.value_or(1));
  if (call == "pods") return kubelet::print_pods(argv[1], timeout);
  if (call == "allocatable") return kubelet::print_allocatable(argv[1], timeout);
  std::fputs("usage: kubelet_driver SOCKET pods|allocatable SECONDS\n", stderr);
  return 2;
}
