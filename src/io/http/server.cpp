#include "io/http/server.h"

#include "base/files.h"
#include "base/try.h"
#include "io/http/endpoint.h"
#include "io/http/limits.h"
#include "io/http/listener.h"
#include "io/http/listening_socket.h"
#include "io/http/tls_stream.h"

namespace gpuyard::http {
struct Server::State {
  std::shared_ptr<ServerContext> context;
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<SocketFile> files;
  Subscription grace_timer;

  void add_listener(UniqueFd socket, Endpoint bound, Listener::Accept on_accept = nullptr) {
    listeners.push_back(std::make_unique<Listener>(context, std::move(socket), std::move(bound),
                                                   std::move(on_accept)));
  }
  Result<BoundAddress> listen_tcp(const std::string& address, std::uint16_t port,
                                  Listener::Accept on_accept = nullptr) {
    const Endpoint requested = Endpoint::tcp(address, port);
    auto socket = GPUYARD_TRY(listen_on_tcp(requested));
    // Has the port that the kernel chose for 0.
    const Endpoint bound = local_endpoint(socket).value_or(requested);
    add_listener(std::move(socket), bound, std::move(on_accept));
    return BoundAddress{bound.address, bound.port};
  }
  void stop_listening() {
    files.clear();  // first, so that no client finds a file that refuses
    listeners.clear();
  }
  // A connection removes itself from the set later, when the loop turns.
  void abort_all() {
    context->handshake_quotas.abort_all();
    for (Connection* connection : context->quotas.all()) connection->abort();
  }
};

Server::Server(IoLoop& loop, Handler handler, Limits limits) : state_(std::make_unique<State>()) {
  state_->context = std::make_shared<ServerContext>(loop, loop, std::move(handler), limits);
}

Server::~Server() {
  state_->stop_listening();
  state_->context->closing = true;
  state_->context->on_drained = nullptr;
  state_->abort_all();
  state_->context->handler = nullptr;  // what it refers to may end with the server's owner
}

void Server::allow_hosts(std::vector<std::string> names) {
  state_->context->allowed_hosts = std::move(names);
}

void Server::set_process_filter(std::function<bool(const Request&)> wants_process) {
  state_->context->process_filter = std::move(wants_process);
}

void Server::set_quota_policy(std::function<uid_t(uid_t)> quota_owner,
                              std::function<bool(const Peer&)> is_privileged) {
  state_->context->quota_owner = std::move(quota_owner);
  state_->context->is_privileged = std::move(is_privileged);
}

Result<BoundAddress> Server::listen_tcp(const std::string& address, std::uint16_t port) {
  return state_->listen_tcp(address, port);
}

Result<BoundAddress> Server::listen_tls(const std::string& address, std::uint16_t port,
                                        std::shared_ptr<const IdentitySource> identity_source) {
  return state_->listen_tcp(
      address, port,
      [identity_source = std::move(identity_source)](const std::shared_ptr<ServerContext>& context,
                                                     UniqueFd client, const ConnectionSlots& slots,
                                                     IncomingConnection incoming) {
        if (context->handshake_quotas.admit(incoming.quota_group, context->time.now())) {
          start_socket_handshake(context, std::move(client), *identity_source->identity(), slots,
                                 std::move(incoming));
        } else {
          ++context->counters.handshakes_rejected;
        }
      });
}

Result<void> Server::listen_unix(const std::string& path, unsigned mode) {
  auto listener = GPUYARD_TRY(listen_on_unix(path, mode));
  state_->files.push_back(std::move(listener.file));
  state_->add_listener(std::move(listener.socket), Endpoint::unix_socket(path));
  return {};
}

void Server::shutdown(Duration grace, std::function<void()> on_done) {
  ServerContext& context = *state_->context;
  state_->stop_listening();
  context.closing = true;
  context.handshake_quotas.abort_all();  // none of them has begun a request
  if (context.quotas.all().empty()) {
    if (on_done) context.io.post(std::move(on_done));
    return;
  }
  context.on_drained = std::move(on_done);
  for (Connection* connection : context.quotas.all()) connection->finish();
  state_->grace_timer = context.io.call_after(grace, [this] { state_->abort_all(); });
}

ServerCounters Server::counters() const {
  return state_->context->counters;
}

}  // namespace gpuyard::http
