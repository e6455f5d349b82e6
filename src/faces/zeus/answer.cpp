#include "zeus/answer.h"

#include <algorithm>

#include "base/json_writer.h"

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

void Answer::done() const {
  send({200, "", std::string()});
}

void Answer::failed(const DeviceErrors& errors) const {
  int worst = 400;
  std::map<std::string, std::string> why;
  for (const auto& [index, error] : errors) {
    worst = std::max(worst, device_status_of(error.code));
    why[std::to_string(index)] = error.message;
  }
  send({worst, "application/json", R"({"errors":)" + json::to_json(why) + "}"});
}

}  // namespace gpuyard::zeus
