// The Kubernetes manifest of the daemon and its agent, for a cluster without Helm. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace gpuyard::cli::kube {

inline constexpr std::string_view kManifestNamespace = "gpuyard";  // in the text below

// packaging/kubernetes/daemonset_agent.yaml, which the Helm chart renders. The build embeds it.
extern const std::string_view kManifestText;

// Errc::invalid: the name is empty, longer than 255 bytes, or has a character that no image has,
// such as a quote or a line end.
Result<void> check_image(std::string_view image);

// Errc::invalid: the name is not an RFC 1123 label of at most 63 characters, which Kubernetes
// demands.
Result<void> check_namespace(std::string_view name_space);

// Returns the text with the image and the namespace in place of its own, below a comment that has
// the version and the command. From there on it is what `helm template` prints for these values.
// REQUIRES: check_image(image) and check_namespace(name_space).
std::string manifest_for(std::string_view text, std::string_view image,
                         std::string_view name_space);

}  // namespace gpuyard::cli::kube
