#include "core/lease/lease_policy.h"

#include <poll.h>

namespace gpuyard::lease {

bool Caller::is_gone() const {
  if (!process) return false;
  pollfd poll_fd{process->get(), POLLIN, 0};
  return ::poll(&poll_fd, 1, 0) > 0;
}

}  // namespace gpuyard::lease
