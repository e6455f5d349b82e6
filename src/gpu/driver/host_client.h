// The daemon's side of the driver-host: starts it, passes requests and answers, and starts another
// when it ends. Lives on the io thread; never blocks.
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "device/backend.h"
#include "driver/message.h"

namespace gpuyard::driver {

// What comes of it, told on the io thread.
class HostListener {
 public:
  virtual ~HostListener() = default;
  virtual void on_fleet(const Fleet&) = 0;
  virtual void on_no_driver(const Error&) = 0;  // asked again from time to time
  virtual void on_reply(const ReadReply&) = 0;
  virtual void on_event(const DeviceEvent&) = 0;
  virtual void on_command_reply(const CommandReply&) = 0;
  virtual void on_host_down(const std::string& why) = 0;  // answers under way are lost
};

struct HostProcess {
  pid_t pid = -1;
  UniqueFd pidfd;   // may be empty in tests
  UniqueFd socket;  // SOCK_SEQPACKET
};

// Starts `gpuyard driver-host ARGUMENTS...`.
Result<HostProcess> spawn_host(const std::vector<std::string>& arguments);

class HostClient {
 public:
  using Spawn = std::function<Result<HostProcess>()>;

  HostClient(Loop&, Spawn, HostListener&);
  ~HostClient();
  HostClient(const HostClient&) = delete;
  HostClient& operator=(const HostClient&) = delete;

  void start();
  // False: no host at present, or it is too busy to take it.
  bool read(const ReadRequest&);
  bool command(const CommandRequest&);

  // Ends the host and starts none until resume(): a GPU that is to be reset must not be open.
  // `ended` is told once, later: the process is gone; or Errc::timed_out, because the driver has
  // not let go of it, or of an earlier one, within kEndDeadline; or unavailable, because resume()
  // or another pause() came first. It stays paused in any case.
  void pause(std::function<void(Result<void>)> ended);
  void resume();

  static constexpr Duration kHelloDeadline = std::chrono::seconds(15);  // a cold NVML takes seconds
  static constexpr Duration kEndDeadline = std::chrono::seconds(15);
  static constexpr Duration kFirstDelay = std::chrono::milliseconds(100);
  static constexpr Duration kLongestDelay = std::chrono::seconds(10);
  // A host that leaves every question unanswered for so long is stuck as a whole.
  static constexpr Duration kSilence = std::chrono::seconds(30);
  // Hosts that were killed and will not go: stuck inside the driver. No more are added to them.
  static constexpr std::size_t kMaxDeparting = 2;

 private:
  // A host that was killed and is not gone yet. Ends its watch before its descriptor.
  struct Departing {
    pid_t pid;
    UniqueFd pidfd;
    Subscription gone;
  };

  void on_readable();
  void handle(const Hello&);
  void handle(const ReadReply&);
  void handle(const DeviceEvent&);
  void handle(const CommandReply&);
  void check_silence();
  void give_up(const std::string& why);
  void end_process();
  void reap(pid_t);
  void start_later(Duration delay);
  void tell_ended(Result<void>);

  Loop& loop_;
  Spawn spawn_;
  HostListener& listener_;
  HostProcess process_;
  bool greeted_ = false;
  TimePoint started_;
  TimePoint last_heard_;
  std::size_t questions_ = 0;  // out since the host started; of commands, which may take long, none
  Duration delay_ = kFirstDelay;
  bool paused_ = false;
  std::function<void(Result<void>)> ended_;  // waits for the end of a paused host
  std::list<Departing> departing_;
  Subscription readable_;
  Subscription hello_timer_;
  Subscription silence_timer_;
  Subscription restart_timer_;
  Subscription end_timer_;
};

}  // namespace gpuyard::driver
