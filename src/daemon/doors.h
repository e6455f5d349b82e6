// The addresses and sockets besides the daemon's main ones. Each is opened alone: one that cannot
// be had keeps no other shut, and is tried again until it can.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/loop.h"
#include "base/result.h"

namespace gpuyard::daemon {

// Lives on the io thread.
class Doors {
 public:
  static constexpr Duration kAgain = std::chrono::seconds(5);

  // Returns where it listens, for people.
  using Open = std::function<Result<std::string>()>;
  // The name of each door that is closed, and why.
  using Closed = std::map<std::string, std::string>;

  // Calls `opened` for each door, inside add() or later.
  Doors(Loop& loop, std::function<void(const std::string& place)> opened)
      : loop_(loop), opened_(std::move(opened)) {}
  Doors(const Doors&) = delete;
  Doors& operator=(const Doors&) = delete;

  // Opens a door now, or as soon as it can be. `name` is its key of the configuration and its
  // address.
  void add(const std::string& name, Open open);
  const Closed& closed() const { return closed_; }
  // Opens no more.
  void stop();

 private:
  void try_again();
  void try_one(const std::string& name, const Open& open);

  Loop& loop_;
  const std::function<void(const std::string& place)> opened_;
  std::map<std::string, Open> waiting_;  // closed ones
  Closed closed_;
  Subscription again_;
};

}  // namespace gpuyard::daemon
