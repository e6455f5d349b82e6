// Who changed what, or tried to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "base/clock.h"
#include "device/device.h"

namespace gpuyard::control {

struct AuditEntry {
  // The outcome of what never got as far as a GPU.
  static constexpr std::string_view kRefused = "refused";

  std::int64_t number = 0;  // the archive's to give: counts up
  WallTime at{};
  std::string by;  // "uid 1000"; "gpuyard" for what time or a restart did
  std::string request_id;
  std::string action;  // "set power_limit to 300 W"
  DeviceId gpu;        // empty: of none
  std::optional<std::uint32_t> index;
  std::optional<std::string> before;
  std::optional<std::string> after;
  std::string outcome;
  std::optional<std::string> error;
  bool forced = false;
  Duration took{};
  // Whose doing it is. Each kind has a share of its own of what is kept (Archive), so that none
  // pushes out another's.
  enum class Source : std::uint8_t { user, administrator, lease, refused, refused_over_tcp };
  BOOST_DESCRIBE_NESTED_ENUM(Source, user, administrator, lease, refused, refused_over_tcp)
  Source source = Source::user;

  friend bool operator==(const AuditEntry&, const AuditEntry&) = default;
};

struct AuditQuestion {
  std::string gpus = {};  // their ids with commas; empty: all
  std::int64_t limit = 100;
  std::optional<std::int64_t> before = {};  // entries with a lower number
};

}  // namespace gpuyard::control
