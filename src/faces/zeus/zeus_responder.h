// Answers to requests: exactly 200, or an error in one of the two shapes that clients of zeusd
// know.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "base/result.h"
#include "gpu/device/reading.h"
#include "gpu/device/snapshot.h"
#include "io/http/message.h"

namespace gpuyard::zeus {

using DeviceErrors = std::map<std::uint32_t, Error>;  // by index

// {"error": why}
http::Response error_response(int status, std::string_view why);

// Returns 403 for a missing right or another owner's GPU, 400 for the impossible, else 500.
int device_status_of(Errc);
Error error_of(const Missing&);

// Thread: io. Copies answer the same request; the first answer counts.
class ZeusResponder {
 public:
  explicit ZeusResponder(http::Reply reply)
      : reply_(std::make_shared<http::Reply>(std::move(reply))) {}

  // Answers 200 with an empty body, as every setter does.
  void send_ok() const;
  template <class T>
  void send_json(const T& body) const {
    send({200, "application/json", json::to_json(body)});
  }
  void send_error(int status, std::string_view why) const { send(error_response(status, why)); }
  void send_error(const Error& error) const {
    send_error(http_status_of(error.code), error.text());
  }
  // Answers {"errors": {"0": why}} with the worst of their status codes.
  void send_device_errors(const DeviceErrors&) const;

  void send(http::Response response) const { (*reply_)(std::move(response)); }

 private:
  std::shared_ptr<http::Reply> reply_;
};

// Parses "2, 0,2" as {0, 2}. Errc::invalid for an empty list or element and for anything that is no
// index; `what` is "GPU" or "CPU".
Result<std::vector<std::uint32_t>> parse_ids(std::string_view text, std::string_view what);

// Returns the named GPUs; without a list all for which is_present() holds. Errc::unavailable
// without a driver, Errc::invalid for an index that no GPU has.
Result<std::vector<DeviceInfo>> resolve_gpus(const Snapshot&,
                                             const std::optional<std::string>& ids);

// Returns whether "all" includes the GPU: not if the driver says that it is gone.
bool is_present(const DeviceState&);

}  // namespace gpuyard::zeus
