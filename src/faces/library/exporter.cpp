#include "faces/library/exporter.h"

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/try.h"
#include "faces/library/scraper.h"
#include "faces/metrics/prometheus.h"

namespace gpuyard::library {
namespace {

http::Limits limits(std::size_t connections) {
  http::Limits limits;
  limits.connections = connections;
  limits.streams = 0;
  limits.total_streams = 0;
  return limits;
}

}  // namespace

Exporter::Exporter(Scraper scraper, const ExporterOptions& options)
    : about_(fmt::format("gpuyard {}: the GPUs of this program, for Prometheus, at /metrics\n",
                         options.version)),
      worker_(loop_, "gpuyard-scrape"),
      scrape_queue_(worker_, std::move(scraper)),
      server_(std::make_unique<http::Server>(
          loop_,
          [this](const http::Request& request, http::Reply reply) {
            handle(request, std::move(reply));
          },
          limits(kMaxConnections))) {
  server_->allow_hosts(options.hosts);
}

Result<std::unique_ptr<Exporter>> Exporter::start(Scraper scraper, const ExporterOptions& options) {
  try {
    std::unique_ptr<Exporter> exporter(new Exporter(std::move(scraper), options));
    const auto bound = GPUYARD_TRY(exporter->server_->listen_tcp(options.address, options.port));
    exporter->port_ = bound.port;
    exporter->thread_ = std::thread([raw = exporter.get()] { raw->loop_.run(); });
    return exporter;
  } catch (const std::runtime_error& none) {  // from std::thread, or of Asio's own type
    return Error{Errc::unavailable,
                 fmt::format("no thread or file descriptor to serve with: {}", none.what())};
  }
}

Exporter::~Exporter() {
  if (thread_.joinable()) {
    loop_.post([this] { shut_down(); });
    thread_.join();
  }
  server_.reset();  // later replies have no effect
}

void Exporter::shut_down() {
  server_->shutdown(kShutdownGrace, [this] { loop_.stop(); });
  shutdown_timeout_ = loop_.call_after(2 * kShutdownGrace, [this] { loop_.stop(); });
}

void Exporter::handle(const http::Request& request, http::Reply reply) {
  const bool known = request.path == "/" || request.path == "/metrics";
  if (!known)
    return reply(http::error_response(404, "not_found", "available paths are / and /metrics"));
  if (request.method != http::Method::get) {
    auto refused = http::error_response(405, "method_not_allowed", "this path is read-only");
    refused.headers.push_back({"Allow", "GET, HEAD"});
    return reply(std::move(refused));
  }
  if (request.path == "/") return reply(http::Response(200, "text/plain; charset=utf-8", about_));
  scrape_queue_.enqueue(std::move(reply), metrics::negotiate_format(request.header("Accept")));
}

}  // namespace gpuyard::library
