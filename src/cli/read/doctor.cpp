// gpuyard doctor
#include <array>

#include <fmt/format.h>

#include "base/json_writer.h"
#include "cli/client/daemon_client.h"
#include "cli/read/answers.h"
#include "cli/read/machine_facts.h"
#include "cli/read/reading.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/screen/terminal.h"
#include "cli/shared_options.h"
#include "device/error.h"
#include "library/monitor.h"
#include "protocol/routes.h"
#include "sim/world_directory.h"

namespace gpuyard::cli {
namespace {

struct Found {
  DriverFinding finding;
  bool simulated = false;
};

Found examine_driver(const SourceFlags& flags) {
  Found found;
  const auto choice =
      library::choose_nvml(flags.simulate ? "" : flags.nvml, sim::simulated_nvml_path());
  if (!choice.path.empty()) found.finding.library = choice.path;
  auto backend = library::open_driver(choice);
  auto monitor = backend ? library::Monitor::open(*std::move(backend))
                         : Result<library::Monitor>(std::move(backend).error());
  if (!monitor) {
    found.finding.error = init_failure_reason(monitor.error());
    return found;
  }
  const DriverInfo& driver = monitor->driver();
  found.finding = {true,
                   driver.library,
                   driver.driver_version,
                   driver.cuda_driver_version,
                   driver.nvml_version,
                   std::nullopt,
                   monitor->gpu_count()};
  found.simulated = driver.simulated;
  return found;
}

struct FoundDaemon {
  DaemonFinding finding;
  bool simulated = false;
  bool has_gpus = false;
};

FoundDaemon ask_daemon(const http::Endpoint& daemon) {
  FoundDaemon found;
  found.finding.address = daemon.text();
  const auto health = client::call(daemon, protocol::kHealth);
  if (!health) {
    found.finding.message = health.error().message;
    return found;
  }
  found.finding.reachable = true;
  found.finding.version = health->version;
  const auto ready = client::call(daemon, protocol::kReady);
  found.finding.ready = ready.ok();
  found.finding.message = ready ? ready->reason : ready.error().message;
  if (ready) {
    found.simulated = ready->simulated;
    found.has_gpus = ready->cuda_available;
  }
  return found;
}

FoundDaemon examine_daemon(const SourceFlags& flags) {
  const auto options = source_options(flags);
  if (!options.socket.empty()) {
    const auto named = http::parse_endpoint(options.socket);
    if (named) return ask_daemon(*named);
    return {{false, options.socket, {}, {}, named.error().message}, false, false};
  }
  if (const auto daemon = client::find_daemon(options.sockets)) return ask_daemon(*daemon);
  FoundDaemon none;
  if (!options.sockets.empty()) none.finding.address = options.sockets.front();
  none.finding.message = "not running; `gpuyard serve` starts one";
  return none;
}

DoctorAnswer examine(const SourceFlags& flags) {
  DoctorAnswer answer;
  const Found driver = examine_driver(flags);
  const FoundDaemon daemon = examine_daemon(flags);
  answer.driver = driver.finding;
  answer.daemon = daemon.finding;
  answer.simulated = driver.simulated || daemon.simulated;
  answer.cuda_available = driver.finding.initialised && driver.finding.gpus > 0;
  answer.healthy = answer.cuda_available || daemon.has_gpus;
  if (answer.cuda_available) return answer;
  const MachineFacts facts = machine_facts();
  answer.advice =
      driver.finding.error ? advice_for(*driver.finding.error, facts) : advice_without_gpus(facts);
  return answer;
}

enum class Verdict { good, lacking, bad, none };

std::string line(const Screen& screen, Verdict verdict, std::string_view what,
                 const std::string& text) {
  struct Sign {
    Tone tone;
    std::string_view utf8;
    std::string_view ascii;
  };
  constexpr std::array kSigns = {Sign{Tone::good, "\u2713", "+"},
                                 Sign{Tone::warning, "\u2013", "-"}, Sign{Tone::bad, "\u2717", "x"},
                                 Sign{Tone::plain, " ", " "}};
  const Sign& sign = kSigns[static_cast<std::size_t>(verdict)];
  return fmt::format("{} {:<8}{}\n",
                     painted(screen, sign.tone, screen.utf8 ? sign.utf8 : sign.ascii), what, text);
}

std::string driver_lines(const Screen& screen, const DriverFinding& driver) {
  const auto or_dash = [](const std::optional<std::string>& text) {
    return text.value_or(std::string(kNothing));
  };
  if (!driver.initialised) {
    return line(screen, Verdict::bad, "driver", *driver.error) +
           line(screen, Verdict::none, "NVML",
                driver.library ? "looked for at " + *driver.library
                               : "libnvidia-ml.so.1 was looked for where the loader looks");
  }
  const bool gpus = driver.gpus > 0;
  return line(screen, Verdict::good, "driver",
              fmt::format("{}, CUDA up to {}", or_dash(driver.driver_version),
                          or_dash(driver.cuda_driver_version))) +
         line(screen, Verdict::good, "NVML",
              fmt::format("{}, {}", or_dash(driver.nvml_version), or_dash(driver.library))) +
         line(screen, gpus ? Verdict::good : Verdict::bad, "GPUs", std::to_string(driver.gpus));
}

std::string text_of(const DoctorAnswer& answer, const Screen& screen) {
  std::string out = driver_lines(screen, answer.driver);
  out += line(screen, answer.cuda_available ? Verdict::good : Verdict::bad, "CUDA",
              answer.cuda_available ? "available" : "not available");
  const DaemonFinding& daemon = answer.daemon;
  const bool well = daemon.ready.value_or(false);
  out += line(
      screen, well ? Verdict::good : Verdict::lacking, "daemon",
      daemon.reachable
          ? fmt::format("{} at {}, {}", *daemon.version, *daemon.address, daemon.message)
          : fmt::format("{} ({})", daemon.message, daemon.address.value_or(std::string(kNothing))));
  for (const std::string& advice : answer.advice) out += "\n  " + advice;
  if (!answer.advice.empty()) out += "\n";
  if (answer.simulated) out += "These GPUs are simulated.\n";
  return out;
}

}  // namespace

Options add_doctor(Options program, DoctorVerb& verb) {
  const Options doctor = program.verb("doctor", "Find out why there is no driver, GPU or daemon");
  add_source(doctor, verb.source);
  doctor.flag("--json", verb.json, "Print JSON");
  return doctor;
}

int run(const DoctorVerb& verb) {
  std::optional<PrivateWorld> world;
  if (verb.source.simulate) {
    auto started = PrivateWorld::start(*verb.source.simulate);
    if (!started) return complain(started.error());
    world.emplace(*std::move(started));
  }
  const DoctorAnswer answer = examine(verb.source);
  print(verb.json ? json::to_json(answer) + "\n" : text_of(answer, Screen::of_stdout()));
  return answer.healthy ? 0 : exit_code_of(Errc::unavailable);
}

}  // namespace gpuyard::cli
