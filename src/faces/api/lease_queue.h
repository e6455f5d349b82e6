// The answer to /api/gpu/queue. Where few wait it is made anew each time; where many do, a few
// times a second for all who see the same, and a few rows in each turn of the loop, so that nobody
// keeps it busy by asking. Lives on the io thread.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/lease_view.h"
#include "base/shares.h"

namespace gpuyard::api {

class QueueText : public std::enable_shared_from_this<QueueText> {
 public:
  using Text = std::shared_ptr<const std::string>;
  using Told = std::function<void(const Text&)>;

  // The context outlives this.
  explicit QueueText(Context& context) : context_(context) {}

  void ask(const Viewer&, Told told);

  // So many are made anew each time; so long is what was made of more told again.
  static constexpr std::size_t kFew = 64;
  static constexpr Duration kToldAgain = std::chrono::milliseconds(250);
  static constexpr std::size_t kRowsAtOnce = shares::kQueueRows;
  // Of those that wait so many are shown.
  static constexpr std::size_t kMostShown = 1000;

 private:
  // One that waits, as its owner's strangers see it.
  struct Row {
    std::string lease;
    std::uint32_t uid = 0;
    lease::Outlook outlook;
    std::string for_local;  // who is told process numbers
    std::string for_tcp;
  };
  // The answer for all who see the same; text is null until it is made.
  struct Page {
    Viewer viewer;
    Text text;
    std::vector<Told> asked;
  };
  // Who waited at one moment, in what order.
  struct Look {
    TimePoint at;
    std::vector<Row> rows;
    std::map<std::string, Page> pages;  // by who sees the same
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
