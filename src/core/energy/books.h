// What is kept of energy between two lives of the daemon, and who keeps it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "energy/window.h"

namespace gpuyard::energy {

struct KeptAccount {
  std::string uuid;
  AccountState state;

  friend bool operator==(const KeptAccount&, const KeptAccount&) = default;
};

struct Books {
  std::vector<KeptAccount> accounts;
  std::vector<Window> windows;

  friend bool operator==(const Books&, const Books&) = default;
};

// What has changed since the books were last kept.
struct Changes {
  bool everything = false;  // windows that are not among `now` are gone
  Books now;
  std::vector<std::string> ended;  // ids of windows
};

// Lives on the io thread, and does its work elsewhere. What is asked for first is done first.
// False, and nothing happens: too much waits already. A callback never runs inside the call it was
// given to.
class Archive {
 public:
  virtual ~Archive() = default;
  virtual bool load(std::function<void(Result<Books>)> loaded) = 0;
  // Tells when it is on the disk, or why not.
  virtual bool save(Changes, std::function<void(const Result<void>&)> saved) = 0;
  // What is wrong with it, for people; empty when all is well.
  virtual std::vector<std::string> notes() const = 0;
};

}  // namespace gpuyard::energy
