// Finds a request's principal: from its transport, and the token that it shows. A token
// that is no good is answered here, later and later; a good one is watched for as long as the
// answer lasts. Thread: io.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "faces/api/principal.h"
#include "io/http/message.h"

namespace gpuyard::api {

struct AuthApi;

class Authenticator {
 public:
  // A request that waits for authentication, with the promise to answer it.
  struct PendingCall {
    http::Request request;
    http::Reply reply;
    std::string request_id;  // in logs and in the audit
  };
  using OnAuthenticated = std::function<void(Principal)>;

  // Both outlive this.
  Authenticator(AuthApi& api, const Authority& authority) : api_(api), authority_(authority) {}

  // Calls `on_authenticated` now or later; or answers the call itself and never calls it.
  void authenticate(const std::shared_ptr<PendingCall>&, const OnAuthenticated& on_authenticated);

 private:
  void check_token(const std::shared_ptr<PendingCall>&, std::string_view token,
                   const OnAuthenticated& on_authenticated);
  void check_certificate(const std::shared_ptr<PendingCall>&,
                         const OnAuthenticated& on_authenticated);
  // Calls back with whether the user is of the group now, if that matters.
  void resolve_membership(const auth::Token&, std::function<void(bool)> on_membership);
  void refuse(const std::shared_ptr<PendingCall>&, const Error& why, int status);
  void record_refusal(const std::shared_ptr<const PendingCall>&, const std::string& by,
                      std::string why) const;

  AuthApi& api_;
  const Authority& authority_;
};

// Returns 401 with the field that says how to authenticate.
http::Response unauthenticated_response(const Error&);

}  // namespace gpuyard::api
