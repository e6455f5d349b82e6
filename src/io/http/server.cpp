#include "io/http/server.h"

#include "base/files.h"
#include "io/http/endpoint.h"
#include "io/http/listener.h"
#include "io/http/tls_stream.h"

namespace gpuyard::http {
struct Server::State {
  std::shared_ptr<Site> site;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<SocketFile> files;
  Subscription grace;

  void listen(UniqueFd socket, Endpoint bound, Listener::Welcome welcome = nullptr) {
    listeners.push_back(
        std::make_unique<Listener>(site, std::move(socket), std::move(bound), std::move(welcome)));
  }
  Result<Bound> listen_on(const std::string& address, std::uint16_t port,
                          Listener::Welcome welcome = nullptr) {
    const Endpoint asked = Endpoint::tcp(address, port);
    auto socket = listen_on_tcp(asked);
    if (!socket) return std::move(socket).error();
    // Has the port that the kernel chose for 0.
    const Endpoint bound = local_endpoint(*socket).value_or(asked);
    listen(*std::move(socket), bound, std::move(welcome));
    return Bound{bound.address, bound.port};
  }
  void stop_listening() {
    files.clear();  // first, so that no client finds a file that refuses
    listeners.clear();
  }
  // A connection removes itself from the set later, when the loop turns.
  void abort_all() {
    site->handshakes.abort_all();
    for (Connection* connection : site->parties.all()) connection->abort();
  }
};

Server::Server(IoLoop& loop, Handler handler, Limits limits) : state_(std::make_unique<State>()) {
  state_->site = std::make_shared<Site>(loop, loop, std::move(handler), limits);
}

Server::~Server() {
  state_->stop_listening();
  state_->site->closing = true;
  state_->site->drained = nullptr;
  state_->abort_all();
  state_->site->handler = nullptr;  // what it refers to may end with the server's owner
}

void Server::allow_hosts(std::vector<std::string> names) {
  state_->site->allowed_hosts = std::move(names);
}

void Server::ask_process_of(std::function<bool(const Request&)> wants_process) {
  state_->site->wants_process = std::move(wants_process);
}

void Server::share_by(std::function<uid_t(uid_t)> person,
                      std::function<bool(const Peer&)> privileged) {
  state_->site->person = std::move(person);
  state_->site->privileged = std::move(privileged);
}

Result<Bound> Server::listen_tcp(const std::string& address, std::uint16_t port) {
  return state_->listen_on(address, port);
}

Result<Bound> Server::listen_tls(const std::string& address, std::uint16_t port,
                                 std::shared_ptr<const IdentitySource> door) {
  return state_->listen_on(
      address, port,
      [door = std::move(door)](const std::shared_ptr<Site>& site, UniqueFd client,
                               const Seats& seats, Arrival arrival) {
        if (site->handshakes.make_room_for(arrival.party, site->time.now())) {
          greet_socket(site, std::move(client), *door->identity(), seats, std::move(arrival));
        } else {
          ++site->counters.handshakes_turned_away;
        }
      });
}

Result<void> Server::listen_unix(const std::string& path, unsigned mode) {
  auto listener = listen_on_unix(path, mode);
  if (!listener) return std::move(listener).error();
  state_->files.push_back(std::move(listener->file));
  state_->listen(std::move(listener->socket), Endpoint::unix_socket(path));
  return {};
}

void Server::shutdown(Duration grace, std::function<void()> done) {
  Site& site = *state_->site;
  state_->stop_listening();
  site.closing = true;
  site.handshakes.abort_all();  // none of them has begun a request
  if (site.parties.all().empty()) {
    if (done) site.io.post(std::move(done));
    return;
  }
  site.drained = std::move(done);
  for (Connection* connection : site.parties.all()) connection->finish();
  state_->grace = site.io.call_after(grace, [this] { state_->abort_all(); });
}

Counters Server::counters() const {
  return state_->site->counters;
}

}  // namespace gpuyard::http
