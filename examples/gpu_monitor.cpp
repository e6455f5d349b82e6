// Watches the GPUs: collects, logs and checks metrics, reports alerts, sleeps.
//   example_gpu_monitor [--interval SECONDS] [--count TIMES] [--prometheus [--port PORT]]
// Repeats every 5 seconds and for ever, unless told otherwise. The log on stdout has the time on
// each line, so that it can be read after the fact; alerts go to stderr, and into the log. With
// --prometheus the GPUs are served at http://127.0.0.1:PORT/metrics as well; PORT is 9090 by
// default, and 0 is any free port.
#include <charconv>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <gpuyard/gpuyard.h>

namespace {

struct Arguments {
  std::chrono::seconds interval{5};
  std::optional<long> count;  // empty: for ever
  bool prometheus = false;
  std::optional<std::uint16_t> port;
};

std::optional<long> number(std::string_view text, long least, long most) {
  long value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size();
  return whole && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

// Takes one option; false if it is unknown or its value is not valid.
bool take(Arguments& arguments, std::string_view name, std::string_view value) {
  constexpr long kDay = 86'400;
  constexpr long kMany = 1'000'000'000;
  constexpr long kPorts = 65'535;
  if (name == "--interval") {
    const auto seconds = number(value, 1, kDay);
    if (seconds) arguments.interval = std::chrono::seconds(*seconds);
    return seconds.has_value();
  }
  if (name == "--count") return (arguments.count = number(value, 1, kMany)).has_value();
  if (name != "--port") return false;
  const auto port = number(value, 0, kPorts);
  if (port) arguments.port = static_cast<std::uint16_t>(*port);
  return port.has_value();
}

std::optional<Arguments> parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--prometheus") {
      arguments.prometheus = true;
      continue;
    }
    ++i;
    if (i >= argc || !take(arguments, name, argv[i])) return std::nullopt;
  }
  if (arguments.port && !arguments.prometheus) return std::nullopt;
  return arguments;
}

// "2026-01-31T12:00:00Z"
std::string now() {
  constexpr std::size_t kRoom = sizeof "2026-01-31T12:00:00Z";
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  std::string text(kRoom, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc));
  return text;
}

void look(const gpuyard::Monitor& monitor, gpuyard::Andon& andon) {
  const auto metrics = monitor.collect_metrics();
  const std::string time = now();
  if (metrics.empty()) std::cout << time << " no GPU is visible\n";
  for (const gpuyard::GpuMetrics& gpu : metrics) {
    std::cout << time << ' ' << gpu.display_line() << '\n';
  }
  for (const gpuyard::Alert& alert : andon.check(metrics)) {
    std::cout << time << ' ' << alert.line() << '\n';
    std::cerr << alert.line() << '\n';
  }
  std::cout.flush();
}

int fail(const gpuyard::Error& error, int status) {
  std::cerr << error.text() << '\n';
  const std::string advice = advice_on(error);
  if (!advice.empty()) std::cerr << advice << '\n';
  return status;
}

gpuyard::Result<void> serve(gpuyard::PrometheusExporter& exporter, const gpuyard::Monitor& monitor,
                            std::uint16_t port) {
  auto registered = exporter.with_port(port).register_gpu_metrics(monitor);
  if (!registered) return registered;
  auto started = exporter.start();
  if (started) std::cerr << "serving http://127.0.0.1:" << exporter.port() << "/metrics\n";
  return started;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::uint16_t kPort = 9090;
  const auto arguments = parse(argc, argv);
  if (!arguments) {
    std::cerr << "usage: " << argv[0]
              << " [--interval SECONDS] [--count TIMES] [--prometheus [--port PORT]]\n";
    return 2;
  }
  const auto monitor = gpuyard::Monitor::open();
  if (!monitor) return fail(monitor.error(), 5);
  gpuyard::PrometheusExporter exporter;
  if (arguments->prometheus) {
    const auto serving = serve(exporter, *monitor, arguments->port.value_or(kPort));
    if (!serving) return fail(serving.error(), 1);
  }
  gpuyard::Andon andon;
  for (long times = 0; arguments->count.value_or(times + 1) > times; ++times) {
    if (times > 0) std::this_thread::sleep_for(arguments->interval);
    look(*monitor, andon);
  }
  return 0;
}
