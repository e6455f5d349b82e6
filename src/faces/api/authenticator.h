// Who asks: from what a request came over, and the token that it shows, to its principal. A token
// that is no good is answered here, later and later; a good one is watched for as long as the
// answer lasts. Lives on the io thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "faces/api/principal.h"
#include "io/http/message.h"

namespace gpuyard::api {

struct Context;

class Admission {
 public:
  // A request that waits to be admitted, with the promise to answer it.
  struct Call {
    http::Request request;
    http::Reply reply;
    std::string request_id;  // in logs and in the audit
  };
  using Admitted = std::function<void(Principal)>;

  // Both outlive this.
  Admission(Context& context, const Authority& authority)
      : context_(context), authority_(authority) {}

  // Calls `admitted` now or later; or answers the call itself, and never does.
  void ask(const std::shared_ptr<Call>&, const Admitted& admitted);

 private:
  void show(const std::shared_ptr<Call>&, std::string_view token, const Admitted& admitted);
  void show_certificate(const std::shared_ptr<Call>&, const Admitted& admitted);
  // Tells whether the user is of the group now, if that matters.
  void when_known(const access::Token&, std::function<void(bool)> go_on);
  void refuse(const std::shared_ptr<Call>&, const Error& why, int status);
  void note(const std::shared_ptr<const Call>&, const std::string& by, std::string why) const;

  Context& context_;
  const Authority& authority_;
};

// 401 with the field that says how to do better.
http::Response unauthenticated(const Error&);

}  // namespace gpuyard::api
