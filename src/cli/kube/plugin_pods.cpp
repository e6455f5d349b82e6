#include "cli/kube/plugin_pods.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "cli/kube/object_names.h"
#include "io/kube/resource.h"

namespace gpuyard::cli::kube {
namespace {

using gpuyard::kube::path_of;

constexpr bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// RFC 1123: a namespace, or a part of a domain.
bool is_dns_label(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLabelBytes && is_lower_or_digit(text.front()) &&
         is_lower_or_digit(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

bool is_dns_subdomain(std::string_view text) {
  if (text.size() > kMaxNameBytes || text.ends_with('.')) return false;
  do {
    if (!is_dns_label(take_until('.', text))) return false;
  } while (!text.empty());
  return true;
}

// The value of a label, or its key without the prefix.
bool is_label_word(std::string_view text) {
  return !text.empty() && text.size() <= kMaxLabelBytes && is_alphanumeric(text.front()) &&
         is_alphanumeric(text.back()) && std::ranges::all_of(text, [](char c) {
           return is_alphanumeric(c) || c == '-' || c == '_' || c == '.';
         });
}

bool is_label_key(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == text.npos) return is_label_word(text);
  return is_dns_subdomain(text.substr(0, slash)) && is_label_word(text.substr(slash + 1));
}

Error wrong_label(std::string_view text, std::string_view part, std::string_view kind) {
  Error error{Errc::invalid,
              fmt::format("--restart-plugin: expected NAMESPACE/LABEL, for example "
                          "gpu-operator/app=nvidia-device-plugin-daemonset; got \"{}\"",
                          text)};
  error.cause = fmt::format("\"{}\" is not a valid {}", part, kind);
  return error;
}

}  // namespace

Result<PluginLabel> parse_plugin_label(std::string_view text) {
  std::string_view value = text;
  const std::string_view namespace_name = take_until('/', value);
  const std::string_view key = take_until('=', value);
  if (!is_dns_label(namespace_name)) return wrong_label(text, namespace_name, "namespace");
  if (!is_label_key(key)) return wrong_label(text, key, "key of a label");
  if (!is_label_word(value)) return wrong_label(text, value, "value of a label");
  return PluginLabel{std::string(namespace_name), std::string(key), std::string(value)};
}

PluginPods::PluginPods(gpuyard::kube::Client client, PluginLabel label, std::string node)
    : client_(std::move(client)), label_(std::move(label)), node_(std::move(node)) {}

gpuyard::kube::Answer PluginPods::list(PodPage& page) {
  auto answer = client_.list(path_of({.plural = "pods", .namespace_name = label_.namespace_name}),
                             {.label_selector = label_.selector(),
                              .field_selector = "spec.nodeName=" + node_,
                              .limit = kMaxPluginPods});
  if (!answer.ok()) return answer;
  auto read = parse_pods(answer.body);
  if (!read) {
    return {.outcome = gpuyard::kube::Outcome::malformed,
            .message = "the API server's list of pods is malformed: " + read.error().text()};
  }
  page = *std::move(read);
  return answer;
}

gpuyard::kube::Answer PluginPods::remove(const SeenPod& pod) {
  return client_.remove(
      path_of({.plural = "pods", .namespace_name = pod.namespace_name, .name = pod.name}), pod.uid);
}

}  // namespace gpuyard::cli::kube
