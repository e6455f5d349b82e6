#include "base/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "base/capabilities.h"
#include "base/files.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/try.h"
#include "base/unique_fd.h"

namespace gpuyard {
namespace {

// Starts the program by this link: after an upgrade in place the path names another version or
// nothing.
constexpr const char* kThisProgram = "/proc/self/exe";

// The steps of the child with its descriptors between fork and exec.
class Actions {
 public:
  Actions() { ::posix_spawn_file_actions_init(&actions_); }
  ~Actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;

  void duplicate(int from, int to) { ::posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void close_from(int fd) { ::posix_spawn_file_actions_addclosefrom_np(&actions_, fd); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

class Attributes {
 public:
  explicit Attributes(bool own_session) {
    ::posix_spawnattr_init(&attributes_);
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    const int flags =
        POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (own_session ? POSIX_SPAWN_SETSID : 0);
    ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

// Copies the descriptors above every number that the child uses. Putting one in its place then
// overwrites no other, and none is in its place already (dup2 onto itself would keep CLOEXEC).
Result<std::vector<UniqueFd>> copy_above(const std::vector<int>& given) {
  const int free = static_cast<int>(given.size());
  std::vector<UniqueFd> copies;
  for (const int fd : given) {
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, free));
    if (!copies.back()) return system_error("giving a descriptor to a child process");
  }
  return copies;
}

std::string path_of(const SpawnOptions& options) {
  return options.program.empty() ? program_path() : options.program;
}

std::vector<std::string> command_line(const SpawnOptions& options) {
  std::vector<std::string> arguments = {options.display_name.empty() ? path_of(options)
                                                                     : options.display_name};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  return arguments;
}

bool is_variable_named(std::string_view variable, std::string_view name) {
  return variable.size() > name.size() && variable.starts_with(name) &&
         variable[name.size()] == '=';
}

std::vector<std::string> environment_of(const SpawnOptions& options) {
  std::vector<std::string> variables;
  for (char* const* ours = environ; *ours != nullptr; ++ours) {
    const auto replaced = [&](const auto& added) { return is_variable_named(*ours, added.first); };
    if (std::ranges::none_of(options.environment, replaced)) variables.emplace_back(*ours);
  }
  for (const auto& [name, value] : options.environment) {
    variables.push_back(name);
    variables.back().append("=").append(value);
  }
  return variables;
}

// Reads until the child has closed its output, or the time is over.
std::string read_until(int fd, TimePoint deadline, std::size_t max_output) {
  std::string text;
  for (std::array<char, 4096> chunk{};;) {
    pollfd polled{fd, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
    if (left.count() <= 0 || ::poll(&polled, 1, static_cast<int>(left.count())) <= 0) return text;
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got <= 0) return text;
    if (text.size() < max_output) text.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::vector<std::string> absolute_folders(std::string_view path) {
  std::vector<std::string> folders;
  while (!path.empty()) {
    const std::string folder(take_until(':', path));
    if (folder.starts_with('/') && std::ranges::find(folders, folder) == folders.end()) {
      folders.push_back(folder);
    }
  }
  return folders;
}

std::vector<std::string> program_folders() {
  auto folders = absolute_folders(environment_variable("PATH"));
  return folders.empty() ? absolute_folders("/usr/local/bin:/usr/bin:/bin") : folders;
}

namespace {

// Whether it is a link of the simulator to gpuyard. That only reads: a command that resets a GPU
// needs NVIDIA's own program.
bool is_simulated_nvidia_smi(const std::string& name, const std::string& path) {
  if (name != "nvidia-smi") return false;
  std::error_code failed;
  return std::filesystem::canonical(path, failed).filename() == "gpuyard";
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != name.npos) return name;
  int why = ENOENT;
  for (const std::string& folder : program_folders()) {
    std::string path = fmt::format("{}/{}", folder, name);
    struct stat info{};
    if (name.empty() || ::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    if (is_simulated_nvidia_smi(name, path)) continue;
    if (::access(path.c_str(), X_OK) == 0) return path;
    why = errno;
  }
  errno = why;
  return system_error("starting " + name);
}

std::vector<int> descriptors_for(const SpawnOptions& options, int null) {
  const bool keeps_stderr = options.inherit_stderr && ::fcntl(STDERR_FILENO, F_GETFD) >= 0;
  const int in_and_out = options.connection.value_or(null);
  std::vector<int> fds = {
      in_and_out, options.output.value_or(in_and_out),
      options.output.value_or(options.errors.value_or(keeps_stderr ? STDERR_FILENO : null))};
  fds.insert(fds.end(), options.passed_fds.begin(), options.passed_fds.end());
  return fds;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Error spawn_error(const SpawnOptions& options) {
  return system_error("starting " + path_of(options));
}

Result<ExecTexts> exec_texts(const SpawnOptions& options) {
  ExecTexts texts{options.program.empty() ? kThisProgram : options.program, command_line(options),
                  environment_of(options)};
  if (options.search_path && !options.program.empty()) {
    texts.program = GPUYARD_TRY(find_program(texts.program));
  }
  return texts;
}

Result<pid_t> spawn(const SpawnOptions& options) {
  const auto texts = GPUYARD_TRY(exec_texts(options));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return spawn_error(options);
  const auto copies = GPUYARD_TRY(copy_above(descriptors_for(options, null.get())));
  Actions actions;
  int next = 0;
  for (const UniqueFd& copy : copies) actions.duplicate(copy.get(), next++);
  actions.close_from(next);

  const Attributes attributes(options.new_session);
  const ChildCapabilities capabilities(options.capabilities);
  pid_t child = 0;
  errno = ::posix_spawn(&child, texts.program.c_str(), actions.get(), attributes.get(),
                        pointers_to(texts.arguments).data(), pointers_to(texts.variables).data());
  if (errno != 0) return spawn_error(options);
  return child;
}

Result<std::string> run_with_timeout(SpawnOptions options, Duration timeout,
                                     std::size_t max_output) {
  const TimePoint deadline = BootClock::now() + timeout;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error("a pipe");
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  options.output = writes.get();
  options.new_session = true;
  const auto child = GPUYARD_TRY(spawn(options));
  writes = UniqueFd();
  std::string text = read_until(reads.get(), deadline, max_output);
  // glibc has a wrapper for this system call only since 2.36.
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  pollfd ended{handle.get(), POLLIN, 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - BootClock::now());
  const bool late =
      ::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) <= 0;
  // A process that the kernel does not release, as in a call of a driver, is left behind.
  constexpr int kKillTimeoutMs = 200;  // milliseconds
  if (late) ::kill(-child, SIGKILL);
  const bool gone = !late || ::poll(&ended, 1, kKillTimeoutMs) > 0;
  int status = 0;
  if (gone) ::waitpid(child, &status, 0);
  text = trim(text);
  if (gone && WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  if (late) text += fmt::format(" (no response for {:g} s)", to_seconds(timeout));
  return Error{late ? Errc::timed_out : Errc::unavailable,
               text.empty() ? "it failed without a message" : text};
}

}  // namespace gpuyard
