// The settings that an earlier daemon stored, read at the start, and the requests that wait for
// them.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/lifetime.h"
#include "base/loop.h"
#include "core/control/audit.h"
#include "core/control/change_collector.h"
#include "core/control/change_request.h"
#include "core/control/managed_setting.h"

namespace gpuyard::control {

// Thread: io.
class StoredSettings {
 public:
  static constexpr Duration kLoadRetryDelay = std::chrono::seconds(5);
  // Requests right after the start wait this long for the stored state, and at most so many.
  static constexpr Duration kLoadTimeout = std::chrono::seconds(5);
  static constexpr std::size_t kMaxEarlyRequests = 64;

  struct Listener {
    std::function<void(std::vector<ManagedSetting>)> on_loaded;  // once
    std::function<void(const ChangeRequest&, const ChangeCollector::OnChanges&)> submit;
  };

  // The loop and the storage outlive it.
  StoredSettings(Loop& loop, ControlStorage& storage, Listener listener)
      : loop_(loop), storage_(storage), listener_(std::move(listener)) {}

  // Reads the settings, again and again until it succeeds.
  void start();
  // Keeps a request until the first read has ended. Returns false if it need not wait, or cannot.
  bool hold(const ChangeRequest&, const ChangeCollector::OnChanges&);
  // Submits the requests that wait. Later ones no longer wait for the disk.
  void release();

  bool is_loaded() const { return loaded_; }
  // Why the last read failed; nothing if it did not.
  const std::optional<Error>& error() const { return error_; }

 private:
  void load();
  void on_loaded(Result<std::vector<ManagedSetting>>);

  Loop& loop_;
  ControlStorage& storage_;
  const Listener listener_;
  bool loaded_ = false;
  std::optional<Error> error_;
  std::vector<std::pair<ChangeRequest, ChangeCollector::OnChanges>> early_requests_;
  bool holds_requests_ = true;
  Subscription early_timer_;
  Subscription load_timer_;
  Lifetime lifetime_;
};

}  // namespace gpuyard::control
