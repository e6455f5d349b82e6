#include "faces/api/authenticator.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "core/auth/auth_throttle.h"
#include "core/auth/token_store.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"

namespace gpuyard::api {
namespace {

constexpr std::string_view kAuthorizationField = "Authorization";

// The token or certificate that admitted a call. It may end before the answer.
struct Credential {
  std::function<std::optional<http::Response>()> refusal;  // empty while it is good
  std::function<Subscription(std::function<void()> ended)> subscribe;
};

// Ends with its credential, so that a revoked caller receives no more data.
class CredentialBoundStream final : public http::ResponseStream {
 public:
  CredentialBoundStream(const Credential& credential, std::shared_ptr<http::ResponseStream> stream)
      : stream_(std::move(stream)) {
    stream_->set_on_more([this] { notify_more(); });
    end_subscription_ = credential.subscribe([this] {
      ended_ = true;
      notify_more();
    });
  }
  ~CredentialBoundStream() override { stream_->set_on_more(nullptr); }
  CredentialBoundStream(const CredentialBoundStream&) = delete;
  CredentialBoundStream& operator=(const CredentialBoundStream&) = delete;

  http::Chunk next() override { return ended_ ? http::Chunk() : stream_->next(); }
  bool is_over() const override { return ended_ || stream_->is_over(); }
  bool can_end() const override { return !ended_ && stream_->can_end(); }

 private:
  std::shared_ptr<http::ResponseStream> stream_;
  bool ended_ = false;
  Subscription end_subscription_;
};

// A delayed answer, such as a claim's, is sent only if the credential is still good.
http::Reply bind_to_credential(Credential credential, http::Reply reply) {
  return http::Reply(
      [credential = std::move(credential),
       reply = std::make_shared<http::Reply>(std::move(reply))](http::Response response) {
        if (auto refusal = credential.refusal()) return (*reply)(*std::move(refusal));
        if (response.stream) {
          response.stream =
              std::make_shared<CredentialBoundStream>(credential, std::move(response.stream));
        }
        (*reply)(std::move(response));
      });
}

Error credential_ended_error() {
  return {Errc::denied, "the token expired or was revoked while the request was waiting"};
}

Credential token_credential(AuthApi& api, const std::string& token) {
  return {[&api, token]() -> std::optional<http::Response> {
            const auth::Token* now = api.tokens.find(token);
            if (now != nullptr && now->is_valid(api.loop.wall())) return std::nullopt;
            return unauthenticated_response(credential_ended_error());
          },
          [&api, token](std::function<void()> on_end) {
            return api.tokens.subscribe_to_end(token, std::move(on_end));
          }};
}

Credential certificate_credential(AuthApi& api, const http::Peer& peer) {
  return {[&api, peer]() -> std::optional<http::Response> {
            const auto good = api.certificates.check(peer);
            if (good) return std::nullopt;
            return http::error_response(good.error());
          },
          [&api, peer](std::function<void()> on_end) {
            return api.certificates.subscribe(peer, std::move(on_end));
          }};
}

// Returns the token in the one Authorization field there may be.
Result<std::string_view> bearer_of(const http::Request& request) {
  const auto fields = std::ranges::count_if(request.headers, [](const http::Header& one) {
    return equals_ignoring_case(one.name, kAuthorizationField);
  });
  const std::string_view value = request.header(kAuthorizationField);
  constexpr std::string_view kScheme = "bearer ";
  if (fields != 1 || !equals_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
    return Error{Errc::invalid,
                 "expected exactly one Authorization header of the form `Bearer gpy_...`"};
  }
  return trim(value.substr(kScheme.size()));
}

// A credential that a browser shows by itself does not prove that its user wanted the request: a
// page of another site may have made it. Without a preflight, a page can send only one kind of
// change elsewhere: a POST that is not JSON.
bool can_be_cross_site(const http::Request& request) {
  if (request.method == http::Method::get) return false;
  const std::string_view site = request.header("Sec-Fetch-Site");
  const std::string_view origin = request.header("Origin");
  const bool simple = request.method == http::Method::post &&
                      !to_lower(request.header("Content-Type")).starts_with("application/json");
  return simple || (!site.empty() && site != "same-origin" && site != "none") ||
         (!origin.empty() && origin != "https://" + request.host);
}

}  // namespace

http::Response unauthenticated_response(const Error& error) {
  http::Response response = http::error_response(401, "unauthenticated", error.text(), error.hint);
  response.headers.push_back({"WWW-Authenticate", "Bearer realm=\"gpuyard\""});
  return response;
}

void Authenticator::authenticate(const std::shared_ptr<PendingCall>& call,
                                 const OnAuthenticated& on_authenticated) {
  if (call->request.header(kAuthorizationField).empty()) {
    const bool certified = !call->request.peer.certificate_fingerprint.empty();
    if (certified) return check_certificate(call, on_authenticated);
    return on_authenticated(principal_of(call->request.peer, authority_));
  }
  const auto token = bearer_of(call->request);
  if (!token) return call->reply(http::error_response(token.error()));
  check_token(call, *token, on_authenticated);
}

void Authenticator::check_token(const std::shared_ptr<PendingCall>& call, std::string_view text,
                                const OnAuthenticated& on_authenticated) {
  const http::Peer& peer = call->request.peer;
  const Transport transport = transport_of(peer, authority_);
  const auto token = api_.tokens.authenticate(text);
  if (transport == Transport::plain_tcp) {
    if (token) api_.tokens.record_use((*token)->id, peer.quota_group, true);
    return refuse(call,
                  {Errc::denied,
                   "token refused: it was sent without TLS, where others can read it. Use https:// "
                   "or ssh://, and replace this token with a new one"},
                  403);
  }
  if (!token && token.error().code == Errc::unavailable) {
    return call->reply(http::error_response(token.error()));
  }
  if (!token) return refuse(call, token.error(), 401);
  const std::string id = (*token)->id;
  api_.tokens.record_use(id, peer.quota_group);
  call->reply = bind_to_credential(token_credential(api_, id), std::move(call->reply));
  const auto on_membership = [this, id, transport, call, on_authenticated](bool member) {
    // The check of the group takes a while.
    const auth::Token* now = api_.tokens.find(id);
    if (now == nullptr || !now->is_valid(api_.loop.wall())) {
      return call->reply(unauthenticated_response(credential_ended_error()));
    }
    on_authenticated(principal_of(*now, transport, member, authority_));
  };
  resolve_membership(**token, on_membership);
}

// Reading and leasing do not need the group.
void Authenticator::resolve_membership(const auth::Token& token,
                                       std::function<void(bool)> on_membership) {
  const bool asks_group = token.scope > Scope::lease && token.uid;
  if (!asks_group || authority_.is_admin(*token.uid)) return on_membership(false);
  api_.users.check_group_member(*token.uid, std::move(on_membership));
}

void Authenticator::check_certificate(const std::shared_ptr<PendingCall>& call,
                                      const OnAuthenticated& on_authenticated) {
  const http::Peer& peer = call->request.peer;
  const auto refuse = [&](std::string why) {
    record_refusal(call, peer.quota_group, why);
    call->reply(http::error_response({Errc::denied, std::move(why)}));
  };
  if (auto good = api_.certificates.check(peer); !good) return refuse(good.error().text());
  if (can_be_cross_site(call->request)) {
    return refuse(
        "refused, because browsers send client certificates for any page: a change needs "
        "Content-Type: application/json and must come from this origin");
  }
  for (const std::string& name : peer.certificate_names) {
    const auto known = authority_.certificates.find(name);
    if (known == authority_.certificates.end()) continue;
    const auth::Token& grant = known->second;
    call->reply = bind_to_credential(certificate_credential(api_, peer), std::move(call->reply));
    return resolve_membership(grant, [this, &grant, on_authenticated](bool member) {
      on_authenticated(principal_of(grant, Transport::tls, member, authority_));
    });
  }
  refuse(fmt::format(
      "the client certificate names {}, but tls.clients lists no permissions for any of them",
      peer.certificate_names.empty() ? "no subject alternative name"
                                     : fmt::format("{}", fmt::join(peer.certificate_names, ", "))));
}

void Authenticator::record_refusal(const std::shared_ptr<const PendingCall>& call,
                                   const std::string& by, std::string why) const {
  const http::Peer& peer = call->request.peer;
  control::ChangeRequester requester{by, false, call->request_id, call->request.received_at};
  requester.over_tcp = peer.kind == http::Peer::Kind::tcp;
  if (requester.over_tcp) requester.quota_owner = quota_group_of(peer);
  api_.control.record_refusal(requester, "invalid token", {Errc::denied, std::move(why)});
}

void Authenticator::refuse(const std::shared_ptr<PendingCall>& call, const Error& why, int status) {
  const std::string& from = call->request.peer.quota_group;
  const auto record_line = [&](std::uint64_t count) {
    record_refusal(call, from,
                   count > 1
                       ? fmt::format("{} ({} attempts since the last line)", why.text(), count)
                       : why.text());
  };
  const auto answer = [call, status, why] {
    call->reply(status == 401 ? unauthenticated_response(why)
                              : http::error_response(status, "denied", why.text(), why.hint));
  };
  if (api_.throttle.record_failure(quota_group_of(call->request.peer), record_line, answer)) return;
  http::Response busy = http::error_response(
      429, "busy", "too many invalid tokens were sent recently; try again in a few seconds");
  busy.headers.push_back({"Retry-After", "5"});
  call->reply(std::move(busy));
}

}  // namespace gpuyard::api
