// The pods of a device plugin at the API server: finds those of this node, and deletes one.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "cli/kube/objects.h"
#include "io/kube/client.h"

namespace gpuyard::cli::kube {

// The timeout of each request, during which the agent does nothing else.
inline constexpr Duration kPluginRequestTimeout = std::chrono::seconds(2);
// The limit of a list. Two pods already show that the label is not the plugin's alone; the third
// leaves room for one that is ending.
inline constexpr unsigned kMaxPluginPods = 3;

// The namespace of a device plugin's pods and the label that all of them have.
struct PluginLabel {
  std::string namespace_name;
  std::string key;
  std::string value;

  std::string selector() const { return key + "=" + value; }
  friend bool operator==(const PluginLabel&, const PluginLabel&) = default;
};

// Reads "gpu-operator/app=nvidia-device-plugin-daemonset". The key may have a prefix, as in
// "plugin/app.kubernetes.io/name=nvidia-device-plugin". Errc::invalid: a part is not as Kubernetes
// has it.
Result<PluginLabel> parse_plugin_label(std::string_view text);

// The restarter's view of the API server. Calls block until the answer or a timeout.
class PluginPodsView {
 public:
  virtual ~PluginPodsView() = default;
  // Lists the pods with the plugin's label on this node. Sets the page if the answer is ok.
  virtual gpuyard::kube::Answer list(PodPage&) = 0;
  // Deletes this pod. Outcome::conflict if another pod has its name now.
  virtual gpuyard::kube::Answer remove(const SeenPod&) = 0;
};

class PluginPods final : public PluginPodsView {
 public:
  PluginPods(gpuyard::kube::Client, PluginLabel, std::string node);

  gpuyard::kube::Answer list(PodPage&) override;
  gpuyard::kube::Answer remove(const SeenPod&) override;

 private:
  gpuyard::kube::Client client_;
  PluginLabel label_;
  std::string node_;
};

}  // namespace gpuyard::cli::kube
