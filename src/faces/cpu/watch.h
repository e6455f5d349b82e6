// Reads CPU energy through a worker for whoever asks, and often enough that no counter goes round
// unseen. Lives on the io thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/worker.h"
#include "cpu/rapl.h"

namespace gpuyard::cpu {

class Watch {
 public:
  // The smallest counter we know of, of the memory of Intel's servers, goes round after 65.7 kJ: at
  // 2 kW that takes 33 s.
  static constexpr Duration kLookEvery = std::chrono::seconds(30);
  // So long is a reading waited for; sysfs takes far less, but other work of the worker may not.
  static constexpr Duration kPatience = std::chrono::seconds(1);
  // How often those who listen hear.
  static constexpr Duration kPeriod = std::chrono::milliseconds(100);
  static constexpr std::size_t kMostCallers = 1024;  // who wait for a reading at the same time

  using Answer = std::function<void(const Result<Energies>&)>;
  using Heard = std::function<void(const Energies&)>;

  // The worker outlives this.
  Watch(Loop&, Worker&, std::string root);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Looks now, and from now on every kLookEvery.
  void start();

  // The newest reading; at first one of no packages, which says that it was not read yet.
  const Energies& latest() const { return latest_; }

  // Reads once more. Answers in any case and never inside the call; Errc::timed_out after
  // kPatience, Errc::busy if too many wait. Those who ask while a reading is under way share the
  // next one.
  void fresh(Answer);

  // Hears every kPeriod for as long as it lives; the worker's delays make it rarer, not later. The
  // subscription may outlive this.
  Subscription listen(Heard);
  std::size_t listeners() const { return listeners_.size(); }

 private:
  void look();
  void poll();
  void ask();
  void hear(Energies);
  void give_up();
  static void tell(const std::vector<Answer>&, const Result<Energies>&);

  Loop& loop_;
  Worker& worker_;
  std::shared_ptr<Rapl> rapl_;  // touched on the worker's thread alone
  Energies latest_;
  bool asked_ = false;          // and nothing was heard yet
  std::vector<Answer> flight_;  // who wait for what was asked
  std::vector<Answer> next_;    // who came meanwhile
  std::map<std::uint64_t, Heard> listeners_;
  std::uint64_t next_listener_ = 1;
  Subscription patience_;
  Subscription look_timer_;
  Subscription poll_timer_;
  // Callbacks that come after the watch has gone find this empty.
  std::shared_ptr<Watch*> self_ = std::make_shared<Watch*>(this);
};

}  // namespace gpuyard::cpu
