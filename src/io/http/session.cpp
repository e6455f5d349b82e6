// The only coroutines besides the streams' own. g++ 12 destroys some temporaries twice next to
// co_await: one co_await per statement, its arguments named.
#include "io/http/session.h"

#include <exception>
#include <optional>

#include <fmt/format.h>

#include "base/log.h"
#include "io/http/content_coding.h"
#include "io/http/deadline.h"
#include "io/http/loop_core.h"
#include "io/http/message.h"
#include "io/http/read_buffer.h"
#include "io/http/request_parser.h"
#include "io/http/response_stream_sender.h"
#include "io/http/stream.h"
#include "io/http/target.h"
#include "io/http/turn_scheduler.h"

#include <boost/asio/co_spawn.hpp>

namespace gpuyard::http {
namespace {

using asio::awaitable;

class Session final : public Connection, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<ServerContext> context, std::unique_ptr<Stream> stream,
          IncomingConnection incoming)
      : context_(std::move(context)),
        stream_(std::move(stream)),
        incoming_(std::move(incoming)),
        buffer_(context_->limits.header_bytes + kHeaderSlackBytes),
        parser_(context_->limits),
        deadline_(context_->time, [this] { on_timeout(); }) {
    incoming_.peer.disconnect_notifier = std::make_shared<DisconnectNotifier>();
    context_->add(*this);
  }
  ~Session() override { context_->remove(*this); }

  static awaitable<void> run(std::shared_ptr<Session> self) {
    bool open = true;
    while (open) open = co_await self->exchange();
    if (!self->aborted_) co_await self->linger();
  }

  void finish() override {
    finishing_ = true;
    if (phase_ == Phase::idle) abort();
    if (sender_) sender_->stop();
  }

  std::optional<TimePoint> waiting_since() const override {
    const bool clients_turn = phase_ == Phase::idle || phase_ == Phase::reading;
    return clients_turn && !aborted_ ? std::optional(waiting_since_) : std::nullopt;
  }
  ListenerKey listener_key() const override { return incoming_.slot.get(); }
  const QuotaGroup& quota_group() const override { return incoming_.quota_group; }

  void abort() override {
    aborted_ = true;
    stream_->abort();
    wake();
    if (sender_) sender_->abort();
    incoming_.peer.disconnect_notifier->notify();
  }

 private:
  enum class Phase { idle, reading, handling, writing, streaming, lingering };
  enum class Step { need_more, need_continue, have_request, have_response, stop };

  // Serves one request; false when it was the last.
  awaitable<bool> exchange() {
    const Step step = co_await receive();
    if (step == Step::stop) {
      abort();
      co_return false;
    }
    if (step == Step::have_request) {
      enter_phase(Phase::handling, context_->limits.handler_timeout);
      // From here on, a late response to the previous request is dropped.
      serial_ = context_->next_request_id++;
      // Many requests of one quota group delay another by one turn only.
      co_await context_->io.core().turns.wait_for_turn(quota_group());
      if (aborted_) co_return false;
      call_handler();
      if (!response_ && !aborted_) co_await answer();
    }
    if (aborted_) co_return false;
    const bool keep = co_await respond();
    co_return keep;
  }

  awaitable<Step> receive() {
    start_request();
    Step step = parse_buffered();
    while (step == Step::need_more || step == Step::need_continue) {
      if (step == Step::need_continue) co_await send_continue();
      std::size_t bytes = 0;
      if (!deadline_.is_missed() && !aborted_) bytes = co_await read();
      const bool usable = bytes > 0 && !deadline_.is_missed() && !aborted_;
      step = usable ? parse_buffered() : on_read_failure();
    }
    co_return step;
  }

  awaitable<std::size_t> read() {
    const std::span<char> space = buffer_.prepare();
    const IoResult got = co_await stream_->read(space);
    buffer_.commit(got.bytes);
    co_return got.bytes;
  }

  void start_request() {
    waiting_since_ = context_->time.now();
    parser_.reset();
    response_.reset();
    preferences_ = ResponsePreferences();
    admitted_ = false;
    keep_alive_ = false;
    http_1_0_ = false;
    enter_phase(Phase::idle,
                is_first_request_ ? context_->limits.read_timeout : context_->limits.idle_timeout);
    is_first_request_ = false;
  }

  // Parses what has been read.
  Step parse_buffered() {
    buffer_.consume(parser_.skip_empty_lines(buffer_.view()));
    if (parser_.refusal()) return refuse(*parser_.refusal());
    if (buffer_.empty()) return Step::need_more;
    if (phase_ == Phase::idle) enter_phase(Phase::reading, context_->limits.read_timeout);
    const std::size_t used = parser_.feed(buffer_.view());
    buffer_.consume(used);
    if (!parser_.refusal() && used == 0 && buffer_.prepare().empty()) parser_.report_overflow();
    if (parser_.refusal()) return refuse(*parser_.refusal());
    if (parser_.is_header_complete() && !admitted_) return admit();
    return parser_.is_complete() ? Step::have_request : Step::need_more;
  }

  // The header is there: decides whether the body is wanted.
  Step admit() {
    admitted_ = true;
    if (!is_own_host()) {
      return refuse(
          error_response(421, "misdirected",
                         "the Host header is neither localhost nor this server's address; other "
                         "names of this machine are refused unless they are in "
                         "server.allowed_hosts, because a malicious web page could use them"));
    }
    if (parser_.is_complete()) return Step::have_request;
    enter_phase(Phase::reading, context_->limits.read_timeout);
    return parser_.expects_continue() && buffer_.empty() ? Step::need_continue : Step::need_more;
  }

  bool is_own_host() const {
    if (incoming_.peer.kind == Peer::Kind::unix_socket) return true;
    const std::string& host = parser_.request().host;
    // Only HTTP/1.0, which no browser speaks, may omit the Host field.
    if (host.empty() && parser_.is_http_1_0()) return true;
    return is_host_allowed(host, incoming_.local_address, context_->allowed_hosts) ||
           is_host_allowed(host, incoming_.local_address, incoming_.server_names);
  }

  Step refuse(Response response) {
    response.close = true;
    response_ = std::move(response);
    return Step::have_response;
  }

  Step on_read_failure() {
    if (aborted_ || !deadline_.is_missed() || phase_ == Phase::idle) return Step::stop;
    return refuse(error_response(408, "timed_out", "the request took too long to arrive"));
  }

  awaitable<void> send_continue() {
    const std::string_view interim = "HTTP/1.1 100 Continue\r\n\r\n";
    const std::string_view nothing;
    co_await stream_->write(interim, nothing);  // if it fails, the next read does
  }

  void call_handler() {
    keep_alive_ = parser_.should_keep_alive();
    http_1_0_ = parser_.is_http_1_0();
    Request request = parser_.take();
    preferences_ = preferences_of(request);
    if (request.method == Method::head) request.method = Method::get;
    const bool wanted = !context_->process_filter || context_->process_filter(request);
    if (wanted && !incoming_.peer.process && incoming_.open_process) {
      incoming_.peer.process = incoming_.open_process();
    }
    request.peer = incoming_.peer;
    request.id = serial_;
    request.received_at = context_->time.now();
    ++context_->counters.requests;
    Reply reply([weak = weak_from_this(), serial = serial_](Response response) {
      if (const auto self = weak.lock()) self->accept_response(serial, std::move(response));
    });
    try {
      context_->handler(std::move(request), std::move(reply));
    } catch (const std::exception& error) {
      log::error("a request handler threw: {}", error.what());  // its Reply has answered 500
    }
  }

  void accept_response(std::uint64_t serial, Response response) {
    if (serial != serial_ || phase_ != Phase::handling || response_) return;
    response_ = std::move(response);
    incoming_.peer.disconnect_notifier->on_disconnect(nullptr);
    wake();
  }
  // Makes answer() look again.
  void wake() { context_->io.core().turns.wake(this); }

  // Gives up the slot of a client that has left, before its answer is written.
  void watch_for_hangup() {
    stream_->watch_hangup([weak = weak_from_this()] {
      const auto self = weak.lock();
      const bool ours = self && (self->phase_ == Phase::handling || self->sender_);
      const bool waits = ours && !self->aborted_;
      if (waits && self->stream_->has_hung_up()) self->abort();
    });
  }

  awaitable<void> answer() {
    enter_phase(Phase::handling, context_->limits.handler_timeout);
    watch_for_hangup();
    while (!response_ && !deadline_.is_missed() && !aborted_) {
      co_await context_->io.core().turns.sleep(this, quota_group());
    }
    stream_->interrupt();  // ends the watch
    if (!response_) {
      incoming_.peer.disconnect_notifier->notify();
      refuse(error_response(503, "timed_out", "the request was not answered in time"));
    }
  }

  awaitable<bool> respond() {
    if (response_->stream && admit_stream()) {
      co_await send_stream();
      co_return false;
    }
    const bool is_long = response_->body && response_->body->size() > TurnScheduler::kPieceBytes;
    if (is_long) co_await context_->io.core().turns.wait_for_turn(quota_group());  // to pack it
    apply_preferences(preferences_, *response_, context_->gzip_cache, context_->limits);
    const bool keep = keep_alive_ && !response_->close && !finishing_ && !context_->closing;
    render_head(keep);
    const std::string_view body = body_to_send();
    enter_phase(Phase::writing, context_->limits.write_timeout);
    const IoResult sent = co_await stream_->write(head_, body);
    if (!sent.ok) abort();
    co_return keep && !aborted_;
  }

  void render_head(bool keep) {
    head_.clear();
    put_head(head_, *response_, {.keep_alive = keep, .http_1_0 = http_1_0_});
  }

  // Whether there is room to stream; refuses the request if not.
  bool admit_stream() {
    response_->close = true;
    if (is_head_request()) return false;  // which has no body
    const ConnectionQuotas::QuotaDecision decision = context_->quotas.admit_stream(*this);
    if (decision == ConnectionQuotas::QuotaDecision::admitted) return true;
    refuse(error_response(503, "busy",
                          decision == ConnectionQuotas::QuotaDecision::group_full
                              ? fmt::format("{} has {} open streams, the maximum; close some, or "
                                            "request an answer without a stream",
                                            quota_group().name, context_->limits.streams_per_group)
                              : "too many streams are open; try again later"));
    return false;
  }

  // A client's further requests stay unread: nothing can follow this response.
  awaitable<void> send_stream() {
    render_head(false);
    buffer_ = ReadBuffer(context_->limits.header_bytes + kHeaderSlackBytes);
    phase_ = Phase::streaming;
    stream_->limit_unsent(context_->limits.stream_unsent_bytes);
    sender_ = std::make_unique<ResponseStreamSender>(
        *context_, quota_group(), *stream_, *response_->stream, std::move(head_), !http_1_0_);
    if (finishing_ || context_->closing) sender_->stop();
    watch_for_hangup();
    context_->begin_stream(*this);
    const bool sent_all = co_await sender_->run();
    context_->end_stream(*this);
    stream_->interrupt();  // ends the watch
    sender_ = nullptr;
    if (!sent_all) abort();
  }

  bool is_head_request() const { return parser_.request().method == Method::head; }

  std::string_view body_to_send() const {
    const bool left_out = is_head_request() || !has_body(response_->status);
    return left_out || !response_->body ? std::string_view() : *response_->body;
  }

  awaitable<void> linger() {
    stream_->finish();
    enter_phase(Phase::lingering, context_->limits.linger_timeout);
    std::size_t dropped = 0;
    bool more = true;
    while (more && dropped < context_->limits.linger_bytes) {
      buffer_.consume(buffer_.view().size());
      const std::size_t bytes = co_await read();
      dropped += bytes;
      more = bytes > 0 && !deadline_.is_missed() && !aborted_;
    }
    stream_->abort();
  }

  void enter_phase(Phase phase, Duration at_most) {
    phase_ = phase;
    deadline_.set(at_most);
  }

  void on_timeout() {
    if (phase_ == Phase::handling) {
      wake();
    } else if (phase_ == Phase::writing) {
      abort();  // a write under way can hardly be followed by anything
    } else if (phase_ != Phase::streaming) {  // the sender has deadlines of its own
      stream_->interrupt();
    }
  }

  std::shared_ptr<ServerContext> context_;
  std::unique_ptr<Stream> stream_;
  IncomingConnection incoming_;
  ReadBuffer buffer_;
  RequestParser parser_;
  std::string head_;

  Phase phase_ = Phase::idle;
  TimePoint waiting_since_;
  bool is_first_request_ = true;  // nothing was read yet
  bool finishing_ = false;        // the response under way is the last
  bool aborted_ = false;

  // The request under way.
  bool admitted_ = false;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  std::uint64_t serial_ = 0;
  ResponsePreferences preferences_;
  std::optional<Response> response_;
  std::unique_ptr<ResponseStreamSender> sender_;  // while it streams

  Deadline deadline_;
};

}  // namespace

void begin_session(std::shared_ptr<ServerContext> context, std::unique_ptr<Stream> stream,
                   IncomingConnection incoming) {
  auto& io = context->io.core().io;
  ++context->counters.accepted;
  auto session =
      std::make_shared<Session>(std::move(context), std::move(stream), std::move(incoming));
  asio::co_spawn(io, Session::run(std::move(session)), [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);  // a bug or no memory: out of run()
  });
}

void begin_socket_session(std::shared_ptr<ServerContext> context, UniqueFd socket,
                          IncomingConnection incoming) {
  auto stream = open_socket_stream(context->io, std::move(socket), incoming.quota_group);
  begin_session(std::move(context), std::move(stream), std::move(incoming));
}

}  // namespace gpuyard::http
