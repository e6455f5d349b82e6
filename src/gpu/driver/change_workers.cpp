#include "gpu/driver/change_workers.h"

#include <sys/socket.h>

#include <utility>

#include "base/helper_socket.h"
#include "base/try.h"
#include "gpu/driver/command_workers.h"
#include "gpu/driver/setter_record.h"
#include "gpu/driver/worker_thread.h"

namespace gpuyard::driver {

class ChangeWorkers::Worker final : public WorkerThread {
 public:
  Worker(std::shared_ptr<Backend> backend, std::uint32_t index, UniqueFd socket, Executor executor,
         OnReply on_reply, OnInvalid on_invalid)
      : WorkerThread(std::move(backend)),
        index_(index),
        socket_(std::move(socket)),
        executor_(std::move(executor)),
        on_reply_(std::move(on_reply)),
        on_invalid_(std::move(on_invalid)) {}

  void stop_receiving() {
    begin_stop();
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

 private:
  void work() REQUIRES(mutex_) override {
    while (!stopping_) {
      const auto record =
          call_driver([&](Backend&) { return receive_record(socket_.get(), Wait::yes); });
      if (stopping_ || (!record && record.error().code == Errc::unavailable)) return;
      const auto request = record ? request_of(*record) : Result<CommandRequest>(record.error());
      if (!request) return notify([&] { on_invalid_(request.error()); });
      const CommandReply reply =
          call_driver([&](Backend& backend) { return executor_(backend, index_, *request); });
      notify([&] { on_reply_(reply); });
    }
  }

  const std::uint32_t index_;
  const UniqueFd socket_;
  const Executor executor_;
  const OnReply on_reply_;
  const OnInvalid on_invalid_;
};

Result<std::unique_ptr<ChangeWorkers>> ChangeWorkers::start(const std::shared_ptr<Backend>& backend,
                                                            std::uint32_t gpu_count,
                                                            const Executor& executor,
                                                            const OnReply& on_reply,
                                                            const OnInvalid& on_invalid) {
  std::unique_ptr<ChangeWorkers> workers(new ChangeWorkers);
  for (std::uint32_t index = 0; index < gpu_count; ++index) {
    auto pair = GPUYARD_TRY(make_socket_pair());
    workers->workers_.push_back(std::make_shared<Worker>(backend, index, std::move(pair.ours),
                                                         executor, on_reply, on_invalid));
    workers->sockets_.push_back(std::move(pair.theirs));
  }
  for (const auto& worker : workers->workers_) WorkerThread::start(worker);
  return workers;
}

ChangeWorkers::~ChangeWorkers() {
  for (const auto& worker : workers_) worker->stop_receiving();
  const TimePoint deadline = BootClock::now() + CommandWorkers::kShutdownGrace;
  for (const auto& worker : workers_) worker->wait_stopped(deadline);
}

}  // namespace gpuyard::driver
