// The verbs of the command line, each with what the user said. One file declares a verb's options
// and runs it. The exit codes are those of exit_code_of().
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/completion.h"
#include "cli/kube/settings.h"
#include "cli/screen/screen.h"
#include "faces/protocol/leases.h"
#include "faces/protocol/tokens.h"
#include "faces/recording/replay_backend.h"
#include "sim/world_client.h"

namespace gpuyard::cli {

class Options;

struct ServeVerb {
  std::string config_file;
  std::vector<std::string> listen;
  std::string socket;
  std::string state;
  std::string nvml;
  std::string metrics_prefix;
  std::string metrics_dialect;
  std::string log_level;
  std::optional<int> simulate;
  std::string model = "h100";  // of the simulated GPUs
  std::string load;            // of each simulated GPU; empty: a demo, from four GPUs on
  std::string scenario;        // of the simulated GPUs, too
  double speed = 1;            // simulated seconds in a real one
  bool greet = false;
  std::string replay;  // a recording to serve instead of GPUs
  std::string replay_from = "0s";
  double replay_speed = 1;
};

// The source of a verb's answers.
struct SourceFlags {
  std::string socket;
  bool local = false;
  std::string nvml;
  std::optional<int> simulate;
  std::optional<recording::Replay> replay = {};  // only of `gpuyard replay`
};

// The options of a verb that reads GPUs.
struct ReadOptions {
  SourceFlags source;
  bool json = false;
  std::string gpus;  // empty: all
  ColorMode color = ColorMode::automatic;
};

struct DevicesVerb : ReadOptions {};

struct TopVerb {
  SourceFlags source;
  std::string line;  // as the user wrote it, for the advice
  ColorMode color = ColorMode::automatic;
  bool once = false;
  bool plain = false;  // lines instead of a screen
  bool readonly = false;
  bool no_mouse = false;
  std::string size;     // "80x24"; empty: the terminal's
  std::string charset;  // braille, block or ascii; empty: what the locale has
  std::string pane;     // overview, gpu, processes, queue, alerts or usage; empty: overview
  std::string gpu;      // the one that is pointed at first
  std::string filter;
  std::string at;      // a past moment, or the position in `replay`; empty: now, the beginning
  std::string replay;  // a recording
  double speed = 1;
};

struct WatchVerb : ReadOptions {
  std::string interval = "1s";
  std::uint64_t count = 0;  // 0: until a signal ends it
  std::vector<std::string> fields;
};

struct RecordVerb {
  SourceFlags source;
  std::string file;  // "-": stdout
  std::string interval = "1s";
  std::string length;  // empty: until a signal ends it
  bool force = false;
  std::string line;  // as the user wrote it, for the advice
};

struct ReplayVerb {
  std::string file;
  std::string from = "0s";
  double speed = 1;
  bool info = false;
  WatchVerb watch;
};

struct EventsVerb : ReadOptions {
  bool follow = false;
  std::string since;  // empty: all events that the daemon knows
};

// The options of a verb that shows a daemon's answer.
struct AnswerOptions {
  std::string socket;
  bool json = false;
  ColorMode color = ColorMode::automatic;
};

struct HistoryVerb : AnswerOptions {
  enum class Charset { automatic, braille, block, ascii };
  std::string gpus;  // with commas; empty: all
  std::vector<std::string> metrics = {"power"};
  std::string element;
  std::string since = "1h";
  std::string until;
  std::string step;
  bool csv = false;
  bool plot = false;
  bool zoom = false;
  Charset charset = Charset::automatic;
};

struct WhyVerb : AnswerOptions {
  std::string gpus;   // with commas; empty: all
  std::string since;  // empty: only now
  std::string until;
};

struct CheckVerb {
  std::string socket;
  bool npd = false;
  bool json = false;
};

struct QueryVerb {
  enum class Action { gpus, processes, list } action = Action::gpus;
  SourceFlags source;
  std::vector<std::string> fields;
  std::string gpus;
  std::string where;  // a filter; empty: all
  std::string format = "csv";
  std::string interval;  // empty: once
  std::uint64_t count = 0;
};

// gpuyard smi: the options of nvidia-smi that read.
struct SmiVerb {
  enum class Action {
    summary,  // its table
    inventory,
    details,
    gpus,
    processes,
    remapped_rows,
    gpu_fields,
    process_fields,
    row_fields,
    version,
  } action = Action::summary;
  SourceFlags source;
  std::vector<std::string> fields;
  std::string gpus;  // empty: all
  std::string format = "csv";
  bool xml = false;
  std::string display;   // sections of the details, with commas; empty: all
  std::string file;      // empty: stdout
  std::string interval;  // empty: once
  bool nvidia_exit_codes = false;
};

struct ProcessesVerb : ReadOptions {
  std::string user;   // a name or a number; empty: every user
  std::string since;  // empty: only those of now
  std::string until;
};

struct EnergyVerb {
  SourceFlags source;
  bool json = false;
  std::string gpus;                  // empty: those that the command can see
  std::string report;                // a file for JSON; "-": stdout; empty: none
  std::vector<std::string> command;  // empty: show the daemon's counts
};

// The change that the user wants of GPUs; without one, the verb shows their settings.
struct ControlVerb : AnswerOptions {
  enum class Subject { power, clocks, persistence, compute_mode, ecc, reset, restore };
  Subject subject = Subject::power;
  std::string gpus;           // empty: all, if the verb only shows
  std::string value;          // watts, on or off, a compute mode
  std::string gpu_clocks;     // "MIN,MAX" or one for both
  std::string memory_clocks;  // the same
  bool restore = false;
  std::string restored_clocks;  // gpu, memory or all
  std::string cleared_errors;   // volatile or aggregate
  std::string lifetime;         // empty: until it is restored
  bool atomic = false;
  bool force = false;
  bool dry_run = false;
  bool yes = false;
  bool detach = false;  // returns before the change has finished
  std::string line;     // as the user wrote it, for the advice
};

struct AuditVerb : AnswerOptions {
  std::string gpus;  // empty: all
  std::int64_t limit = 50;
  bool verify = false;
  std::string log;  // of the setter; empty: found
};

struct OperationsVerb : AnswerOptions {
  std::string id;  // empty: all
};

// The claim that a verb makes, and its options as the user typed them, for a command that makes the
// same claim.
struct ClaimOptions {
  protocol::LeaseRequest request;
  std::map<std::string, std::string> typed;  // "--min-free": "20G"; empty: not given

  ClaimOptions() { request.gpus = 1; }
  std::string typed_value(const std::string& option) const {
    const auto found = typed.find(option);
    return found == typed.end() ? "" : found->second;
  }
};

// Who allocates the GPUs. `configured`: the value of [lease] through.
enum class Through : std::uint8_t { configured, daemon, slurm };

struct RunVerb {
  std::string socket;
  ClaimOptions wanted;
  Through through = Through::configured;
  std::string power_limit;  // watts; empty: as it is
  std::string report;       // a file for JSON; empty: none
  bool quiet = false;
  std::vector<std::string> command;
  // Set by the srun line of `gpuyard run` itself, which starts the program on the job's node.
  std::string job_directory;  // the working folder of the command; empty: this is not that program
  bool in_job = false;        // the job is older than this command, and may outlive it
};

struct LeaseVerb : AnswerOptions {
  enum class Action { take, renew, release, adopt, show, list };
  Action action = Action::show;
  std::string id;       // empty: GPUYARD_LEASE
  ClaimOptions wanted;  // take; the note also of adopt, the duration of renew
  bool exported = false;
  bool quiet = false;
  bool force = false;  // release
  std::string reason;
  std::string signal;
  std::uint32_t pid = 0;  // adopt
};

struct LeasesVerb : AnswerOptions {
  Through through = Through::configured;
};

struct QueueVerb : AnswerOptions {
  Through through = Through::configured;
};

struct FreeVerb {
  std::string socket;
  ClaimOptions wanted;  // of which the GPUs, their memory and their model
  Through through = Through::configured;
  bool json = false;
};

struct AlertsVerb : AnswerOptions {
  enum class Action : std::uint8_t {
    list,
    history,
    acknowledge,
    silence,
    silences,
    unsilence,
    rules,
    sinks,
    test,
  };
  Action action = Action::list;
  bool toml = false;  // of rules: the built-in ones, as text
  std::string alert;  // its number
  std::string note;
  std::string rule;
  std::string gpus;
  std::string length;  // of a silence: "2h"
  std::string id;      // of a silence
  std::string sink;
  std::int64_t limit = 100;
};

struct TokenVerb : AnswerOptions {
  enum class Action : std::uint8_t { create, list, revoke };
  Action action = Action::list;
  std::string name;  // or, to revoke, the id
  auth::Scope scope = auth::Scope::read;
  std::string gpus;     // empty: all
  std::string expires;  // empty: as the daemon has it; "never"
  std::string out;      // a file; empty: stdout
  std::string user;     // a name or a number; empty: the one who asks
  bool service = false;
};

struct CordonVerb {
  std::string socket;
  std::string gpus;
  std::string reason;
  bool lift = false;
  bool force = false;  // leases what is withheld because something is unknown
  bool json = false;
};

struct UsageVerb : AnswerOptions {
  std::string since = "7d";
  std::string by = "user";
  bool csv = false;
};

// The machines of a command that queries many, and how they are reached.
struct MachineOptions {
  std::vector<std::string> hosts;
  bool no_master = false;
  std::string timeout = "10s";
};

// Many machines.
struct FleetVerb : MachineOptions {
  enum class Action : std::uint8_t {
    nodes,
    gpus,
    users,
    free,
    queue,
    alerts,
    usage,
    doctor,
    top,
    disconnect,
  };
  Action action = Action::nodes;
  bool json = false;
  ColorMode color = ColorMode::automatic;
  ClaimOptions wanted;                    // free
  Through through = Through::configured;  // free
  std::string since = "7d";
  std::string by = "user";
  std::string file_sd;  // where to write Prometheus's targets; "": nowhere
};

// The hooks of Slurm on a node, and what belongs to them.
struct SlurmVerb : MachineOptions {  // of plan
  enum class Action : std::uint8_t {
    status,
    health,
    prolog,
    epilog,
    epilog_ctld,
    install,
    plan,
    forget,
  };
  Action action = Action::status;
  std::string socket;                        // empty: this machine's
  std::string spool = "/run/gpuyard-slurm";  // what hooks leave for the next one
  std::string url;  // epilog-ctld: of a node's daemon, {} for its name; empty: as -H has the name
  // install: where the hooks are written; empty: nothing is. plan: where the files are written.
  std::string into;
  std::string controller;   // plan
  bool accounting = false;  // plan
  bool check = false;       // plan: compares, and writes nothing
  bool json = false;
};

// The agent of a Kubernetes node, and what an administrator asks of all of them.
struct KubeVerb : AnswerOptions {
  enum class Action : std::uint8_t { status, agent, manifest, withdraw, forget };
  Action action = Action::status;
  std::string kubeconfig;   // empty: the pod's own cluster
  kube::Settings settings;  // status and withdraw have the condition's type, and a node or all ("")
  std::string memory;       // agent: a file; empty: it remembers nothing
  std::string kubelet;  // agent: a socket; empty: where a kubelet has it; "none": it is not asked
  std::string pod;      // agent: its own, as NAMESPACE/NAME; empty: it runs in none
  std::string image;    // manifest: in a registry of the user
  // manifest: the namespace of its objects
  std::string name_space = "gpuyard";
  std::string restart_plugin;  // agent: NAMESPACE/KEY=VALUE; empty: it restarts no plugin
};

struct DoctorVerb {
  SourceFlags source;
  bool json = false;
};

struct SchemaVerb {
  std::string name;  // empty: the names there are
};

struct CompletionVerb {
  Shell shell = Shell::none;
  std::string manual;  // the directory for its pages
  VerbText program;    // known when all verbs are
};

struct DriverVerb {
  SourceFlags source;
  bool json = false;
};

// Connects stdin and stdout to this machine's daemon. ssh runs it for a client elsewhere.
struct DialStdioVerb {
  bool lease_only = false;    // to the socket on which callers may lease but do no more
  bool send_signals = false;  // sends the signals of a release instead
};

struct ConfigVerb {
  enum class Action { init, show, validate, path } action = Action::show;
  std::string file;
  bool json = false;
};

// The certificate that the daemon shows to clients elsewhere.
struct TlsVerb {
  enum class Action : std::uint8_t { init, show } action = Action::show;
  std::string config_file;
  std::string state;  // empty: as the configuration has it
  std::string hosts;  // with commas; empty: this machine's own
  bool json = false;
};

// The names of remote daemons in hosts.toml.
struct HostVerb {
  enum class Action : std::uint8_t { list, add, remove } action = Action::list;
  std::string name;
  std::string url;
  std::string pin;         // empty: the user is asked
  std::string token_file;  // empty: none
  bool json = false;       // of list
};

struct VersionVerb {
  bool json = false;
};

struct SimVerb {
  enum class Action {
    start,
    status,
    stop,
    load,
    inject,
    reset,
    run,
    attach,
    unplug,
    plug,
    step,
    driver_reload,
    driver_unload,
    driver_load,
    validate
  };
  Action action = Action::status;
  std::string world;
  int gpu = 0;  // sim::kEveryGpu: all
  bool json = false;
  // start; the driver's version also of driver reload and load, where empty leaves it as it is
  sim::WorldOptions start{.directory = {}};
  std::string load = "mixed";  // also of load
  std::string setters = "owner";
  std::string scenario;  // also of validate
  std::string time;      // step; driver reload: how long it is away
  // reset
  std::string gpu_name;
  bool as_driver = false;
  // plug
  std::string uuid;
  std::optional<int> index;
  // run, attach
  std::string vram = "1G";
  double process_load = 1.0;
  bool graphics = false;
  std::vector<std::string> command;
  std::optional<int> pid;
  std::optional<int> synthetic;
  std::optional<int> attach_gpu;
  // inject
  bool lost = false;
  bool clear = false;
  std::string call;
  std::optional<int> code;
  std::optional<std::uint32_t> latency_ms;
  bool never_returns = false;
  std::uint32_t times = 0;  // 0: every time
  bool reset_required = false;
  bool power_brake = false;
  std::string row_remap;  // pending, failed
  std::optional<std::uint32_t> fan;
  std::optional<std::uint32_t> pcie_generation;
  std::optional<std::uint32_t> pcie_width;
  std::optional<std::uint32_t> nvlink_down;
  std::string recovery_action;
  std::optional<std::uint32_t> xid;
  std::optional<std::uint32_t> ecc_corrected;
  std::optional<std::uint32_t> ecc_uncorrected;
  std::string ecc_location = "device_memory";
  std::optional<double> heat;
  std::optional<double> memory_heat;
};

using Verb =
    std::variant<ServeVerb, DevicesVerb, TopVerb, WatchVerb, EventsVerb, RecordVerb, ReplayVerb,
                 HistoryVerb, WhyVerb, CheckVerb, QueryVerb, SmiVerb, ProcessesVerb, DriverVerb,
                 EnergyVerb, ControlVerb, AuditVerb, OperationsVerb, RunVerb, LeaseVerb, LeasesVerb,
                 QueueVerb, FreeVerb, CordonVerb, UsageVerb, AlertsVerb, TokenVerb, TlsVerb,
                 HostVerb, FleetVerb, SlurmVerb, KubeVerb, DoctorVerb, ConfigVerb, VersionVerb,
                 SchemaVerb, CompletionVerb, SimVerb, DialStdioVerb>;

// The kind of a verb, which decides whether -H applies: whether another machine's daemon can serve
// it.
enum class VerbScope : std::uint8_t {
  asks,    // a daemon, wherever that is
  starts,  // something on this machine, which the daemon must see
  here,    // something of this machine or of the program itself
};
VerbScope scope_of(const Verb&);

int run(const ServeVerb&);
int run(const DevicesVerb&);
int run(const TopVerb&);
int run(const WatchVerb&);
int run(const RecordVerb&);
int run(const ReplayVerb&);
int run(const EventsVerb&);
int run(const HistoryVerb&);
int run(const WhyVerb&);
int run(const CheckVerb&);
int run(const QueryVerb&);
int run(const SmiVerb&);
int run(const ProcessesVerb&);
int run(const DriverVerb&);
int run(const EnergyVerb&);
int run(const ControlVerb&);
int run(const AuditVerb&);
int run(const OperationsVerb&);
int run(const RunVerb&);
int run(const LeaseVerb&);
int run(const LeasesVerb&);
int run(const QueueVerb&);
int run(const FreeVerb&);
int run(const CordonVerb&);
int run(const UsageVerb&);
int run(const AlertsVerb&);
int run(const TokenVerb&);
int run(const TlsVerb&);
int run(const HostVerb&);
int run(const FleetVerb&);
int run(const SlurmVerb&);
int run(const KubeVerb&);
int run(const DoctorVerb&);
int run(const ConfigVerb&);
int run(const VersionVerb&);
int run(const SchemaVerb&);
int run(const CompletionVerb&);
int run(const SimVerb&);
int run(const DialStdioVerb&);

// The hidden verb with-parent: becomes the program in `words` behind the process id in the first,
// and ends when that process, our parent, ends. Returns an exit code if it cannot.
int run_with_parent(const std::vector<std::string>& words);

// Each function adds its verb and the verb's options to the program. Parsing writes into the verb's
// record, which must outlive it.
Options add_serve(Options program, ServeVerb&);
Options add_devices(Options program, DevicesVerb&);
Options add_top(Options program, TopVerb&);
Options add_watch(Options program, WatchVerb&);
Options add_record(Options program, RecordVerb&);
Options add_replay(Options program, ReplayVerb&);
Options add_events(Options program, EventsVerb&);
Options add_history(Options program, HistoryVerb&);
Options add_why(Options program, WhyVerb&);
Options add_check(Options program, CheckVerb&);
Options add_query(Options program, QueryVerb&);
Options add_smi(Options program, SmiVerb&);
Options add_processes(Options program, ProcessesVerb&);
Options add_driver(Options program, DriverVerb&);
Options add_energy(Options program, EnergyVerb&);
Options add_power(Options program, ControlVerb&);
Options add_clocks(Options program, ControlVerb&);
Options add_persistence(Options program, ControlVerb&);
Options add_compute_mode(Options program, ControlVerb&);
Options add_ecc(Options program, ControlVerb&);
Options add_reset(Options program, ControlVerb&);
Options add_restore(Options program, ControlVerb&);
Options add_audit(Options program, AuditVerb&);
Options add_operations(Options program, OperationsVerb&);
Options add_run(Options program, RunVerb&);
Options add_lease(Options program, LeaseVerb&);
Options add_leases(Options program, LeasesVerb&);
Options add_queue(Options program, QueueVerb&);
Options add_free(Options program, FreeVerb&);
Options add_cordon(Options program, CordonVerb&);
Options add_uncordon(Options program, CordonVerb&);
Options add_usage(Options program, UsageVerb&);
Options add_alerts(Options program, AlertsVerb&);
Options add_token(Options program, TokenVerb&);
Options add_tls(Options program, TlsVerb&);
Options add_named_host(Options program, HostVerb&);
Options add_fleet(Options program, FleetVerb&);
Options add_slurm(Options program, SlurmVerb&);
Options add_kube(Options program, KubeVerb&);
Options add_doctor(Options program, DoctorVerb&);
Options add_config(Options program, ConfigVerb&);
Options add_version(Options program, VersionVerb&);
Options add_schema(Options program, SchemaVerb&);
Options add_completion(Options program, CompletionVerb&);
Options add_sim(Options program, SimVerb&);
Options add_dial_stdio(Options program, DialStdioVerb&);

// A verb by its name on the command line.
template <class AnyVerb>
struct VerbRow {
  std::string_view name;
  Options (*add_to)(Options program, AnyVerb&);
};

// Adds every verb under the headings of --help, in their order.
template <class VerbList>
void add_verbs(VerbList& verbs) {
  verbs.add("Getting started", VerbRow{"devices", add_devices}, VerbRow{"top", add_top},
            VerbRow{"watch", add_watch}, VerbRow{"run", add_run}, VerbRow{"leases", add_leases},
            VerbRow{"doctor", add_doctor});
  verbs.add("Monitoring", VerbRow{"query", add_query}, VerbRow{"processes", add_processes},
            VerbRow{"why", add_why}, VerbRow{"check", add_check}, VerbRow{"history", add_history},
            VerbRow{"events", add_events}, VerbRow{"smi", add_smi}, VerbRow{"record", add_record},
            VerbRow{"replay", add_replay});
  verbs.add("Leasing", VerbRow{"queue", add_queue}, VerbRow{"free", add_free},
            VerbRow{"lease", add_lease}, VerbRow{"cordon", add_cordon},
            VerbRow{"uncordon", add_uncordon});
  verbs.add("Multiple machines", VerbRow{"fleet", add_fleet}, VerbRow{"slurm", add_slurm},
            VerbRow{"kube", add_kube});
  verbs.add("Accounting", VerbRow{"energy", add_energy}, VerbRow{"usage", add_usage});
  verbs.add("GPU settings", VerbRow{"power", add_power}, VerbRow{"clocks", add_clocks},
            VerbRow{"persistence", add_persistence}, VerbRow{"compute-mode", add_compute_mode},
            VerbRow{"ecc", add_ecc}, VerbRow{"reset", add_reset}, VerbRow{"restore", add_restore},
            VerbRow{"audit", add_audit}, VerbRow{"operations", add_operations});
  verbs.add("Alerts", VerbRow{"alerts", add_alerts});
  verbs.add("Daemon and tools", VerbRow{"serve", add_serve}, VerbRow{"config", add_config},
            VerbRow{"token", add_token}, VerbRow{"tls", add_tls}, VerbRow{"host", add_named_host},
            VerbRow{"driver", add_driver}, VerbRow{"sim", add_sim},
            VerbRow{"dial-stdio", add_dial_stdio}, VerbRow{"version", add_version},
            VerbRow{"schema", add_schema}, VerbRow{"completion", add_completion});
}

}  // namespace gpuyard::cli
