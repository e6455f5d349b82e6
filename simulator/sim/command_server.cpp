#include "sim/command_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.h"
#include "gpu/nvml/abi.h"

namespace gpuyard::sim {
namespace {

constexpr int kBacklog = 64;

Peer peer_of(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return {.uid = static_cast<uid_t>(-1)};
  }
  return {.pid = peer.pid, .uid = peer.uid, .is_owner = peer.uid == 0 || peer.uid == ::geteuid()};
}

Reply refusal_reply(const char* message) {
  Reply reply = reply_of(Error{Errc::invalid, message});
  reply.nvml_code = nvml::kUnknown;
  return reply;
}

// Returns the inode of the name itself, without following a link; 0 if there is none.
std::uint64_t inode_at(const char* path) {
  struct stat info{};
  return ::stat(path, &info) == 0 ? info.st_ino : 0;
}

}  // namespace

Peer own_peer() {
  return {.pid = ::getpid(), .uid = ::geteuid(), .is_owner = true};
}

Reply reply_of(const Result<void>& result) {
  Reply reply;
  if (result) return reply;
  reply.failed = 1;
  reply.errc = static_cast<std::uint32_t>(result.error().code);
  result.error().text().copy(reply.message, sizeof reply.message - 1);
  return reply;
}

Result<CommandServer> CommandServer::listen(const std::string& directory, Handler handler) {
  auto address = WorldSocketAddress::create(directory);
  if (!address) return std::move(address).error();
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener) return system_error("creating the simulator's socket");
  ::unlink(address->path());  // a dead world server's; the lock says that no living one has it
  if (::bind(listener.get(), address->get(), address->size()) != 0) {
    return system_error("binding the simulator's socket");
  }
  // Any user may connect; the peer's uid decides which commands are allowed.
  ::chmod(address->path(), 0666);
  if (::listen(listener.get(), kBacklog) != 0) return system_error("listening for commands");
  return CommandServer(*std::move(address), std::move(listener), std::move(handler));
}

CommandServer::CommandServer(WorldSocketAddress address, UniqueFd listener, Handler handler)
    : address_(std::move(address)),
      listener_(std::move(listener)),
      inode_(inode_at(address_.path())),
      handler_(std::move(handler)) {}

CommandServer::~CommandServer() {
  if (listener_ && inode_at(address_.path()) == inode_) ::unlink(address_.path());
}

void CommandServer::append_descriptors(std::vector<pollfd>& out) const {
  out.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  for (const Client& client : clients_) {
    out.push_back({.fd = client.fd.get(), .events = POLLIN, .revents = 0});
  }
}

void CommandServer::serve(std::span<const pollfd> polled, TimePoint now) {
  for (std::size_t i = 1; i < polled.size(); ++i) {
    Client& client = clients_[i - 1];
    if (polled[i].revents != 0) {
      client.deadline = serve_client(client) ? now + kClientTimeout : TimePoint::min();
    }
  }
  std::erase_if(clients_, [&](const Client& client) { return client.deadline <= now; });
  if (!polled.empty() && polled[0].revents != 0) accept_one(now);
}

void CommandServer::accept_one(TimePoint now) {
  UniqueFd fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd || clients_.size() >= kMaxClients) return;  // closed: the client sees it at once
  const Peer peer = peer_of(fd.get());
  clients_.push_back({.fd = std::move(fd), .peer = peer, .deadline = now + kClientTimeout});
}

bool CommandServer::serve_client(Client& client) {
  Command command;
  const ssize_t got = ::recv(client.fd.get(), &command, sizeof command, MSG_DONTWAIT | MSG_TRUNC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0 || got > ssize_t{sizeof command}) return false;
  const Reply reply = execute(client, command, static_cast<std::size_t>(got));
  return ::send(client.fd.get(), &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         ssize_t{sizeof reply};
}

Reply CommandServer::execute(const Client& client, const Command& command, std::size_t size) {
  if (size < sizeof command) return refusal_reply("incomplete command");
  if (command.version != kCommandVersion) return refusal_reply("unknown command version");
  return handler_(command, client.peer);
}

}  // namespace gpuyard::sim
