// The only coroutines besides the streams' own. g++ 12 destroys some temporaries twice next to
// co_await: one co_await per statement, its arguments named.
#include "io/http/session.h"

#include <exception>
#include <optional>

#include <fmt/format.h>

#include "base/log.h"
#include "io/http/content_coding.h"
#include "io/http/loop_core.h"
#include "io/http/message.h"
#include "io/http/request_parser.h"
#include "io/http/response_stream_sender.h"
#include "io/http/stream.h"
#include "io/http/target.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace gpuyard::http {
namespace {

using asio::awaitable;

class Session final : public Connection, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Site> site, std::unique_ptr<Stream> stream, Arrival arrival)
      : site_(std::move(site)),
        stream_(std::move(stream)),
        arrival_(std::move(arrival)),
        buffer_(site_->limits.header_bytes + kBeyondHeader),
        parser_(site_->limits),
        answered_(site_->io.core().io),
        deadline_(site_->time, [this] { time_out(); }) {
    arrival_.peer.presence = std::make_shared<Presence>();
    site_->add(*this);
  }
  ~Session() override { site_->remove(*this); }

  static awaitable<void> run(std::shared_ptr<Session> self) {
    bool open = true;
    while (open) open = co_await self->exchange();
    if (!self->gone_) co_await self->linger();
  }

  void finish() override {
    finishing_ = true;
    if (phase_ == Phase::idle) abort();
    if (sender_) sender_->stop();
  }

  std::optional<TimePoint> waiting_since() const override {
    const bool clients_turn = phase_ == Phase::idle || phase_ == Phase::reading;
    return clients_turn && !gone_ ? std::optional(waiting_since_) : std::nullopt;
  }
  const void* seat() const override { return arrival_.seat.get(); }
  const Party& party() const override { return arrival_.party; }

  void abort() override {
    gone_ = true;
    stream_->abort();
    answered_.cancel();
    if (sender_) sender_->abort();
    arrival_.peer.presence->leave();
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
      enter(Phase::handling, site_->limits.handler);
      // From here on, a late response to the previous request is dropped.
      serial_ = site_->next_request++;
      // Many requests of one party delay another party by one turn only.
      co_await site_->io.core().turns.next(party());
      if (gone_) co_return false;
      call_handler();
      if (!response_ && !gone_) co_await answer();
    }
    if (gone_) co_return false;
    const bool keep = co_await respond();
    co_return keep;
  }

  awaitable<Step> receive() {
    start_request();
    Step step = digest();
    while (step == Step::need_more || step == Step::need_continue) {
      if (step == Step::need_continue) co_await send_continue();
      std::size_t bytes = 0;
      if (!deadline_.missed() && !gone_) bytes = co_await read();
      const bool usable = bytes > 0 && !deadline_.missed() && !gone_;
      step = usable ? digest() : nothing_read();
    }
    co_return step;
  }

  awaitable<std::size_t> read() {
    const std::span<char> space = buffer_.prepare();
    const Io got = co_await stream_->read(space);
    buffer_.commit(got.bytes);
    co_return got.bytes;
  }

  void start_request() {
    waiting_since_ = site_->time.now();
    parser_.reset();
    response_.reset();
    wishes_ = Wishes();
    admitted_ = false;
    keep_alive_ = false;
    http_1_0_ = false;
    enter(Phase::idle, first_ ? site_->limits.read : site_->limits.idle);
    first_ = false;
  }

  // Feeds what has been read.
  Step digest() {
    buffer_.consume(parser_.skip_empty_lines(buffer_.view()));
    if (parser_.refusal()) return refuse(*parser_.refusal());
    if (buffer_.empty()) return Step::need_more;
    if (phase_ == Phase::idle) enter(Phase::reading, site_->limits.read);
    const std::size_t used = parser_.feed(buffer_.view());
    buffer_.consume(used);
    if (!parser_.refusal() && used == 0 && buffer_.prepare().empty()) parser_.overflow();
    if (parser_.refusal()) return refuse(*parser_.refusal());
    if (parser_.header_complete() && !admitted_) return admit();
    return parser_.complete() ? Step::have_request : Step::need_more;
  }

  // The header is there: decides whether the body is wanted.
  Step admit() {
    admitted_ = true;
    if (!host_is_ours()) {
      return refuse(
          error_response(421, "misdirected",
                         "the Host header is neither localhost nor this server's address; other "
                         "names of this machine are refused unless they are in "
                         "server.allowed_hosts, because a malicious web page could use them"));
    }
    if (parser_.complete()) return Step::have_request;
    enter(Phase::reading, site_->limits.read);
    return parser_.expects_continue() && buffer_.empty() ? Step::need_continue : Step::need_more;
  }

  bool host_is_ours() const {
    if (arrival_.peer.kind == Peer::Kind::unix_socket) return true;
    const std::string& host = parser_.request().host;
    // Only HTTP/1.0, which no browser speaks, may leave it out.
    if (host.empty() && parser_.http_1_0()) return true;
    return host_allowed(host, arrival_.local_address, site_->allowed_hosts) ||
           host_allowed(host, arrival_.local_address, arrival_.also_named);
  }

  Step refuse(Response response) {
    response.close = true;
    response_ = std::move(response);
    return Step::have_response;
  }

  Step nothing_read() {
    if (gone_ || !deadline_.missed() || phase_ == Phase::idle) return Step::stop;
    return refuse(error_response(408, "timed_out", "the request took too long to arrive"));
  }

  awaitable<void> send_continue() {
    const std::string_view interim = "HTTP/1.1 100 Continue\r\n\r\n";
    const std::string_view nothing;
    co_await stream_->write(interim, nothing);  // if it fails, the next read does
  }

  void call_handler() {
    keep_alive_ = parser_.keep_alive();
    http_1_0_ = parser_.http_1_0();
    Request request = parser_.take();
    wishes_ = wishes_of(request);
    if (request.method == Method::head) request.method = Method::get;
    const bool wanted = !site_->wants_process || site_->wants_process(request);
    if (wanted && !arrival_.peer.process && arrival_.open_process) {
      arrival_.peer.process = arrival_.open_process();
    }
    request.peer = arrival_.peer;
    request.id = serial_;
    request.received = site_->time.now();
    ++site_->counters.requests;
    Reply reply([weak = weak_from_this(), serial = serial_](Response response) {
      if (const auto self = weak.lock()) self->accept(serial, std::move(response));
    });
    try {
      site_->handler(std::move(request), std::move(reply));
    } catch (const std::exception& error) {
      log::error("a request handler threw: {}", error.what());  // its Reply has answered 500
    }
  }

  void accept(std::uint64_t serial, Response response) {
    if (serial != serial_ || phase_ != Phase::handling || response_) return;
    response_ = std::move(response);
    arrival_.peer.presence->on_gone(nullptr);
    answered_.cancel();
  }

  // Gives up the seat of a client that has left, before its answer is written.
  void watch_for_hangup() {
    stream_->watch_hangup([weak = weak_from_this()] {
      const auto self = weak.lock();
      const bool ours = self && (self->phase_ == Phase::handling || self->sender_);
      const bool waits = ours && !self->gone_;
      if (waits && self->stream_->hung_up()) self->abort();
    });
  }

  awaitable<void> answer() {
    enter(Phase::handling, site_->limits.handler);
    watch_for_hangup();
    boost::system::error_code woken;
    auto token = asio::redirect_error(asio::use_awaitable, woken);
    while (!response_ && !deadline_.missed() && !gone_) {
      answered_.expires_at(asio::steady_timer::time_point::max());
      co_await answered_.async_wait(token);
    }
    stream_->interrupt();  // ends the watch
    if (!response_) {
      arrival_.peer.presence->leave();
      refuse(error_response(503, "timed_out", "the request was not answered in time"));
    }
  }

  awaitable<bool> respond() {
    if (response_->feed && may_stream()) {
      co_await send_feed();
      co_return false;
    }
    const bool is_long = response_->body && response_->body->size() > Turns::kPieceBytes;
    if (is_long) co_await site_->io.core().turns.next(party());  // to pack it
    fit_to(wishes_, *response_, site_->packed, site_->limits);
    const bool keep = keep_alive_ && !response_->close && !finishing_ && !site_->closing;
    render_head(keep);
    const std::string_view body = body_to_send();
    enter(Phase::writing, site_->limits.write);
    const Io sent = co_await stream_->write(head_, body);
    if (!sent.ok) abort();
    co_return keep && !gone_;
  }

  void render_head(bool keep) {
    head_.clear();
    put_head(head_, *response_, {.keep_alive = keep, .http_1_0 = http_1_0_});
  }

  // Whether there is room to stream; refuses the request if not.
  bool may_stream() {
    response_->close = true;
    if (head_only()) return false;  // which has no body
    const Parties::Room room = site_->parties.room_to_stream(*this);
    if (room == Parties::Room::there) return true;
    refuse(error_response(503, "busy",
                          room == Parties::Room::own
                              ? fmt::format("{} has {} open streams, the maximum; close some, or "
                                            "request an answer without a stream",
                                            party().name, site_->limits.streams_of_one)
                              : "too many streams are open; try again later"));
    return false;
  }

  // A client's further requests stay unread: nothing can follow this response.
  awaitable<void> send_feed() {
    render_head(false);
    buffer_ = ReadBuffer(site_->limits.header_bytes + kBeyondHeader);
    phase_ = Phase::streaming;
    stream_->limit_unsent(site_->limits.stream_unsent_bytes);
    sender_ = std::make_unique<ResponseStreamSender>(*site_, party(), *stream_, *response_->feed,
                                                     std::move(head_), !http_1_0_);
    if (finishing_ || site_->closing) sender_->stop();
    watch_for_hangup();
    site_->begin_stream(*this);
    const bool said_all = co_await sender_->run();
    site_->end_stream(*this);
    stream_->interrupt();  // ends the watch
    sender_ = nullptr;
    if (!said_all) abort();
  }

  bool head_only() const { return parser_.request().method == Method::head; }

  std::string_view body_to_send() const {
    const bool left_out = head_only() || !has_body(response_->status);
    return left_out || !response_->body ? std::string_view() : *response_->body;
  }

  awaitable<void> linger() {
    stream_->finish();
    enter(Phase::lingering, site_->limits.linger);
    std::size_t dropped = 0;
    bool more = true;
    while (more && dropped < site_->limits.linger_bytes) {
      buffer_.consume(buffer_.view().size());
      const std::size_t bytes = co_await read();
      dropped += bytes;
      more = bytes > 0 && !deadline_.missed() && !gone_;
    }
    stream_->abort();
  }

  void enter(Phase phase, Duration at_most) {
    phase_ = phase;
    deadline_.set(at_most);
  }

  void time_out() {
    if (phase_ == Phase::handling) {
      answered_.cancel();
    } else if (phase_ == Phase::writing) {
      abort();  // a write under way can hardly be followed by anything
    } else if (phase_ != Phase::streaming) {  // the sender has deadlines of its own
      stream_->interrupt();
    }
  }

  std::shared_ptr<Site> site_;
  std::unique_ptr<Stream> stream_;
  Arrival arrival_;
  ReadBuffer buffer_;
  RequestParser parser_;
  std::string head_;

  Phase phase_ = Phase::idle;
  TimePoint waiting_since_;
  bool first_ = true;       // nothing was read yet
  bool finishing_ = false;  // the response under way is the last
  bool gone_ = false;       // aborted

  // The request under way.
  bool admitted_ = false;
  bool keep_alive_ = false;
  bool http_1_0_ = false;
  std::uint64_t serial_ = 0;
  Wishes wishes_;
  std::optional<Response> response_;
  asio::steady_timer answered_;                   // never expires; cancelling it wakes answer()
  std::unique_ptr<ResponseStreamSender> sender_;  // while it streams

  Deadline deadline_;
};

}  // namespace

void serve(std::shared_ptr<Site> site, std::unique_ptr<Stream> stream, Arrival arrival) {
  auto& io = site->io.core().io;
  ++site->counters.accepted;
  auto session = std::make_shared<Session>(std::move(site), std::move(stream), std::move(arrival));
  asio::co_spawn(io, Session::run(std::move(session)), [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);  // a bug or no memory: out of run()
  });
}

void serve_socket(std::shared_ptr<Site> site, UniqueFd socket, Arrival arrival) {
  auto stream = open_socket_stream(site->io, std::move(socket), arrival.party);
  serve(std::move(site), std::move(stream), std::move(arrival));
}

}  // namespace gpuyard::http
