// How a request is answered: exactly 200, or an error in one of the two shapes that clients of
// zeusd know.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_writer.h"
#include "base/result.h"
#include "device/missing.h"
#include "http/message.h"

namespace gpuyard::zeus {

using DeviceErrors = std::map<std::uint32_t, Error>;  // by index

// {"error": why}
http::Response error_response(int status, std::string_view why);

// 403 where a right or the GPU's owner is in the way, 400 for what cannot be done, else 500.
int device_status_of(Errc);
Error error_of(const Missing&);

// Copies answer the same request; the first answer counts.
class Answer {
 public:
  explicit Answer(http::Reply reply) : reply_(std::make_shared<http::Reply>(std::move(reply))) {}

  // 200 with nothing, as every setter answers.
  void done() const;
  template <class T>
  void json(const T& body) const {
    send({200, "application/json", json::to_json(body)});
  }
  void refuse(int status, std::string_view why) const { send(error_response(status, why)); }
  void refuse(const Error& error) const { refuse(http_status_of(error.code), error.message); }
  // {"errors": {"0": why}} with the worst of their codes.
  void failed(const DeviceErrors&) const;

  void send(http::Response response) const { (*reply_)(std::move(response)); }

 private:
  std::shared_ptr<http::Reply> reply_;
};

}  // namespace gpuyard::zeus
