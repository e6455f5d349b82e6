// Coroutines: one co_await per statement, its arguments named.
#include "io/http/tls_stream.h"

#include <array>
#include <exception>
#include <utility>

#include "io/http/loop_core.h"
#include "io/http/session.h"
#include "io/http/stream.h"

#include <boost/asio/co_spawn.hpp>

namespace gpuyard::http {
namespace {

constexpr std::string_view kNothing;

class TlsStream final : public Stream {
 public:
  TlsStream(IoLoop::Core& core, std::unique_ptr<Stream> under, TlsServer tls, Party party)
      : turns_(core.turns),
        party_(std::move(party)),
        under_(std::move(under)),
        tls_(std::move(tls)) {}

  // What came encrypted goes through the caller's space, too: a connection without a request under
  // way holds no buffer here.
  asio::awaitable<Io> read(std::span<char> space) override {
    if (std::exchange(says_goodbye_, false)) {
      co_await send_pending();
      under_->finish();
    }
    for (;;) {
      const auto got = tls_.decrypt(space);
      const bool sent = co_await send_pending();  // an answer to the client's TLS, or an alert
      const bool usable = got && sent;
      const bool is_whole = usable && got->has_value();
      const Io io(usable, is_whole ? **got : 0);
      if (!usable || is_whole) co_return io;
      const Io came = co_await under_->read(space);
      if (!came.ok || came.bytes == 0) co_return came;
      tls_.feed({space.data(), came.bytes});
    }
  }

  asio::awaitable<Io> write(std::string_view head, std::string_view body) override {
    if (body.size() > Turns::kAtOnceBytes) co_await turns_.next(party_);
    std::string plain(head);
    Io io = co_await write_piece(plain, body);
    while (io.ok && !body.empty()) {
      co_await turns_.next(party_);
      plain.clear();
      const Io more = co_await write_piece(plain, body);
      io = Io(more.ok, io.bytes + more.bytes);
    }
    co_return io;
  }

  asio::awaitable<Io> write_all(std::span<const std::string_view> parts) override {
    std::string plain;
    for (const std::string_view part : parts) plain += part;
    std::string_view body;
    const Io io = co_await write_piece(plain, body);
    co_return io;
  }

  void limit_unsent(std::size_t bytes) override { under_->limit_unsent(bytes); }
  void finish() override {
    tls_.say_goodbye();
    says_goodbye_ = true;
  }
  bool hung_up() const override { return under_->hung_up(); }
  void watch_hangup(std::function<void()> look) override { under_->watch_hangup(std::move(look)); }
  void interrupt() override { under_->interrupt(); }
  void abort() override { under_->abort(); }

 private:
  // Adds a piece of the body to `plain` and sends both: what is joined before it is encrypted needs
  // the fewest records, and one system call.
  asio::awaitable<Io> write_piece(std::string& plain, std::string_view& body) {
    const std::string_view piece = body.substr(0, Turns::kPieceBytes);
    body.remove_prefix(piece.size());
    plain += piece;
    const bool encrypted = tls_.encrypt(plain).ok();
    const bool sent = co_await send_pending();
    const Io io(encrypted && sent, plain.size());
    co_return io;
  }

  asio::awaitable<bool> send_pending() {
    const std::string sealed = tls_.take();
    if (sealed.empty()) co_return true;
    const Io io = co_await under_->write(sealed, kNothing);
    co_return io.ok;
  }

  Turns& turns_;
  const Party party_;
  std::unique_ptr<Stream> under_;
  TlsServer tls_;
  bool says_goodbye_ = false;
};

// A request in plain text begins with its method, and a handshake with a control character.
bool is_plain_http(std::string_view first_bytes) {
  return first_bytes.front() >= 'A' && first_bytes.front() <= 'Z';
}

// As they stand in a Host field.
std::vector<std::string> host_names(const CertificateFacts& facts) {
  std::vector<std::string> names;
  for (const std::string& name : facts.names) {
    const bool names_a_host = name.starts_with("DNS:") || name.starts_with("IP:");
    if (names_a_host) names.push_back(name.substr(name.find(':') + 1));
  }
  return names;
}

class Greeting final : public Handshake, public std::enable_shared_from_this<Greeting> {
 public:
  Greeting(std::shared_ptr<Site> site, std::unique_ptr<Stream> stream,
           const ServerIdentity& identity, const Seats& seats, Arrival arrival)
      : site_(std::move(site)),
        stream_(std::move(stream)),
        tls_(identity),
        seats_(seats),
        arrival_(std::move(arrival)),
        waiting_since_(site_->time.now()) {
    expires_in(site_->limits.handshake);
    arrival_.also_named = host_names(identity.facts);
    site_->begin_handshake(*this);
  }
  ~Greeting() override { site_->end_handshake(*this); }

  static asio::awaitable<void> run(std::shared_ptr<Greeting> self) {
    Step step = Step::more;
    while (step == Step::more) step = co_await self->exchange();
    if (step == Step::agreed) {
      co_await self->take_in();
    } else {
      ++self->site_->counters.handshakes_failed;
      if (step == Step::plain_text) co_await self->answer_in_plain_text();
    }
  }

  void abort() override {
    gone_ = true;
    if (stream_) stream_->abort();
  }
  std::optional<TimePoint> waiting_since() const override {
    return waits_for_us_ ? std::nullopt : std::optional(waiting_since_);
  }
  const Party& party() const override { return arrival_.party; }

 private:
  enum class Step { more, agreed, plain_text, failed };

  void expires_in(Duration duration) {
    deadline_ = site_->time.call_after(duration, [this] { abort(); });
  }

  // Takes what came, waits for a turn, and answers.
  asio::awaitable<Step> exchange() {
    const std::size_t came = co_await read();
    if (came == 0) co_return Step::failed;
    const std::string_view bytes(space_.data(), came);
    if (std::exchange(first_, false) && is_plain_http(bytes)) co_return Step::plain_text;
    tls_.feed(bytes);
    waits_for_us_ = true;
    co_await site_->io.core().handshakes.next(party());
    waits_for_us_ = false;
    if (gone_) co_return Step::failed;
    const auto done = tls_.shake_hands();
    const std::string answer = tls_.take();
    if (!answer.empty()) {
      // Only an answer counts as progress: single bytes do not make a client look busy.
      waiting_since_ = site_->time.now();
      const Io sent = co_await stream_->write(answer, kNothing);
      if (!sent.ok) co_return Step::failed;
    }
    if (!done || gone_) co_return Step::failed;
    co_return *done ? Step::agreed : Step::more;
  }

  // Returns 0 if nothing will come any more.
  asio::awaitable<std::size_t> read() {
    const std::span<char> space(space_);
    const Io got = co_await stream_->read(space);
    co_return got.ok && !gone_ ? got.bytes : 0;
  }

  asio::awaitable<void> take_in() {
    ++site_->counters.handshakes_done;
    site_->end_handshake(*this);
    arrival_.peer.encrypted = true;
    if (auto shown = tls_.client()) {
      arrival_.peer.certificate_names = std::move(shown->names);
      arrival_.peer.certificate_fingerprint = std::move(shown->fingerprint);
      arrival_.peer.certificate_ends = shown->not_after;
    }
    if (site_->closing) co_return;
    const Parties::Room room = take_seat(*site_, seats_, arrival_);
    stream_ = open_tls_stream(site_->io, std::move(stream_), std::move(tls_), party());
    if (room == Parties::Room::there) {
      serve(site_, std::move(stream_), std::move(arrival_));
    } else {
      const std::string& refusal = refuse_seat(*site_, room);
      co_await say_at_last(refusal);
    }
  }

  asio::awaitable<void> answer_in_plain_text() {
    const std::string answer =
        last_words(400, "invalid", "this port uses HTTPS; put https:// in front of its address");
    co_await say_at_last(answer);
  }

  // Reads on for a moment, since closing a socket with unread bytes makes the kernel throw our
  // answer away.
  asio::awaitable<void> say_at_last(std::string_view words) {
    expires_in(site_->limits.linger);
    const Io sent = co_await stream_->write(words, kNothing);
    if (!sent.ok) co_return;
    stream_->finish();
    std::size_t dropped = 0;
    bool more = true;
    while (more && dropped < site_->limits.linger_bytes) {
      const std::size_t came = co_await read();
      dropped += came;
      more = came > 0;
    }
    stream_->abort();
  }

  std::shared_ptr<Site> site_;
  std::unique_ptr<Stream> stream_;  // null once a session has it
  TlsServer tls_;
  std::weak_ptr<const int> seats_;
  Arrival arrival_;
  TimePoint waiting_since_;
  bool waits_for_us_ = false;
  bool first_ = true;  // nothing was read yet
  bool gone_ = false;  // aborted
  std::array<char, std::size_t{4} * 1024> space_{};
  Subscription deadline_;
};

}  // namespace

std::unique_ptr<Stream> open_tls_stream(IoLoop& loop, std::unique_ptr<Stream> under,
                                        TlsServer agreed, Party party) {
  return std::make_unique<TlsStream>(loop.core(), std::move(under), std::move(agreed),
                                     std::move(party));
}

void greet(std::shared_ptr<Site> site, std::unique_ptr<Stream> under,
           const ServerIdentity& identity, const Seats& seats, Arrival arrival) {
  auto& io = site->io.core().io;
  auto greeting = std::make_shared<Greeting>(std::move(site), std::move(under), identity, seats,
                                             std::move(arrival));
  asio::co_spawn(io, Greeting::run(std::move(greeting)), [](const std::exception_ptr& error) {
    if (error) std::rethrow_exception(error);  // a bug or no memory: out of run()
  });
}

void greet_socket(std::shared_ptr<Site> site, UniqueFd socket, const ServerIdentity& identity,
                  const Seats& seats, Arrival arrival) {
  auto stream = open_socket_stream(site->io, std::move(socket), arrival.party);
  greet(std::move(site), std::move(stream), identity, seats, std::move(arrival));
}

}  // namespace gpuyard::http
