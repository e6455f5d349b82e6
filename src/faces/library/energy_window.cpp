#include "library/energy_window.h"

#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "base/clock.h"
#include "base/log.h"

namespace gpuyard::library {

struct EnergyWindow::State {
  State(const Monitor& of, Duration patience)
      : monitor(of), deadline(patience), ledger(boot_id()) {}
  ~State() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    changed.notify_all();
    if (reader.joinable()) reader.join();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  Snapshot read() const { return monitor.inventory(deadline, energy::kEnergyProbes); }

  void read_until_the_end() {
    std::unique_lock lock(mutex);
    while (!changed.wait_for(lock, kReadEvery, [&] { return ending; })) {
      lock.unlock();
      const Snapshot now = read();
      lock.lock();
      ledger.observe(now);
    }
  }

  const Monitor& monitor;
  const Duration deadline;
  std::mutex mutex;
  std::condition_variable changed;
  energy::Ledger ledger;
  std::string id;
  bool ending = false;
  std::thread reader;
};

Result<EnergyWindow> EnergyWindow::begin(const Monitor& monitor, const energy::WindowWish& wish,
                                         Duration deadline) {
  auto state = std::make_unique<State>(monitor, deadline);
  auto id = state->ledger.begin(wish, state->read());
  if (!id) return std::move(id).error();
  state->id = *std::move(id);
  try {
    state->reader = std::thread([raw = state.get()] { raw->read_until_the_end(); });
  } catch (const std::system_error& none) {
    return Error{Errc::unavailable,
                 fmt::format("no thread to measure energy with: {}", none.what())};
  }
  return EnergyWindow(std::move(state));
}

EnergyWindow::EnergyWindow(std::unique_ptr<State> state) : state_(std::move(state)) {}
EnergyWindow::EnergyWindow(EnergyWindow&&) noexcept = default;
EnergyWindow& EnergyWindow::operator=(EnergyWindow&&) noexcept = default;
EnergyWindow::~EnergyWindow() = default;

EnergyMark EnergyWindow::mark() const {
  const Snapshot now = state_->read();
  const std::lock_guard lock(state_->mutex);
  energy::Ledger& ledger = state_->ledger;
  ledger.observe(now);
  const energy::WindowResult result = *ledger.result(state_->id, now.taken);
  EnergyMark mark{protocol::energy_window_of(result, now)};
  for (const energy::GpuResult& gpu : result.gpus) {
    const auto booked = ledger.booked(gpu.uuid, result.window.simulated);
    if (booked) mark.estimated_mj += booked->estimated_mj;
  }
  return mark;
}

void PendingReply::Slot::deliver(const CommandReply& answer) {
  std::unique_lock lock(mutex);
  if (left) {
    lock.unlock();
    return log::error("Failed to send response to caller");
  }
  reply = answer;
  lock.unlock();
  changed.notify_all();
}

PendingReply::PendingReply(std::shared_ptr<Slot> slot) : slot_(std::move(slot)) {}
PendingReply::PendingReply(PendingReply&&) noexcept = default;

PendingReply& PendingReply::operator=(PendingReply&& other) noexcept {
  if (this == &other) return *this;
  leave();
  slot_ = std::move(other.slot_);
  return *this;
}

PendingReply::~PendingReply() {
  leave();
}

void PendingReply::leave() {
  if (!slot_) return;
  const std::lock_guard lock(slot_->mutex);
  slot_->left = true;
}

Result<CommandReply> PendingReply::wait(Duration at_most) {
  std::unique_lock lock(slot_->mutex);
  if (slot_->taken) return Error{Errc::invalid, "this command's answer was taken already"};
  if (!slot_->changed.wait_for(lock, at_most, [&] { return slot_->reply.has_value(); })) {
    return Error{Errc::timed_out, fmt::format("the GPU has not done it within {} ms; it may still",
                                              to_milliseconds(at_most))};
  }
  slot_->taken = true;
  if (slot_->reply->failure) return slot_->reply->failure->error();
  return *slot_->reply;
}

}  // namespace gpuyard::library
