// Whether this process runs in a container.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/paths.h"

namespace gpuyard {

// Kubernetes sets this variable in each of its pods.
inline bool is_in_pod() {
  return !environment_variable("KUBERNETES_SERVICE_HOST").empty();
}

// A pod is a container, too. Container engines leave one of these files. `root` stands for "/" in
// tests.
inline bool is_in_container(const std::string& root = "") {
  constexpr std::array kMarks = {"/.dockerenv", "/run/.containerenv", "/run/systemd/container"};
  return is_in_pod() || std::ranges::any_of(kMarks, [&](const char* mark) {
           return ::access((root + mark).c_str(), F_OK) == 0;
         });
}

}  // namespace gpuyard
