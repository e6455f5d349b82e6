// The answer to /api/gpu/queue. A short queue is rendered for each request. A long one is rendered
// a few times a second for all viewers who see the same, a few rows in each turn of the loop, so
// that no client can keep the loop busy. Thread: io.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/loop.h"
#include "faces/api/lease_view.h"

namespace gpuyard::api {

class QueueRenderer : public std::enable_shared_from_this<QueueRenderer> {
 public:
  using Text = std::shared_ptr<const std::string>;
  using OnRendered = std::function<void(const Text&)>;

  // The loop and the facts outlive this.
  QueueRenderer(Loop& loop, const LeaseFacts& facts) : loop_(loop), facts_(facts) {}

  // Calls `on_rendered` inside the call, or in a later turn of the loop.
  void render(const Viewer&, OnRendered on_rendered);

  // Up to kMaxUncachedClaims waiting claims are rendered for each request; with more, an answer is
  // reused for kPageLifetime.
  static constexpr std::size_t kMaxUncachedClaims = 64;
  static constexpr Duration kPageLifetime = std::chrono::milliseconds(250);
  static constexpr std::size_t kRowsPerTurn = limits::kMaxRowsPerTurn;
  // The most waiting claims that are shown.
  static constexpr std::size_t kMaxShownClaims = 1000;

 private:
  // A waiting claim, as users other than its owner see it.
  struct Row {
    std::string lease;
    std::uint32_t uid = 0;
    lease::QueuePosition position;
    std::string for_local;  // for local viewers, who see process numbers
    std::string for_tcp;
  };
  // The answer for all viewers who see the same; text is null until it is rendered.
  struct Page {
    Viewer viewer;
    Text text;
    std::vector<OnRendered> callbacks;
  };
  // The waiting claims at one moment, in order.
  struct QueueSnapshot {
    TimePoint at;
    std::vector<Row> rows;
    std::map<std::string, Page> pages;  // by key_of()
  };
  struct RenderJob {
    std::shared_ptr<QueueSnapshot> snapshot;
    Page* page;
    std::string rows;
    std::size_t next = 0;
  };

  std::shared_ptr<QueueSnapshot> take_snapshot() const;
  std::string key_of(const QueueSnapshot&, const Viewer&) const;
  void add_row(Row&, const Viewer&, std::string& rows) const;
  void run_job();
  void finish_job(const RenderJob&);

  Loop& loop_;
  const LeaseFacts& facts_;
  std::shared_ptr<QueueSnapshot> newest_;
  std::deque<RenderJob> jobs_;
};

}  // namespace gpuyard::api
