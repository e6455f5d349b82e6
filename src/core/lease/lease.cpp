#include "core/lease/lease.h"

#include <algorithm>

#include <fmt/format.h>

namespace gpuyard::lease {

Result<void> check_spec(const LeaseSpec& spec) {
  if (spec.gpus == 0) return Error{Errc::invalid, "a lease needs at least one GPU"};
  if (spec.min_free_bytes < 0) return Error{Errc::invalid, "the requested memory is negative"};
  if (spec.max_hold_time && *spec.max_hold_time <= Duration::zero()) {
    return Error{Errc::invalid, "the longest time must be above 0"};
  }
  if (spec.wait_timeout && *spec.wait_timeout < Duration::zero()) {
    return Error{Errc::invalid, "the time to wait is negative"};
  }
  if (spec.binding != Binding::detached) return {};
  if (spec.ttl < kMinTtl || spec.ttl > kMaxTtl) {
    using std::chrono::seconds;
    return Error{Errc::invalid,
                 fmt::format("the duration of a detached lease must be {} to {} seconds",
                             std::chrono::duration_cast<seconds>(kMinTtl).count(),
                             std::chrono::duration_cast<seconds>(kMaxTtl).count())};
  }
  return {};
}

std::string owner_of(std::string_view lease) {
  return std::string(kOwnerPrefix).append(lease);
}

std::string_view lease_of(std::string_view owner) {
  return owner.starts_with(kOwnerPrefix) ? owner.substr(kOwnerPrefix.size()) : std::string_view();
}

Result<void> check_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const auto fits = [&](char c) { return plain(c) || c == '-' || c == '_'; };
  const bool sized = !name.empty() && name.size() <= kMaxIdLength;
  if (sized && plain(name.front()) && std::all_of(name.begin(), name.end(), fits)) return {};
  return Error{Errc::invalid, fmt::format("a lease is named by 1 to {} letters, digits, '-' and "
                                          "'_', starting with a letter or digit",
                                          kMaxIdLength)};
}

Result<std::string> make_slurm_job_name(std::string_view number) {
  constexpr std::size_t kMaxDigits = 20;
  const bool digits = std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  if (digits && !number.empty() && number.size() <= kMaxDigits) {
    return std::string(kSlurmJobPrefix).append(number);
  }
  return Error{Errc::not_found, "a Slurm job is named by its number"};
}

Result<std::string> make_pod_job_name(std::string_view pod_namespace, std::string_view pod) {
  constexpr std::size_t kMaxNamespace = 63;  // of Kubernetes, as are the rules below
  constexpr std::size_t kMaxPod = 253;
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto is_name = [&](std::string_view name, std::size_t max_size, std::string_view more) {
    return !name.empty() && name.size() <= max_size && plain(name.front()) && plain(name.back()) &&
           std::ranges::all_of(name, [&](char c) { return plain(c) || more.find(c) != more.npos; });
  };
  if (is_name(pod_namespace, kMaxNamespace, "-") && is_name(pod, kMaxPod, "-.")) {
    return fmt::format("{}/{}", pod_namespace, pod);
  }
  return Error{Errc::invalid,
               "a pod is named by its namespace and its name, in lower-case letters, digits, '-' "
               "and, in its name, '.'"};
}

std::string job_id_prefix(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == name.npos) return fmt::format("{}-", name);
  constexpr std::size_t kMaxPod = 40;  // so that the id is not too long
  std::string pod(name.substr(slash + 1, kMaxPod));
  std::ranges::replace(pod, '.', '-');
  return fmt::format("pod-{}-", pod);
}

std::string_view job_of(const Lease& lease) {
  if (lease.spec.binding != Binding::job) return {};
  if (!lease.pod.empty()) return lease.pod;
  return std::string_view(lease.id).substr(0, lease.id.rfind('-'));
}

Allocator allocator_of(const Lease& lease) {
  return lease.pod.empty() ? Allocator::slurm : Allocator::kubernetes;
}

Result<void> check_id(std::string_view id) {
  if (id.starts_with(kSlurmJobPrefix)) {
    return Error{
        Errc::invalid,
        fmt::format("IDs that begin with \"{}\" are reserved for Slurm jobs", kSlurmJobPrefix)};
  }
  if (id.size() >= kMinIdLength && check_name(id)) return {};
  return Error{
      Errc::invalid,
      fmt::format(
          "a lease ID has {} to {} letters, digits, '-' and '_', starting with a letter or digit",
          kMinIdLength, kMaxIdLength)};
}

Error not_held_error(const Lease& lease) {
  return {Errc::conflict,
          fmt::format("lease {} {}", lease.id,
                      lease.state == LeaseState::ended ? "has ended" : "is not held")};
}

Error unknown_lease_error(std::string_view id) {
  return {Errc::not_found,
          fmt::format("lease \"{}\" not found; ended leases are forgotten after a day", id)};
}

}  // namespace gpuyard::lease
