#include "io/kube/api_server.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/try.h"

namespace gpuyard::kube {
namespace {

constexpr std::size_t kMaxCaBytes = std::size_t{1} << 20;  // as much as a ConfigMap holds
constexpr std::size_t kMaxTokenBytes = std::size_t{64} * 1024;

Result<std::string> read_credential(const Credential& credential, std::string_view name,
                                    std::size_t max_bytes) {
  const std::string& file = credential.file;
  auto text = file.empty() ? Result<std::string>(credential.text) : read_file(file, max_bytes);
  if (!text) return std::move(text).error().in(name);
  std::string trimmed(trim(*text));
  if (!trimmed.empty()) return trimmed;
  return Error{Errc::invalid, file.empty() ? fmt::format("{} is empty", name)
                                           : fmt::format("{} is empty: {}", name, file)};
}

// Kubernetes' tokens are words of RFC 6750; anything else would not fit into a header.
bool is_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
}

std::string_view without_brackets(std::string_view host) {
  const bool brackets = host.starts_with('[') && host.ends_with(']');
  return brackets ? host.substr(1, host.size() - 2) : host;
}

}  // namespace

PodEnvironment PodEnvironment::current() {
  return {std::string(environment_variable("KUBERNETES_SERVICE_HOST")),
          std::string(environment_variable("KUBERNETES_SERVICE_PORT"))};
}

Result<ApiServer> api_server_of_pod(const PodEnvironment& pod) {
  if (pod.host.empty()) {
    return Error{Errc::not_found,
                 "not in a pod of Kubernetes: KUBERNETES_SERVICE_HOST is not set; outside a pod, "
                 "give a kubeconfig with --kubeconfig"};
  }
  ApiServer server;
  const std::string_view host = without_brackets(pod.host);
  const bool six = host.find(':') != host.npos;
  const std::string authority =
      six ? fmt::format("[{}]:{}", host, pod.port) : fmt::format("{}:{}", host, pod.port);
  if (!is_word(authority) || !http::read_authority(authority, server.origin)) {
    return Error{Errc::invalid,
                 fmt::format("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: expected an "
                             "address and a port such as 10.96.0.1 and 443; got \"{}\" and \"{}\"",
                             printable(pod.host), printable(pod.port))};
  }
  server.ca.file = pod.directory + "/ca.crt";
  server.token.file = pod.directory + "/token";
  return server;
}

Result<CurrentCredentials> read_credentials(const ApiServer& server) {
  CurrentCredentials current;
  if (!server.ca.empty()) {
    current.ca_pem =
        GPUYARD_TRY(read_credential(server.ca, "the CA of the API server", kMaxCaBytes));
  }
  if (!server.token.empty()) {
    constexpr std::string_view kName = "the token for the API server";
    auto token = GPUYARD_TRY(read_credential(server.token, kName, kMaxTokenBytes));
    if (!is_word(token)) return Error{Errc::invalid, fmt::format("{} is not one word", kName)};
    current.token = std::move(token);
  }
  return current;
}

}  // namespace gpuyard::kube
