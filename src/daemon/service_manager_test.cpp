#include "daemon/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include <gtest/gtest.h>

#include "base/manual_loop_for_tests.h"
#include "base/scratch_directory_for_tests.h"

namespace gpuyard::daemon {
namespace {

using std::chrono::seconds;

// A worker that can hang, and whose queue can be full.
class FakeWorker final : public Worker {
 public:
  explicit FakeWorker(Loop& loop) : loop_(loop) {}

  bool post(Task job) override {
    if (full) return false;
    if (!hangs) loop_.post(job());
    return true;
  }

  bool hangs = false;
  bool full = false;

 private:
  Loop& loop_;
};

// A service manager that collects the messages.
class FakeServiceManager {
 public:
  FakeServiceManager() : fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path(), address.sun_path);
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }

  std::string path() const { return place_.path() + "/notify"; }

  // Returns the messages since the previous call, with blanks between them.
  std::string take_messages() {
    std::string all;
    std::array<char, 1024> text{};
    for (ssize_t size = 0; (size = ::recv(fd_.get(), text.data(), text.size(), 0)) > 0;) {
      all.append(all.empty() ? "" : " ").append(text.data(), static_cast<std::size_t>(size));
    }
    return all;
  }

 private:
  ScratchDirectory place_;
  UniqueFd fd_;
};

class Watchdog : public testing::Test {
 protected:
  Watchdog() {
    told_.start_watchdog(loop_, worker_);
    EXPECT_EQ(manager_.take_messages(), "WATCHDOG=1");
  }

  FakeServiceManager manager_;
  ManualLoop loop_;
  FakeWorker worker_{loop_};
  ServiceManager told_{manager_.path(), seconds(40)};
};

TEST(ServiceManager, ReadyAndStoppingAreNotified) {
  FakeServiceManager manager;
  const ServiceManager service_manager(manager.path());
  service_manager.notify_ready("8 GPUs");
  EXPECT_EQ(manager.take_messages(), "READY=1\nSTATUS=8 GPUs");
  service_manager.notify_stopping();
  EXPECT_TRUE(manager.take_messages().starts_with("STOPPING=1\n"));
}

TEST_F(Watchdog, PingsFourTimesPerWatchdogTimeout) {
  loop_.advance(seconds(9));
  EXPECT_EQ(manager_.take_messages(), "");
  loop_.advance(seconds(21));
  EXPECT_EQ(manager_.take_messages(), "WATCHDOG=1 WATCHDOG=1 WATCHDOG=1");
}

TEST_F(Watchdog, HungWorkerStopsPings) {
  worker_.hangs = true;
  loop_.advance(seconds(100));
  EXPECT_EQ(manager_.take_messages(), "");
}

TEST_F(Watchdog, PingsAgainAfterQueueDrains) {
  worker_.full = true;
  loop_.advance(seconds(20));
  EXPECT_EQ(manager_.take_messages(), "");
  worker_.full = false;
  loop_.advance(seconds(10));
  EXPECT_EQ(manager_.take_messages(), "WATCHDOG=1");
}

TEST(ServiceManager, EnvironmentIsReadAndRemoved) {
  FakeServiceManager manager;
  ::setenv("NOTIFY_SOCKET", manager.path().c_str(), 1);
  ::setenv("WATCHDOG_USEC", "40000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);  // another process's
  ManualLoop loop;
  FakeWorker worker(loop);
  ServiceManager service_manager = ServiceManager::of_environment();
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    EXPECT_EQ(std::getenv(name), nullptr) << name;
  }
  service_manager.start_watchdog(loop, worker);
  service_manager.notify_ready("x");
  EXPECT_EQ(manager.take_messages(), "READY=1\nSTATUS=x");
}

TEST(ServiceManager, MissingManagerIsIgnored) {
  ManualLoop loop;
  FakeWorker worker(loop);
  for (const std::string socket : {"", "/nowhere/notify", "@gpuyard-test-nobody"}) {
    ServiceManager service_manager(socket, seconds(40));
    service_manager.notify_ready("x");
    service_manager.start_watchdog(loop, worker);
    loop.advance(seconds(100));
    service_manager.notify_stopping();
  }
}

}  // namespace
}  // namespace gpuyard::daemon
