// Coroutines: one co_await per statement, its arguments named.
#include "io/http/tls_stream.h"

#include <array>
#include <exception>
#include <utility>

#include "io/http/loop_core.h"
#include "io/http/session.h"
#include "io/http/stream.h"
#include "io/http/turn_scheduler.h"

#include <boost/asio/co_spawn.hpp>

namespace gpuyard::http {
namespace {

constexpr std::string_view kNothing;

class TlsStream final : public Stream {
 public:
  TlsStream(IoLoop::Core& core, std::unique_ptr<Stream> inner, TlsServer tls, QuotaGroup group)
      : turns_(core.turns),
        quota_group_(std::move(group)),
        inner_(std::move(inner)),
        tls_(std::move(tls)) {}

  // Encrypted bytes go through the caller's space, too: a connection without a request under way
  // holds no buffer here.
  asio::awaitable<IoResult> read(std::span<char> space) override {
    if (std::exchange(sends_close_notify_, false)) {
      co_await send_pending();
      inner_->finish();
    }
    for (;;) {
      const auto got = tls_.decrypt(space);
      bool usable = got.ok();
      if (tls_.has_to_send()) {  // an answer to the client's TLS, or an alert
        const bool sent = co_await send_pending();
        usable = usable && sent;
      }
      const bool is_whole = usable && got->has_value();
      const IoResult io(usable, is_whole ? **got : 0);
      if (!usable || is_whole) co_return io;
      const IoResult received = co_await inner_->read(space);
      if (!received.ok || received.bytes == 0) co_return received;
      tls_.feed({space.data(), received.bytes});
    }
  }

  asio::awaitable<IoResult> write(std::string_view head, std::string_view body) override {
    if (body.size() > TurnScheduler::kMaxImmediateBytes)
      co_await turns_.wait_for_turn(quota_group_);
    std::string plain(head);
    IoResult io(true, 0);
    do {
      if (io.bytes > 0) co_await turns_.wait_for_turn(quota_group_);
      // Head and body are encrypted together: fewer TLS records, and one system call.
      const std::string_view piece = body.substr(0, TurnScheduler::kPieceBytes);
      body.remove_prefix(piece.size());
      plain += piece;
      const bool encrypted = tls_.encrypt(plain).ok();
      const std::string sealed = tls_.take();
      const IoResult sent = co_await inner_->write(sealed, kNothing);
      io = IoResult(encrypted && sent.ok, io.bytes + plain.size());
      plain.clear();
    } while (io.ok && !body.empty());
    co_return io;
  }

  asio::awaitable<IoResult> write_all(std::span<const std::string_view> parts) override {
    std::string plain;
    for (const std::string_view part : parts) plain += part;
    const bool encrypted = tls_.encrypt(plain).ok();
    const bool sent = co_await send_pending();
    const IoResult io(encrypted && sent, plain.size());
    co_return io;
  }

  void limit_unsent(std::size_t bytes) override { inner_->limit_unsent(bytes); }
  void finish() override {
    tls_.send_close_notify();
    sends_close_notify_ = true;
  }
  bool has_hung_up() const override { return inner_->has_hung_up(); }
  void watch_hangup(std::function<void()> on_hangup) override {
    inner_->watch_hangup(std::move(on_hangup));
  }
  void interrupt() override { inner_->interrupt(); }
  void abort() override { inner_->abort(); }

 private:
  asio::awaitable<bool> send_pending() {
    const std::string sealed = tls_.take();
    if (sealed.empty()) co_return true;
    const IoResult io = co_await inner_->write(sealed, kNothing);
    co_return io.ok;
  }

  TurnScheduler& turns_;
  const QuotaGroup quota_group_;
  std::unique_ptr<Stream> inner_;
  TlsServer tls_;
  bool sends_close_notify_ = false;
};

// A request in plain text begins with its method, and a handshake with a control character.
bool is_plain_http(std::string_view first_bytes) {
  return first_bytes.front() >= 'A' && first_bytes.front() <= 'Z';
}

// The certificate's names as a Host field has them.
std::vector<std::string> host_names(const CertificateFacts& facts) {
  std::vector<std::string> names;
  for (const std::string& name : facts.names) {
    const bool names_a_host = name.starts_with("DNS:") || name.starts_with("IP:");
    if (names_a_host) names.push_back(name.substr(name.find(':') + 1));
  }
  return names;
}

class TlsHandshake final : public Handshake, public std::enable_shared_from_this<TlsHandshake> {
 public:
  TlsHandshake(std::shared_ptr<ServerContext> context, std::unique_ptr<Stream> stream,
               const ServerIdentity& identity, const ConnectionSlots& slots,
               IncomingConnection incoming)
      : context_(std::move(context)),
        stream_(std::move(stream)),
        tls_(identity),
        slots_(slots),
        incoming_(std::move(incoming)),
        waiting_since_(context_->time.now()) {
    set_deadline(context_->limits.handshake_timeout);
    incoming_.server_names = host_names(identity.facts);
    context_->begin_handshake(*this);
  }
  ~TlsHandshake() override { context_->end_handshake(*this); }

  static asio::awaitable<void> run(std::shared_ptr<TlsHandshake> self) {
    Step step = Step::more;
    while (step == Step::more) step = co_await self->exchange();
    if (step == Step::agreed) {
      co_await self->start_session();
    } else {
      ++self->context_->counters.handshakes_failed;
      if (step == Step::plain_text) co_await self->answer_in_plain_text();
    }
  }

  void abort() override {
    aborted_ = true;
    if (stream_) stream_->abort();
  }
  std::optional<TimePoint> waiting_since() const override {
    return waits_for_turn_ ? std::nullopt : std::optional(waiting_since_);
  }
  const QuotaGroup& quota_group() const override { return incoming_.quota_group; }

 private:
  enum class Step { more, agreed, plain_text, failed };

  void set_deadline(Duration duration) {
    deadline_ = context_->time.call_after(duration, [this] { abort(); });
  }

  // Takes what came, waits for a turn, and answers.
  asio::awaitable<Step> exchange() {
    const std::size_t received = co_await read();
    if (received == 0) co_return Step::failed;
    const std::string_view bytes(space_.data(), received);
    if (std::exchange(is_first_read_, false) && is_plain_http(bytes)) co_return Step::plain_text;
    tls_.feed(bytes);
    waits_for_turn_ = true;
    co_await context_->io.core().handshake_turns.wait_for_turn(quota_group());
    waits_for_turn_ = false;
    if (aborted_) co_return Step::failed;
    const auto done = tls_.handshake();
    const std::string reply = tls_.take();
    if (!reply.empty()) {
      // Only an answer counts as progress: single bytes do not make a client look busy.
      waiting_since_ = context_->time.now();
      const IoResult sent = co_await stream_->write(reply, kNothing);
      if (!sent.ok) co_return Step::failed;
    }
    if (!done || aborted_) co_return Step::failed;
    co_return *done ? Step::agreed : Step::more;
  }

  // Returns 0 if nothing will come any more.
  asio::awaitable<std::size_t> read() {
    const std::span<char> space(space_);
    const IoResult got = co_await stream_->read(space);
    co_return got.ok && !aborted_ ? got.bytes : 0;
  }

  asio::awaitable<void> start_session() {
    ++context_->counters.handshakes_done;
    context_->end_handshake(*this);
    incoming_.peer.encrypted = true;
    if (auto shown = tls_.client_certificate()) {
      incoming_.peer.certificate_names = std::move(shown->names);
      incoming_.peer.certificate_fingerprint = std::move(shown->fingerprint);
      incoming_.peer.certificate_expires_at = shown->not_after;
    }
    if (context_->closing) co_return;
    const ConnectionQuotas::QuotaDecision decision = acquire_slot(*context_, slots_, incoming_);
    stream_ = open_tls_stream(context_->io, std::move(stream_), std::move(tls_), quota_group());
    if (decision == ConnectionQuotas::QuotaDecision::admitted) {
      begin_session(context_, std::move(stream_), std::move(incoming_));
    } else {
      const std::string& refusal = reject_connection(*context_, decision);
      co_await send_final_response(refusal);
    }
  }

  asio::awaitable<void> answer_in_plain_text() {
    const std::string response = rejection_response(
        400, "invalid", "this port uses HTTPS; put https:// in front of its address");
    co_await send_final_response(response);
  }

  // Reads on for a moment, since closing a socket with unread bytes makes the kernel throw our
  // answer away.
  asio::awaitable<void> send_final_response(std::string_view text) {
    set_deadline(context_->limits.linger_timeout);
    const IoResult sent = co_await stream_->write(text, kNothing);
    if (!sent.ok) co_return;
    stream_->finish();
    std::size_t dropped = 0;
    bool more = true;
    while (more && dropped < context_->limits.linger_bytes) {
      const std::size_t received = co_await read();
      dropped += received;
      more = received > 0;
    }
    stream_->abort();
  }

  std::shared_ptr<ServerContext> context_;
  std::unique_ptr<Stream> stream_;  // null once a session has it
  TlsServer tls_;
  std::weak_ptr<const int> slots_;
  IncomingConnection incoming_;
  TimePoint waiting_since_;
  bool waits_for_turn_ = false;
  bool is_first_read_ = true;  // nothing was read yet
  bool aborted_ = false;
  std::array<char, std::size_t{4} * 1024> space_{};
  Subscription deadline_;
};

}  // namespace

std::unique_ptr<Stream> open_tls_stream(IoLoop& loop, std::unique_ptr<Stream> inner, TlsServer tls,
                                        QuotaGroup group) {
  return std::make_unique<TlsStream>(loop.core(), std::move(inner), std::move(tls),
                                     std::move(group));
}

void start_handshake(std::shared_ptr<ServerContext> context, std::unique_ptr<Stream> stream,
                     const ServerIdentity& identity, const ConnectionSlots& slots,
                     IncomingConnection incoming) {
  auto& io = context->io.core().io;
  auto handshake = std::make_shared<TlsHandshake>(std::move(context), std::move(stream), identity,
                                                  slots, std::move(incoming));
  asio::co_spawn(io, TlsHandshake::run(std::move(handshake)), [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);  // a bug or no memory: out of run()
  });
}

void start_socket_handshake(std::shared_ptr<ServerContext> context, UniqueFd socket,
                            const ServerIdentity& identity, const ConnectionSlots& slots,
                            IncomingConnection incoming) {
  auto stream = open_socket_stream(context->io, std::move(socket), incoming.quota_group);
  start_handshake(std::move(context), std::move(stream), identity, slots, std::move(incoming));
}

}  // namespace gpuyard::http
