// An order whose turn has come, on one GPU: the steps from the first question until it is over.
#pragma once

#include <functional>
#include <memory>

#include "base/loop.h"
#include "control/archive.h"
#include "control/hands.h"
#include "control/order.h"

namespace gpuyard::control {

// How a command ended.
struct Heard {
  CommandReply reply;
  // False: the driver-host went down meanwhile; what was to be written may be, or not.
  bool certain = true;

  std::optional<Error> error() const {
    return reply.failure ? std::optional(reply.failure->error()) : std::nullopt;
  }
};

// What a turn may use: the GPU's desk. A callback never runs inside the call it was given to, and
// none runs after the turn is over.
class Table {
 public:
  virtual ~Table() = default;
  virtual Loop& loop() = 0;
  virtual const std::string& boot_id() const = 0;
  virtual const DeviceInfo& gpu() const = 0;
  virtual const Holding* holding(SettingKind) const = 0;

  virtual void command(Command, std::function<void(const Heard&)> then) = 0;
  // To the disk, and then into memory: nothing of it is there if that fails.
  virtual void hold(const Holding&, std::function<void(const Result<void>&)> then) = 0;
  // Into memory at once, and to the disk as soon as it can be: for what has happened already.
  virtual void note(const Holding&, When = When::now) = 0;
  // The same of one that nobody needs any more.
  virtual void forget(SettingKind) = 0;
  // Tries again in a while: see Settle.
  virtual void settle_later(SettingKind) = 0;
  virtual void reset(bool dry_run, std::function<void(const Result<void>&)> then) = 0;
  // The last call: the turn is gone when it returns. Without a change there is nothing to tell.
  virtual void over(std::optional<Change>) = 0;
};

class Turn {
 public:
  virtual ~Turn() = default;
  virtual void begin() = 0;
};

// `order` and the table outlive it.
std::unique_ptr<Turn> make_turn(Table&, const Order&);

}  // namespace gpuyard::control
