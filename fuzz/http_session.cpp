// Sends any bytes, cut anywhere, through a whole HTTP session in memory. The input also controls
// time and the client's bad behaviour.
//
// An input is one line of actions, then the bytes to send:
//   1-9  send so many bytes        l  send a thousand       a  send the rest
//   r    let held requests answer  t  a second passes       T  a minute passes
//   s    read nothing any more     f  finish sending        v  vanish
//   k    the server wants to stop  m  another client needs the slot
//   e    something happens         E  streams are over
// After the last action the remaining bytes are sent, and then the client finishes.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/manual_loop_for_tests.h"
#include "io/http/event_stream.h"
#include "io/http/memory_pipe_for_tests.h"
#include "io/http/response_stream_for_tests.h"
#include "io/http/session.h"
#include "io/http/target.h"
#include "require.h"
#include "response_stream.h"

namespace gpuyard::http {
namespace {

using fuzz::require;

constexpr std::string_view kLocalAddress = "127.0.0.1";
constexpr std::size_t kBigBody = 100'000;
constexpr std::size_t kEventBytes = 300;

// The limits are small, so that inputs reach them.
Limits small_limits() {
  Limits limits;
  limits.header_bytes = 1024;
  limits.target_bytes = 256;
  limits.body_bytes = 512;
  limits.linger_bytes = 1024;
  limits.stream_batch_bytes = 500;
  return limits;
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
}

void check(const Request& request, const Limits& limits) {
  require(request.path.starts_with('/'), "a path begins with a slash");
  require((request.path + '/').find("/../") == std::string::npos, "a path does not climb");
  for (const char c : request.path) require(!is_control(c), "a path has no control character");
  require(request.target.size() <= limits.target_bytes, "a target stays below its limit");
  require(request.body.size() <= limits.body_bytes, "a body stays below its limit");
  require(request.method != Method::head, "a HEAD arrives as a GET");
  std::size_t header = 0;
  for (const Header& field : request.headers) header += field.name.size() + field.value.size();
  require(header <= limits.header_bytes, "a header stays below its limit");
  require(request.host.empty() || is_host_allowed(request.host, std::string(kLocalAddress), {}),
          "a stranger's name is not served");
}

class Exchange {
 public:
  Exchange() {
    IncomingConnection arrival;
    arrival.local_address = kLocalAddress;
    begin_session(context_, pipe_.stream(), std::move(arrival));
    io_.poll();
  }

  void act(char action, std::string_view& bytes) {
    if (action >= '1' && action <= '9') send(static_cast<std::size_t>(action - '0'), bytes);
    if (action == 'l') send(1000, bytes);
    if (action == 'a') send(bytes.size(), bytes);
    if (action == 'r') release();
    if (action == 't') time_.advance(std::chrono::seconds(1));
    if (action == 'T') time_.advance(std::chrono::minutes(1));
    if (action == 's') pipe_.stall();
    if (action == 'f') pipe_.finish();
    if (action == 'v') pipe_.vanish();
    if (action == 'k') finish_all();
    if (action == 'm') context_->quotas.admit({}, nullptr, context_->limits.connections);
    if (action == 'e') publish_event();
    if (action == 'E') end_streams();
    turn();
  }

  void end(std::string_view bytes) {
    send(bytes.size(), bytes);
    turn();
    pipe_.finish();
    turn();
    release();
    turn();
    // Passes one phase's limit at a time: reading or handling, then writing, then lingering.
    for (int i = 0; i < 4 && context_->counters.active > 0; ++i) {
      end_streams();
      time_.advance(std::chrono::minutes(2));
      turn();
    }
    require(context_->counters.streams == 0, "a stream ends with its session");
    require(context_->counters.active == 0, "a session ends with its client");
    const auto read = fuzz::read_responses(received_);
    require(read.responses <= context_->counters.requests + 1, "no request is answered twice");
  }

 private:
  void send(std::size_t count, std::string_view& bytes) {
    pipe_.send(bytes.substr(0, count));
    bytes.remove_prefix(std::min(count, bytes.size()));
  }
  void turn() {
    io_.poll();
    received_ += pipe_.take_received();
  }
  void release() {
    auto held = std::exchange(held_replies_, {});
    for (Reply& reply : held) reply(Response(200, "text/plain", "later"));
  }
  void publish_event() {
    const Chunk event = event_chunk("e", std::string(kEventBytes, 'e'));
    for (const auto& stream : streams_) stream->say(event);
  }
  void end_streams() {
    for (const auto& stream : streams_) stream->end();
  }
  void finish_all() {
    context_->closing = true;
    const auto connections = context_->quotas.all();
    for (Connection* connection : connections) connection->finish();
  }

  void handle(const Request& request, Reply reply) {
    check(request, context_->limits);
    if (request.path == "/held") return held_replies_.push_back(std::move(reply));
    if (request.path == "/dropped") return;
    if (request.path == "/throws") throw std::runtime_error("as asked");
    if (request.path == "/stream") {
      streams_.push_back(std::make_shared<ManualStream>());
      return reply(event_stream(streams_.back()));
    }
    if (request.path == "/empty") return reply(Response(204, "", ""));
    if (request.path == "/big") return reply(Response(200, "text/plain", big_));
    Response echo(200, request.target, "body: " + request.body);
    echo.etag = "\"e\"";
    echo.headers.push_back({"X-Host", request.host});
    for (const auto& [name, value] : request.query) echo.headers.push_back({"X-Query", value});
    echo.close = request.path == "/close";
    reply(std::move(echo));
  }

  ManualLoop time_;  // outlives the sessions that the loop still holds
  IoLoop io_;
  MemoryPipe pipe_{io_};
  std::shared_ptr<const std::string> big_ = std::make_shared<const std::string>(kBigBody, 'b');
  std::vector<Reply> held_replies_;
  std::vector<std::shared_ptr<ManualStream>> streams_;
  std::shared_ptr<ServerContext> context_ = std::make_shared<ServerContext>(
      io_, time_,
      [this](const Request& request, Reply reply) { handle(request, std::move(reply)); },
      small_limits());
  std::string received_;
};

}  // namespace
}  // namespace gpuyard::http

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpuyard::log::capture([](gpuyard::log::Level, std::string_view) {});
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr std::size_t kMaxActions = 200;
  const std::string_view actions = bytes.substr(0, std::min(bytes.find('\n'), kMaxActions));
  bytes.remove_prefix(std::min(actions.size() + 1, bytes.size()));
  gpuyard::http::Exchange exchange;
  for (const char action : actions) exchange.act(action, bytes);
  exchange.end(bytes);
  return 0;
}
