// The answer to /api/gpu/queue. A short queue is rendered for each request. A long one is rendered
// a few times a second for all viewers who see the same, a few rows in each turn of the loop, so
// that no client can keep the loop busy. Lives on the io thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/limits.h"
#include "faces/api/lease_view.h"

namespace gpuyard::api {

class QueueRenderer : public std::enable_shared_from_this<QueueRenderer> {
 public:
  using Text = std::shared_ptr<const std::string>;
  using Told = std::function<void(const Text&)>;

  // The context outlives this.
  explicit QueueRenderer(Context& context) : context_(context) {}

  void ask(const Viewer&, Told told);

  // Up to kFew waiting claims are rendered for each request; with more, an answer is reused for
  // kToldAgain.
  static constexpr std::size_t kFew = 64;
  static constexpr Duration kToldAgain = std::chrono::milliseconds(250);
  static constexpr std::size_t kRowsAtOnce = shares::kQueueRows;
  // How many waiting claims are shown.
  static constexpr std::size_t kMostShown = 1000;

 private:
  // A waiting claim, as users other than its owner see it.
  struct Row {
    std::string lease;
    std::uint32_t uid = 0;
    lease::Outlook outlook;
    std::string for_local;  // for local viewers, who see process numbers
    std::string for_tcp;
  };
  // The answer for all viewers who see the same; text is null until it is rendered.
  struct Page {
    Viewer viewer;
    Text text;
    std::vector<Told> asked;
  };
  // The waiting claims at one moment, in order.
  struct Look {
    TimePoint at;
    std::vector<Row> rows;
    std::map<std::string, Page> pages;  // by key_of()
  };
  struct Job {
    std::shared_ptr<Look> look;
    Page* page;
    std::string rows;
    std::size_t next = 0;
  };

  std::shared_ptr<Look> look_now() const;
  std::string key_of(const Look&, const Viewer&) const;
  void add_row(Row&, const Viewer&, std::string& rows) const;
  void work();
  void tell(const Job&);

  Context& context_;
  std::shared_ptr<Look> newest_;
  std::deque<Job> jobs_;
};

}  // namespace gpuyard::api
