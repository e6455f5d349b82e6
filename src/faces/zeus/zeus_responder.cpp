#include "faces/zeus/zeus_responder.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "base/text.h"

namespace gpuyard::zeus {

http::Response error_response(int status, std::string_view why) {
  std::string body = R"({"error":)";
  json::put_string(body, why);
  return {status, "application/json", body + "}"};
}

int device_status_of(Errc code) {
  switch (code) {
    case Errc::denied:
    case Errc::conflict:
      return 403;
    case Errc::invalid:
    case Errc::unsupported:
    case Errc::not_found:
      return 400;
    default:
      return 500;
  }
}

Error error_of(const Missing& missing) {
  const auto code = [&] {
    switch (missing.reason) {
      case MissingReason::not_supported:
        return Errc::unsupported;
      case MissingReason::no_permission:
        return Errc::denied;
      case MissingReason::device_lost:
        return Errc::device_lost;
      case MissingReason::timed_out:
        return Errc::timed_out;
      default:
        return Errc::unavailable;
    }
  }();
  return {code, describe(missing)};
}

void ZeusResponder::send_ok() const {
  send({200, "", std::string()});
}

void ZeusResponder::send_device_errors(const DeviceErrors& errors) const {
  int worst = 400;
  std::map<std::string, std::string> why;
  for (const auto& [index, error] : errors) {
    worst = std::max(worst, device_status_of(error.code));
    why[std::to_string(index)] = error.text();
  }
  send({worst, "application/json", R"({"errors":)" + json::to_json(why) + "}"});
}

Result<std::vector<std::uint32_t>> parse_ids(std::string_view text, std::string_view what) {
  if (trim(text).empty()) {
    return Error{Errc::invalid, fmt::format("the list of {} indexes is empty", what)};
  }
  std::vector<std::uint32_t> ids;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string_view element = trim(text.substr(begin, comma - begin));
    begin = comma + 1;
    if (element.empty()) {
      return Error{Errc::invalid, fmt::format("the list of {} indexes has an empty element", what)};
    }
    const auto id = parse_number<std::uint32_t>(element);
    if (!id) return Error{Errc::invalid, fmt::format("\"{}\" is not a {} index", element, what)};
    ids.push_back(*id);
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

bool is_present(const DeviceState& device) {
  return device.condition != DeviceCondition::unavailable;
}

Result<std::vector<DeviceInfo>> resolve_gpus(const Snapshot& snapshot,
                                             const std::optional<std::string>& ids) {
  if (!snapshot.driver.initialised) return Error{Errc::unavailable, snapshot.driver.why};
  std::vector<DeviceInfo> gpus;
  if (!ids) {
    for (const DeviceState& device : snapshot.devices) {
      if (is_present(device)) gpus.push_back(device.info);
    }
    return gpus;
  }
  const auto wanted = parse_ids(*ids, "GPU");
  if (!wanted) return wanted.error();
  for (const std::uint32_t index : *wanted) {
    const auto found = std::ranges::find(snapshot.devices, index,
                                         [](const DeviceState& one) { return one.info.index; });
    if (found == snapshot.devices.end()) {
      return Error{Errc::invalid, fmt::format("GPU {} not found", index)};
    }
    gpus.push_back(found->info);
  }
  return gpus;
}

}  // namespace gpuyard::zeus
