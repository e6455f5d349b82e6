// The output of `--json` that is no resource of the REST API. Fields may be added, not changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_shape.h"
#include "cli/command_line.h"
#include "faces/protocol/energy.h"
#include "faces/protocol/events.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/resources.h"

namespace gpuyard::cli {

struct MeasuredCommand : protocol::AnswerHead {
  std::vector<std::string> command;
  int exit_code = 0;
  double seconds = 0;
  std::optional<double> joules;
  std::vector<protocol::WindowGpu> gpus;
  std::vector<std::string> notes;
  bool partial = false;
};
BOOST_DESCRIBE_STRUCT(MeasuredCommand, (protocol::AnswerHead),
                      (command, exit_code, seconds, joules, gpus, notes, partial))
GPUYARD_ABOUT(
    MeasuredCommand,
    {"exit_code", "As in a shell: 127 not found, 126 not executable, 128 plus the signal number."},
    {"seconds", "From start to end."},
    {"joules", "Sum over the GPUs whose energy is known; null if it is known for none."},
    {"partial",
     "The joules are a lower bound: for a GPU, or for some of the time, they are unknown."})

struct TlsAnswer {
  int schema = protocol::kSchemaVersion;
  std::string certificate;  // a file
  std::string key;          // a file
  std::vector<std::string> names;
  std::string not_before;
  std::string not_after;
  std::string pin;
  std::string fingerprint;
  std::vector<std::string> listen;
};
BOOST_DESCRIBE_STRUCT(TlsAnswer, (),
                      (schema, certificate, key, names, not_before, not_after, pin, fingerprint,
                       listen))
GPUYARD_ABOUT(TlsAnswer, {"pin", "Pin of the public key, in the format of curl's --pinnedpubkey."},
              {"fingerprint", "SHA-256 of the certificate."})

struct NamedHost {
  std::string name;
  std::string url;
};
BOOST_DESCRIBE_STRUCT(NamedHost, (), (name, url))
GPUYARD_ABOUT(NamedHost, {"name", "Name for -H."},
              {"url", "https:// or ssh:// URL of the daemon, or the path of its socket."})

struct HostsAnswer {
  int schema = protocol::kSchemaVersion;
  std::vector<NamedHost> hosts;
};
BOOST_DESCRIBE_STRUCT(HostsAnswer, (), (schema, hosts))

struct LeftBehindProcess {
  std::uint32_t pid = 0;
  std::string name;
};
BOOST_DESCRIBE_STRUCT(LeftBehindProcess, (), (pid, name))

struct RunAnswer : protocol::AnswerHead {
  std::vector<std::string> command;
  int exit_code = 0;
  double seconds = 0;
  protocol::Lease lease;  // as it was released; `use` is null if it is not known
  std::vector<LeftBehindProcess> left_behind;
  std::vector<std::string> notes;
};
BOOST_DESCRIBE_STRUCT(RunAnswer, (protocol::AnswerHead),
                      (command, exit_code, seconds, lease, left_behind, notes))

struct VersionAnswer {
  int schema = protocol::kSchemaVersion;
  std::string version = std::string(kVersion);
};
BOOST_DESCRIBE_STRUCT(VersionAnswer, (), (schema, version))

struct DriverAnswer {
  int schema = protocol::kSchemaVersion;
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_driver_version;
  std::optional<std::string> nvml_version;
  bool simulated = false;
};
BOOST_DESCRIBE_STRUCT(DriverAnswer, (),
                      (schema, driver_version, cuda_driver_version, nvml_version, simulated))
GPUYARD_ABOUT(DriverAnswer,
              {"cuda_driver_version", "The highest CUDA version that the driver supports."})

struct VerdictCounts {
  std::uint64_t good = 0;
  std::uint64_t bad = 0;
  std::uint64_t unknown = 0;
};
BOOST_DESCRIBE_STRUCT(VerdictCounts, (), (good, bad, unknown))

struct DaemonFinding {
  bool reachable = false;
  std::optional<std::string> address;  // of the daemon, or where it was looked for
  std::optional<std::string> version;
  std::optional<bool> ready;
  std::string message;
  std::optional<std::string> user;  // whose it is, if it is of this machine and not root's
  std::vector<std::string> lacks;
  std::optional<bool> reads_kernel_log;
  std::optional<VerdictCounts> verdicts;
};
BOOST_DESCRIBE_STRUCT(DaemonFinding, (),
                      (reachable, address, version, ready, message, user, lacks, reads_kernel_log,
                       verdicts))
GPUYARD_ABOUT(DaemonFinding,
              {"user", "User it runs as, if it is on this machine and does not run as root."},
              {"lacks", "Restrictions that the daemon could not put on itself, and why."},
              {"reads_kernel_log",
               "Whether it also reads Xids from the kernel's log; null if it does not say."},
              {"verdicts", "The number of GPUs with each verdict; null if it gives none."})

struct DriverFinding {
  bool initialised = false;
  std::optional<std::string> library;  // path of the NVML that is loaded
  std::optional<std::string> driver_version;
  std::optional<std::string> cuda_driver_version;
  std::optional<std::string> nvml_version;
  std::optional<std::string> error;  // the driver's own words
  std::uint64_t gpus = 0;
};
BOOST_DESCRIBE_STRUCT(DriverFinding, (),
                      (initialised, library, driver_version, cuda_driver_version, nvml_version,
                       error, gpus))

struct DoctorAnswer {
  int schema = protocol::kSchemaVersion;
  bool healthy = false;
  bool simulated = false;
  bool cuda_available = false;
  DriverFinding driver;
  DaemonFinding daemon;
  std::vector<std::string> advice;  // what to do next
};
BOOST_DESCRIBE_STRUCT(DoctorAnswer, (),
                      (schema, healthy, simulated, cuda_available, driver, daemon, advice))
GPUYARD_ABOUT(DoctorAnswer,
              {"cuda_available", "NVML is initialised and there is at least one GPU."})

struct EventAnswer : protocol::GpuEvent {
  int schema = protocol::kSchemaVersion;
  std::string id;
};
BOOST_DESCRIBE_STRUCT(EventAnswer, (), (schema, id, at, device, index, kind, severity, xid, text))
GPUYARD_ABOUT(EventAnswer, {"id", "Event ID, for --since."})

struct GpuWhy {
  std::uint32_t index = 0;
  std::string uuid;
  std::string name;
  std::optional<Bottleneck> bottleneck;
};
BOOST_DESCRIBE_STRUCT(GpuWhy, (), (index, uuid, name, bottleneck))

struct WhyAnswer : protocol::AnswerHead {
  std::string taken_at;
  std::vector<GpuWhy> gpus;
};
BOOST_DESCRIBE_STRUCT(WhyAnswer, (protocol::AnswerHead), (taken_at, gpus))

}  // namespace gpuyard::cli
