// Callbacks that outlive their owner and do nothing then.
#pragma once

#include <memory>
#include <utility>

namespace gpuyard {

// Makes callbacks that do nothing once their owner is gone. Make it a member of the owner,
// preferably the last one. A guarded callback may be copied and dropped on any thread, and is
// called on the owner's thread.
class Lifetime {
 public:
  template <class Callback>
  auto guard(Callback callback) const {
    return [alive = weak_token(), callback = std::move(callback)](auto&&... arguments) {
      if (!alive.expired()) callback(std::forward<decltype(arguments)>(arguments)...);
    };
  }
  // The pointer expires with the owner; for callbacks of which only a part needs the owner.
  std::weak_ptr<const char> weak_token() const { return token_; }
  // Disables the callbacks before the owner ends.
  void end() { token_.reset(); }

 private:
  std::shared_ptr<const char> token_ = std::make_shared<const char>();
};

}  // namespace gpuyard
