// gpuyard doctor

#include "cli/read/check.h"
#include "cli/read/json_output.h"
#include "cli/read/machine_facts.h"
#include "cli/read/source_access.h"
#include "cli/screen/output.h"
#include "cli/screen/reading_text.h"
#include "cli/screen/screen.h"
#include "cli/shared_options.h"
#include "cli/token/gone_users.h"
#include "faces/client/daemon_client.h"
#include "faces/client/local_daemon.h"
#include "faces/library/monitor.h"
#include "faces/protocol/routes.h"
#include "gpu/device/error.h"
#include "sim/world_file.h"

namespace gpuyard::cli {
namespace {

void examine_driver(const SourceFlags& flags, DoctorAnswer& answer) {
  const auto choice =
      library::choose_nvml(flags.simulate ? "" : flags.nvml, sim::simulated_nvml_path());
  if (!choice.path.empty()) answer.driver.library = choice.path;
  auto backend = library::open_driver(choice);
  auto monitor = backend ? library::Monitor::open(*std::move(backend))
                         : Result<library::Monitor>(std::move(backend).error());
  if (!monitor) {
    answer.driver.error = init_failure_reason(monitor.error());
    return;
  }
  const DriverInfo& driver = monitor->driver();
  answer.driver = {true,
                   driver.library,
                   driver.driver_version,
                   driver.cuda_driver_version,
                   driver.nvml_version,
                   std::nullopt,
                   monitor->gpu_count()};
  answer.simulated = driver.simulated;
  answer.cuda_available = answer.healthy = answer.driver.gpus > 0;
}

// The hint would name the address once more.
std::string without_hint(Error error) {
  error.hint.clear();
  return error.text();
}

void query_verdicts(const http::Endpoint& daemon, DoctorAnswer& answer) {
  const auto verdicts = client::call(daemon, protocol::kVerdict);
  if (!verdicts) return;  // a daemon older than this program has none
  const CheckResult check = check_of(*verdicts);
  answer.daemon.verdicts = {check.good, check.bad, check.unknown};
  for (const protocol::GpuVerdict& gpu : verdicts->gpus) {
    if (gpu.verdict == Verdict::bad) answer.advice.push_back(bad_gpu_text(gpu));
  }
}

void query_daemon(const http::Endpoint& daemon, DoctorAnswer& answer) {
  answer.daemon.address = daemon.text();
  const auto health = client::call(daemon, protocol::kHealth);
  if (!health) {
    answer.daemon.message = without_hint(health.error());
    return;
  }
  answer.daemon.reachable = true;
  answer.advice = fetch_gone_user_warnings(daemon);
  answer.daemon.version = health->version;
  const auto ready = client::call(daemon, protocol::kReady);
  answer.daemon.ready = ready.ok() && ready->ready;
  answer.daemon.message = ready ? ready->reason : ready.error().text();
  if (!ready) return;
  answer.daemon.reads_kernel_log = ready->reads_kernel_log;
  answer.daemon.lacks = ready->lacks.value_or(answer.daemon.lacks);
  answer.advice.insert(answer.advice.end(), ready->notes.begin(), ready->notes.end());
  answer.simulated = answer.simulated || ready->simulated;
  answer.healthy = answer.healthy || ready->cuda_available;
  if (answer.daemon.ready == true) query_verdicts(daemon, answer);
}

void query_local_daemon(const http::Endpoint& daemon, DoctorAnswer& answer) {
  query_daemon(daemon, answer);
  if (answer.daemon.reachable && daemon.kind == http::Endpoint::Kind::unix_socket) {
    answer.daemon.user = listener_user(daemon.path);
  }
}

// Only its daemon knows the driver of another machine.
void query_driver(const http::Endpoint& daemon, DoctorAnswer& answer) {
  const auto seen = client::call(daemon, protocol::kSnapshot);
  if (!seen) {
    answer.driver.error = seen.error().text();
    return;
  }
  answer.driver = {seen->driver_initialised,    std::nullopt,
                   seen->driver.driver_version, seen->driver.cuda_driver_version,
                   seen->driver.nvml_version,   seen->driver_error,
                   seen->devices.size()};
  answer.cuda_available = answer.healthy = answer.driver.gpus > 0;
}

void examine_remote(const SourceFlags& flags, DoctorAnswer& answer) {
  const std::string& address = flags.socket;
  const auto daemon = client::parse_daemon_address(address, source_options(flags).keys);
  if (!daemon) {
    answer.daemon.address = address;
    answer.daemon.message = daemon.error().text();
    return;
  }
  query_daemon(*daemon, answer);
  if (answer.daemon.reachable) {
    query_driver(*daemon, answer);
  } else {
    answer.driver.error = fmt::format("unknown: the daemon at {} could not be reached", address);
  }
}

void examine_daemon(const SourceFlags& flags, DoctorAnswer& answer) {
  const auto options = source_options(flags);
  if (!options.socket.empty()) {
    const auto named = http::parse_endpoint(options.socket);
    if (named) return query_local_daemon(*named, answer);
    answer.daemon.address = options.socket;
    answer.daemon.message = named.error().text();
    return;
  }
  if (const auto daemon = client::find_daemon(options.sockets)) {
    return query_local_daemon(*daemon, answer);
  }
  if (!options.sockets.empty()) answer.daemon.address = options.sockets.front();
  answer.daemon.message = without_hint(client::no_daemon_error(
      options.sockets, fmt::format("not running; start one with `{}`", client::start_command())));
}

DoctorAnswer examine(const SourceFlags& flags) {
  DoctorAnswer answer;
  if (client::is_remote_address(flags.socket)) {
    examine_remote(flags, answer);
    return answer;
  }
  examine_driver(flags, answer);
  examine_daemon(flags, answer);
  if (answer.cuda_available) {
    if (!flags.simulate && answer.daemon.ready == false) {
      answer.advice.emplace_back(
          "The driver works in this shell but not in the daemon: the daemon started before the "
          "driver was loaded, or its unit or container blocks the GPU devices. Restart it: "
          "systemctl restart gpuyard");
    }
    return answer;
  }
  if (answer.healthy) return answer;  // a daemon serves GPUs
  const MachineFacts facts = machine_facts();
  const auto advice =
      answer.driver.error ? advice_for(*answer.driver.error, facts) : advice_without_gpus(facts);
  answer.advice.insert(answer.advice.begin(), advice.begin(), advice.end());
  return answer;
}

enum class Mark { good, lacking, bad, none };

Printable line(const Screen& screen, Mark mark, std::string_view what, const std::string& text) {
  struct Sign {
    Tone tone;
    std::string_view utf8;
    std::string_view ascii;
  };
  constexpr std::array kSigns = {Sign{Tone::good, "\u2713", "+"},
                                 Sign{Tone::warning, "\u2013", "-"}, Sign{Tone::bad, "\u2717", "x"},
                                 Sign{Tone::plain, " ", " "}};
  const Sign& sign = kSigns[static_cast<std::size_t>(mark)];
  return formatted("{} {:<8}{}\n", painted(screen, sign.tone, screen.utf8 ? sign.utf8 : sign.ascii),
                   what, text);
}

Printable driver_lines(const Screen& screen, const DriverFinding& driver, bool elsewhere) {
  const auto or_dash = [](const std::optional<std::string>& text) {
    return text.value_or(std::string(kNothing));
  };
  if (!driver.initialised) {
    Printable why = line(screen, Mark::bad, "driver", or_dash(driver.error));
    if (elsewhere) return why;
    return why + line(screen, Mark::none, "NVML",
                      driver.library ? "expected at " + *driver.library
                                     : "expected as libnvidia-ml.so.1 in the loader's search path");
  }
  const bool gpus = driver.gpus > 0;
  return line(screen, Mark::good, "driver",
              fmt::format("{}, CUDA up to {}", or_dash(driver.driver_version),
                          or_dash(driver.cuda_driver_version))) +
         line(screen, Mark::good, "NVML",
              fmt::format("{}, {}", or_dash(driver.nvml_version), or_dash(driver.library))) +
         line(screen, gpus ? Mark::good : Mark::bad, "GPUs", std::to_string(driver.gpus));
}

// The address once: most messages name it.
std::string unreachable_text(const DaemonFinding& daemon) {
  const std::string address = daemon.address.value_or(std::string(kNothing));
  const bool named = daemon.message.find(address) != daemon.message.npos;
  return named ? daemon.message : fmt::format("{} ({})", daemon.message, address);
}

Printable health_line(const Screen& screen, const VerdictCounts& verdicts) {
  const Mark mark = verdicts.bad > 0       ? Mark::bad
                    : verdicts.unknown > 0 ? Mark::lacking
                                           : Mark::good;
  return line(
      screen, mark, "health",
      fmt::format("{} good, {} bad, {} unknown", verdicts.good, verdicts.bad, verdicts.unknown));
}

Printable text_of(const DoctorAnswer& answer, const Screen& screen, bool elsewhere) {
  Printable out = driver_lines(screen, answer.driver, elsewhere);
  out += line(screen, answer.cuda_available ? Mark::good : Mark::bad, "CUDA",
              answer.cuda_available ? "available" : "not available");
  const DaemonFinding& daemon = answer.daemon;
  const bool well = daemon.ready.value_or(false);
  out += line(screen, well ? Mark::good : Mark::lacking, "daemon",
              daemon.reachable
                  ? fmt::format("{} at {}, {}", *daemon.version, *daemon.address, daemon.message)
                  : unreachable_text(daemon));
  if (daemon.verdicts) out += health_line(screen, *daemon.verdicts);
  if (daemon.user) {
    out += line(screen, Mark::good, "user", "the daemon runs without root as " + *daemon.user);
  }
  for (const std::string& lack : daemon.lacks) {
    out += line(screen, Mark::lacking, "", lack);
  }
  for (const std::string& advice : answer.advice) out += formatted("\n  {}", advice);
  if (!answer.advice.empty()) out += "\n";
  if (answer.simulated) out += "These GPUs are simulated.\n";
  return out;
}

}  // namespace

Options add_doctor(Options program, DoctorVerb& verb) {
  const Options doctor = program.verb("doctor", "Diagnose driver, GPU and daemon problems");
  add_source(doctor, verb.source);
  add_json(doctor, verb.json);
  doctor.example("gpuyard doctor")
      .example("gpuyard -H ssh://lab doctor", "Diagnose another machine")
      .exit_codes("Exit code 5: a problem was found");
  return doctor;
}

int run(const DoctorVerb& verb) {
  std::optional<PrivateWorld> world;
  if (verb.source.simulate) {
    auto started = PrivateWorld::start(*verb.source.simulate);
    if (!started) return print_error(started.error());
    world.emplace(*std::move(started));
  }
  const DoctorAnswer answer = examine(verb.source);
  const bool elsewhere = client::is_remote_address(verb.source.socket);
  print(verb.json ? json_line(answer) : text_of(answer, Screen::of_stdout(), elsewhere));
  return answer.healthy ? 0 : exit_code_of(Errc::unavailable);
}

}  // namespace gpuyard::cli
