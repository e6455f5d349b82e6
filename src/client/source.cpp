#include "client/source.h"

#include "client/daemon_client.h"
#include "library/monitor.h"
#include "protocol/routes.h"

namespace gpuyard::client {
namespace {

class DaemonSource final : public Source {
 public:
  explicit DaemonSource(http::Endpoint daemon) : daemon_(std::move(daemon)) {}

  Result<protocol::Snapshot> snapshot() override { return call(daemon_, protocol::kSnapshot); }
  Result<protocol::DriverInfo> driver() override { return call(daemon_, protocol::kDriver); }
  std::string name() const override { return "the daemon at " + daemon_.text(); }

 private:
  http::Endpoint daemon_;
};

class LocalSource final : public Source {
 public:
  explicit LocalSource(library::Monitor monitor) : monitor_(std::move(monitor)) {}

  Result<protocol::Snapshot> snapshot() override {
    return protocol::snapshot_of(monitor_.inventory());
  }
  Result<protocol::DriverInfo> driver() override {
    return protocol::driver_info_of(monitor_.inventory(Duration::zero()).driver.info);
  }
  std::string name() const override { return "the local driver"; }

 private:
  library::Monitor monitor_;
};

// Whether somebody listens there; who is silent counts as there.
bool somebody_listens(const http::Endpoint& daemon) {
  http::ClientRequest request;
  request.target = std::string(protocol::kHealth.pattern);
  const auto response = http::fetch(daemon, request, kAnswerDeadline);
  return response ||
         (response.error().code != Errc::unavailable && response.error().code != Errc::denied);
}

Result<std::unique_ptr<Source>> open_local(const library::NvmlChoice& choice) {
  auto backend = library::open_nvml(choice);
  if (!backend) return std::move(backend).error();
  auto monitor = library::Monitor::open(*std::move(backend), choice.simulated);
  if (!monitor) return std::move(monitor).error();
  return std::unique_ptr<Source>(std::make_unique<LocalSource>(*std::move(monitor)));
}

}  // namespace

Result<std::unique_ptr<Source>> open_source(const SourceOptions& options) {
  if (options.local) return open_local(options.nvml);
  if (!options.socket.empty()) {
    auto endpoint = http::parse_endpoint(options.socket);
    if (!endpoint) return std::move(endpoint).error().in("--socket");
    return std::unique_ptr<Source>(std::make_unique<DaemonSource>(*std::move(endpoint)));
  }
  for (const std::string& path : options.sockets) {
    auto endpoint = http::Endpoint::unix_socket(path);
    if (somebody_listens(endpoint)) {
      return std::unique_ptr<Source>(std::make_unique<DaemonSource>(std::move(endpoint)));
    }
  }
  return open_local(options.nvml);
}

}  // namespace gpuyard::client
