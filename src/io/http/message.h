// Requests and responses as plain values, and the promise to answer. What handlers see of HTTP;
// knows no socket and no GPU.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "io/http/response_stream.h"

namespace gpuyard::http {

enum class Method { get, head, post, put, del, patch, options, other };

// "GET", "DELETE"; "OTHER" for other.
std::string_view name_of(Method);

struct Header {
  std::string name;
  std::string value;
};

// The first value of `name`, in any case; "" if there is none.
std::string_view find_header(const std::vector<Header>& headers, std::string_view name);

// Whether the client still waits for its answer. Thread: io.
class DisconnectNotifier {
 public:
  // `callback` is called once, when the connection ends before the request under way was answered.
  void on_disconnect(std::function<void()> callback) { on_disconnect_ = std::move(callback); }
  // Called by the session.
  void notify() {
    if (const auto callback = std::exchange(on_disconnect_, nullptr)) callback();
  }

 private:
  std::function<void()> on_disconnect_;
};

// The other side of a connection, as the kernel says. uid, gid, groups, pid and process are set on
// Unix sockets only.
struct Peer {
  enum class Kind { tcp, unix_socket };
  Kind kind = Kind::tcp;
  std::string address;      // "127.0.0.1:53412"; "" on a Unix socket
  std::string quota_group;  // shares the limits of one user: "uid 1000", "192.0.2.7"; see
                            // connection_quotas.h
  std::string listener;     // the listening address: "127.0.0.1:9410", "/run/gpuyard/gpuyard.sock"
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  std::vector<gid_t> groups;  // gid and the supplementary ones; see peer.h
  pid_t pid = 0;
  bool encrypted = false;  // over TLS
  bool relayed = false;    // by dial-stdio, which lasts as long as the connection; see tunnel.h
  // The names ("URI:spiffe://a/b", "DNS:node7") and the fingerprint of the certificate that a
  // client showed over TLS, signed by somebody we trust; see CertificateFacts. Empty without one.
  std::vector<std::string> certificate_names = {};
  std::string certificate_fingerprint = {};
  std::optional<WallTime> certificate_expires_at = {};  // its notAfter
  std::shared_ptr<const UniqueFd> process = {};         // null: unknown; see peer.h
  // The connection's notifier; set by its session.
  std::shared_ptr<DisconnectNotifier> disconnect_notifier = {};

  bool is_in_group(gid_t) const;
};

struct Request {
  Method method = Method::get;  // a HEAD arrives as GET; the session leaves the body out
  std::string target;           // as sent
  std::string host;             // the server that is meant: the target's authority, else Host
  std::string path;             // decoded once; no NUL or control character, no ".." segment
  std::vector<std::pair<std::string, std::string>> query;  // in order; %XX decoded, '+' stays '+'
  std::vector<Header> headers;
  std::string body;
  Peer peer;
  std::uint64_t id = 0;     // counts up within one server
  TimePoint received_at{};  // when its last byte was read

  std::string_view header(std::string_view name) const { return find_header(headers, name); }
};

struct Response {
  Response() = default;
  Response(int status_code, std::string type, std::string text);
  Response(int status_code, std::string type, std::shared_ptr<const std::string> shared_body)
      : status(status_code), content_type(std::move(type)), body(std::move(shared_body)) {}

  int status = 200;
  std::string content_type;  // "" leaves the field out
  // Shared, so that a snapshot is rendered once; may be null.
  std::shared_ptr<const std::string> body;
  std::vector<Header> headers;  // more fields; one with a control character is left out
  std::string etag;  // quoted; on a 200 to a GET, a client that names it in If-None-Match gets 304
  bool gzipped = false;  // `body` is gzip; a client that does not accept gzip gets it unpacked
  bool close = false;    // close the connection after this response
  // A body without an end, instead of `body`; see event_stream.h.
  std::shared_ptr<ResponseStream> stream = {};
};

// {"error":{"code":"...","message":"..."}}
Response error_response(int status, std::string_view code, std::string_view message,
                        std::string_view hint = {});
// Retry-After of every 503 response, which reports a temporary state.
inline constexpr std::string_view kRetryAfterSeconds = "1";
Response error_response(const Error&);

// The promise to answer one request. Call it once, on the loop's thread, now or later; calling it
// after the client has gone or the handler's deadline has passed does nothing. A Reply that is
// destroyed unanswered answers 500.
class Reply {
 public:
  using Send = std::function<void(Response)>;

  explicit Reply(Send send) : send_(std::move(send)) {}
  Reply(Reply&& other) noexcept : send_(std::exchange(other.send_, nullptr)) {}
  Reply& operator=(Reply&& other) noexcept;
  ~Reply() { abandon(); }

  void operator()(Response response);
  explicit operator bool() const { return send_ != nullptr; }

 private:
  void abandon();

  Send send_;
};

// The same promise; the response gets this field besides its own.
Reply with_field(Reply, Header);

// Called for each request. Thread: io, which it must not block.
using Handler = std::function<void(Request, Reply)>;

// A Response's status line and fields as bytes.
struct HeadOptions {
  bool keep_alive = true;
  bool http_1_0 = false;  // such a client must be told when the connection stays open
};

// Appends to `out`, up to and with the empty line.
void put_head(std::string& out, const Response& response, HeadOptions options);

// Whether a response of this status has a body at all.
bool has_body(int status);

}  // namespace gpuyard::http
