// The answer to /api/gpu/queue. Where few wait it is made anew each time; where many do, a few
// times a second for all who see the same, so that nobody keeps the loop busy by asking. Lives on
// the io thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/lease_view.h"

namespace gpuyard::api {

class QueueText {
 public:
  // So many are made anew each time; so long is what was made of more told again.
  static constexpr std::size_t kFew = 64;
  static constexpr Duration kToldAgain = std::chrono::milliseconds(250);
  // Of those that wait so many are shown.
  static constexpr std::size_t kMostShown = 1000;

  std::shared_ptr<const std::string> of(Context&, const Viewer&);

 private:
  // One that waits, as its owner's strangers see it.
  struct Row {
    std::string lease;
    std::uint32_t uid = 0;
    lease::Outlook outlook;
    std::string for_local;  // who is told process numbers
    std::string for_tcp;
  };

  void look(Context&);
  std::string render(Context&, const Viewer&) const;

  std::optional<TimePoint> looked_;
  std::vector<Row> rows_;
  std::map<std::string, std::shared_ptr<const std::string>> told_;  // by who sees the same
};

}  // namespace gpuyard::api
