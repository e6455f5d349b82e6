// The daemon's side of the driver-host, and of the setter: starts it, passes requests and replies,
// and starts another one when it ends. Thread: io, which it never blocks.
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "gpu/device/backend.h"
#include "gpu/driver/message.h"

namespace gpuyard::driver {

// Receives the host's messages. Thread: io.
class DriverHostListener {
 public:
  virtual ~DriverHostListener() = default;
  virtual void on_inventory(const Inventory&) = 0;
  virtual void on_no_driver(const Error&) = 0;  // the driver is tried again from time to time
  virtual void on_replies(const ReadReplies&) = 0;
  virtual void on_event(const DeviceEvent&) = 0;
  virtual void on_command_reply(const CommandReply&) = 0;
  virtual void on_host_down(const std::string& why) = 0;  // pending replies are lost
};

struct DriverHostProcess {
  pid_t pid = -1;   // -1: it is not a child of ours, and cannot be killed
  UniqueFd pidfd;   // may be empty in tests; one that is no child sends its own with Hello
  UniqueFd socket;  // SOCK_SEQPACKET
};

// Starts `gpuyard VERB ARGUMENTS...`: the driver-host or the setter.
Result<DriverHostProcess> spawn_host(const std::vector<std::string>& arguments,
                                     const std::string& verb = "driver-host");

// Names the process. A setter takes changes as records, answers pings, and has to be of this
// version of the program.
struct DriverHostKind {
  std::string name = "driver-host";
  bool is_setter = false;
  std::string version = {};
};

class DriverHostClient {
 public:
  using Spawn = std::function<Result<DriverHostProcess>()>;
  DriverHostClient(Loop&, Spawn, DriverHostListener&, DriverHostKind kind = {});
  ~DriverHostClient();
  DriverHostClient(const DriverHostClient&) = delete;
  DriverHostClient& operator=(const DriverHostClient&) = delete;

  void start();
  // Return false if there is no host now or it is too busy.
  bool read(const ReadRequests&);
  bool send_command(const CommandRequest&);
  // True: there is a host, or one that will have sent Hello or failed soon. False: there is none,
  // and the next one is started only after a while, or after resume().
  bool is_available_soon() const;
  // Starts the next host now if there is none and it would be started later.
  void start_now();

  // Ends the host and starts none until resume(), because a GPU that is to be reset must not be
  // open. Calls `on_paused` once, later: with success when the process is gone; with
  // Errc::timed_out if the driver has not released it, or an earlier host, within kExitTimeout;
  // with unavailable if resume() or another pause() came first. The client stays paused in every
  // case but resume().
  void pause(std::function<void(Result<void>)> on_paused);
  void resume();
  // Ends a host that answers and starts another; does nothing while there is none.
  void restart(const std::string& why);

  static constexpr Duration kHelloTimeout = std::chrono::seconds(15);  // a cold NVML takes seconds
  static constexpr Duration kExitTimeout = std::chrono::seconds(15);
  static constexpr Duration kMinRestartDelay = std::chrono::milliseconds(100);
  static constexpr Duration kMaxRestartDelay = std::chrono::seconds(10);
  // A host that answers no query for this long is stuck as a whole, and is ended.
  static constexpr Duration kSilenceTimeout = std::chrono::seconds(30);
  // The most hosts that were killed but do not end, stuck inside the driver. No host is started
  // beyond it.
  static constexpr std::size_t kMaxDeparting = 2;
  static constexpr Duration kImminentRestartDelay = std::chrono::seconds(1);

 private:
  // A killed host that still exists. Ends its watch before it closes its descriptor.
  struct DepartingHost {
    pid_t pid;
    UniqueFd pidfd;
    Subscription exit_subscription;
  };

  void on_readable();
  void take_descriptors(std::vector<UniqueFd>);
  bool take_indexes(const Inventory&);
  void handle(const Hello&);
  void handle(const ReadReplies&);
  void handle(const DeviceEvent&);
  void handle(const CommandReply&);
  void handle(const Pong&);
  void check_silence();
  void abandon_host(const std::string& why);
  void end_process();
  void reap(pid_t pid, int pidfd);
  void schedule_start(Duration delay);
  void notify_paused(Result<void>);

  Loop& loop_;
  Spawn spawn_;
  DriverHostListener& listener_;
  const DriverHostKind kind_;
  DriverHostProcess process_;
  std::vector<UniqueFd> change_sockets_;  // a setter's, by the index of the GPU
  std::map<DeviceId, std::uint32_t> indexes_;
  bool hello_received_ = false;
  TimePoint started_at_;
  TimePoint last_reply_at_;
  std::size_t pending_reads_ = 0;  // pending reads; commands do not count, as they may take long
  Duration restart_delay_ = kMinRestartDelay;
  bool paused_ = false;
  std::function<void(Result<void>)> on_paused_;  // called when a paused host has ended
  std::list<DepartingHost> departing_;
  Subscription readable_;
  Subscription watchdog_;  // ends a host that sends no Hello, or later no reply
  Subscription restart_timer_;
  TimePoint restart_at_;
  Subscription end_timer_;
};

}  // namespace gpuyard::driver
