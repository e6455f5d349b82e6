#include "cli/slurm/through_slurm.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/files.h"
#include "base/paths.h"
#include "base/spawn.h"
#include "base/try.h"
#include "cli/lease/foreground_job.h"
#include "cli/lease/job_signals.h"
#include "cli/screen/output.h"
#include "cli/slurm/controller.h"
#include "cli/slurm/job_step.h"
#include "cli/slurm/sinfo_types.h"
#include "cli/slurm/srun_line.h"
#include "cli/slurm/srun_messages.h"
#include "daemon/config/config.h"

namespace gpuyard::cli::slurm {
namespace {

// After srun's end, its helper process may keep stderr open for a moment.
constexpr int kLastWordsTimeout = 100;  // milliseconds

// An srun that runs the command, from its start to its end.
class SrunRun {
 public:
  SrunRun(const RunVerb& verb, const SrunPlace& place) : verb_(verb), terminal_(place.terminal) {}

  int run(const std::vector<std::string>& line);

 private:
  Result<void> start(const std::vector<std::string>& line);
  JobEnd wait();
  void take_signals(std::optional<JobEnd>& end);
  // Passes on what srun has written. Returns false if no more can come.
  bool relay();
  int finish(const JobEnd&) const;
  int print_outcome(int exit_code) const;

  const RunVerb& verb_;
  bool terminal_;
  JobSignals signals_;
  UniqueFd errors_;  // srun's stderr
  std::optional<ForegroundJob> srun_;
  SrunMessages messages_;
  std::optional<JobSignal> end_signal_;  // the last one that asked us to end
};

int SrunRun::run(const std::vector<std::string>& line) {
  if (const auto started = start(line); !started) return print_error(started.error());
  if (const auto failed = srun_->resume()) return *failed;
  return finish(wait());
}

// srun stays in our group, so that the terminal's signals reach both, and a Ctrl-Z stops both. If
// we are killed, it gets SIGTERM, on which it gives up the job, also one that waits.
Result<void> SrunRun::start(const std::vector<std::string>& line) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("creating a pipe");
  errors_ = UniqueFd(ends[0]);
  const UniqueFd write_end(ends[1]);
  auto started = ForegroundJob::start_held(
      line, {}, signals_, {.own_group = false, .errors = write_end.get(), .death_signal = SIGTERM});
  if (!started) return started.error();
  srun_.emplace(*std::move(started));
  return {};
}

JobEnd SrunRun::wait() {
  std::optional<JobEnd> end = srun_->reap();
  while (!end) {
    std::array<pollfd, 2> polled{pollfd{signals_.descriptor(), POLLIN, 0},
                                 pollfd{errors_.get(), POLLIN, 0}};
    ::poll(polled.data(), polled.size(), -1);
    if (polled[1].revents != 0 && !relay()) errors_.reset();  // poll() skips it from now on
    take_signals(end);
  }
  pollfd last{errors_.get(), POLLIN, 0};
  while (errors_ && ::poll(&last, 1, kLastWordsTimeout) > 0 && relay()) continue;
  return *end;
}

void SrunRun::take_signals(std::optional<JobEnd>& end) {
  while (const auto signal = signals_.take()) {
    if (signal->number == SIGCHLD) {
      end = srun_->reap();
      if (end) return;
      continue;
    }
    if (is_termination_signal(signal->number)) end_signal_ = signal;
    srun_->forward(*signal);
  }
}

bool SrunRun::relay() {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::read(errors_.get(), buffer.data(), buffer.size());
  if (got <= 0) return false;
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
  messages_.add(bytes);
  relay_to_stderr(bytes);
  return true;
}

int SrunRun::finish(const JobEnd& end) const {
  const bool from_terminal = end_signal_ && end_signal_->from_terminal;
  const bool by_ctrl_c = end_signal_ ? end_signal_->number == SIGINT && from_terminal
                                     : terminal_ && messages_.is_interrupted();
  const bool started = messages_.has_task_ended();
  if (end.exit_code == kExitSignalBase + SIGINT && by_ctrl_c) exit_by_sigint(false);
  if (end.exit_code == 0 || !end_signal_) return print_outcome(end.exit_code);
  // srun passes SIGINT on to the command; after others it kills the command, or gives up the claim.
  if (started && end_signal_->number == SIGINT) return print_outcome(end.exit_code);
  if (by_ctrl_c) exit_by_sigint(false);
  return kExitSignalBase + end_signal_->number;
}

int SrunRun::print_outcome(int exit_code) const {
  if (messages_.is_time_over()) {
    const std::string limit = verb_.wanted.typed_value("--max-time");
    print_note(limit.empty()
                   ? "Slurm ended the job at the time limit of its partition"
                   : fmt::format("Slurm ended the job at its time limit, --max-time {}", limit));
  }
  if (exit_code == 0) return 0;
  if (messages_.is_program_missing()) {
    return print_error({Errc::unavailable,
                        fmt::format("{} is not on the node that Slurm selected", program_path()),
                        "the nodes need the same version of gpuyard at the same path", ""});
  }
  const auto refusal = messages_.refusal();
  return refusal ? print_error(*refusal) : exit_code;
}

// Whether the command has our terminal to itself: as input, for its output and for its errors.
bool has_terminal() {
  return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 &&
         ::isatty(STDERR_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp();
}

Result<std::string> working_directory() {
  std::error_code failed;
  const auto path = std::filesystem::current_path(failed);
  if (!failed) return path.string();
  return Error{Errc::not_found, "the working folder was removed", failed.message(), "cd ~"};
}

Result<SrunPlace> place_of(const RunVerb& verb, bool in_job) {
  if (!find_program("srun")) {
    return not_installed_error("srun", "Slurm starts commands with it");
  }
  SrunPlace place;
  place.program = program_path();
  place.directory = GPUYARD_TRY(working_directory());
  place.terminal = has_terminal();
  place.in_job = in_job;
  if (!in_job && verb.wanted.request.model) place.gpu_types = GPUYARD_TRY(query_gpu_types());
  return place;
}

// [lease] through of one file; nothing if it is not set there, or the file cannot be read.
std::optional<config::Config> config_of(const std::string& file, const std::string& home) {
  constexpr std::size_t kMaxConfigBytes = std::size_t{256} * 1024;
  const auto text = read_file(file, kMaxConfigBytes);
  if (!text) return std::nullopt;
  config::Config read;
  if (const auto applied = config::apply_toml(read, *text, file, home); !applied) {
    print_note(fmt::format("lease.through not read: {}", applied.error().text()));
    return std::nullopt;
  }
  return read;
}

}  // namespace

bool is_through_slurm(Through given) {
  if (given != Through::configured) return given == Through::slurm;
  using Configured = config::Config::Lease::Through;
  const auto environment = Environment::current();
  Configured through = Configured::daemon;
  for (const std::string& file : default_config_files(environment)) {
    const auto read = config_of(file, environment.home);
    if (read && read->set_at.contains("lease.through")) through = read->lease.through;
  }
  return through == Configured::slurm;
}

int run_through_slurm(const RunVerb& verb) {
  if (const auto possible = check_for_slurm(verb); !possible) return print_error(possible.error());
  extend_path();
  const bool in_job = !environment_variable("SLURM_JOB_ID").empty();
  // A batch script and a step run on a node of their job; a shell of salloc may be elsewhere.
  if (in_job && !environment_variable("SLURMD_NODENAME").empty()) {
    RunVerb here = verb;
    here.job_directory = ".";
    here.in_job = true;
    return run_job_step(here);
  }
  const auto place = place_of(verb, in_job);
  if (!place) return print_error(place.error());
  const auto line = srun_line(verb, *place);
  if (!line) return print_error(line.error());
  return SrunRun(verb, *place).run(*line);
}

}  // namespace gpuyard::cli::slurm
