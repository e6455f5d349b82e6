#include "cli/lease/lease_request.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/new_id.h"
#include "base/utf8.h"
#include "cli/read/reading.h"
#include "cli/screen/terminal.h"
#include "cli/words.h"
#include "sim/workload.h"

namespace gpuyard::cli {
namespace {

Result<std::int64_t> bytes_of(const std::string& text) {
  // People write what `gpuyard devices` shows them, too: "20GiB", "20 GiB".
  std::string plain = text;
  if (plain.ends_with("iB")) plain.resize(plain.size() - 2);
  std::erase(plain, ' ');
  const auto bytes = sim::parse_bytes(plain);
  if (bytes && *bytes <= static_cast<std::uint64_t>(INT64_MAX)) {
    return static_cast<std::int64_t>(*bytes);
  }
  return Error{Errc::invalid, fmt::format("--min-free: memory is like 512M, 20G or 20GiB; \"{}\" "
                                          "is not",
                                          text)};
}

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

std::string note_of(std::string_view text) {
  std::string note;
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    const std::string_view next = length > 0 ? text.substr(0, length) : kReplacementCharacter;
    if (note.size() + next.size() > protocol::kLongestNote) break;
    note += next;
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return note;
}

Result<double> seconds_of(const std::string& text, std::string_view flag) {
  const auto length = parse_lifetime(text);
  if (!length) return Error(length.error()).in(flag);
  return std::chrono::duration<double>(*length).count();
}

Result<protocol::LeaseWish> wish_of(const LeaseFilters& wanted) {
  protocol::LeaseWish wish;
  wish.id = new_id();
  wish.gpus = wanted.gpus;
  if (!wanted.model.empty()) wish.model = wanted.model;
  if (!wanted.note.empty()) wish.note = wanted.note;
  if (!wanted.min_free.empty()) {
    const auto bytes = bytes_of(wanted.min_free);
    if (!bytes) return bytes.error();
    wish.min_free_bytes = *bytes;
  }
  if (!wanted.among.empty()) {
    wish.among.emplace();
    for (std::string& name : split(wanted.among, ',')) wish.among->push_back({std::move(name)});
  }
  if (!wanted.max_time.empty()) {
    const auto longest = seconds_of(wanted.max_time, "--max-time");
    if (!longest) return longest.error();
    wish.max_time_s = *longest;
  }
  if (wanted.no_wait) wish.wait_s = 0;
  if (!wanted.wait.empty()) {
    const auto patience = seconds_of(wanted.wait, "--wait");
    if (!patience) return patience.error();
    wish.wait_s = *patience;
  }
  return wish;
}

Result<NamedLease> named_lease(const std::string& id) {
  const std::string own = variable("GPUYARD_LEASE");
  NamedLease named{id.empty() ? own : id, std::nullopt};
  if (named.id.empty()) {
    return Error{Errc::invalid,
                 "which lease? GPUYARD_LEASE is not set; `gpuyard leases` shows all"};
  }
  if (auto valid = gpuyard::lease::check_name(named.id); !valid) return std::move(valid).error();
  const std::string_view fence = variable("GPUYARD_FENCE");
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(fence.data(), fence.data() + fence.size(), number);
  if (named.id == own && parsed.ec == std::errc{} && parsed.ptr == fence.data() + fence.size()) {
    named.fence = number;
  }
  return named;
}

Result<http::Endpoint> lease_daemon(const std::string& socket) {
  return daemon_at(socket, "only a daemon knows who has which GPU, and none is running here");
}

int complain_about_leasing(const Error& error) {
  const bool absent = error.code == Errc::unavailable;
  return complain(error,
                  absent ? "  `gpuyard serve` starts one; `gpuyard doctor` looks closer." : "");
}

}  // namespace gpuyard::cli
