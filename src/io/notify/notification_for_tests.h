// A notification as the tests of this folder want it.
#pragma once

#include <string>
#include <utility>

#include "io/notify/notification.h"

namespace gpuyard::notify {

// 2026-01-31T12:00:00.250Z
inline constexpr WallTime kNoon{std::chrono::milliseconds(1'769'860'800'250)};

inline Notification hot_gpu(std::string id = "n-1") {
  Notification notice;
  notice.id = std::move(id);
  notice.key = "hot/GPU-3";
  notice.rule = "hot";
  notice.severity = 85;
  notice.level = level_of(notice.severity);
  notice.message = "GPU 3 is at 91 °C, threshold 80 °C";
  notice.advice = "Look at its fans.";
  notice.gpu = NotificationGpu{3, "GPU-3", "00000000:3B:00.0", "NVIDIA H100 80GB HBM3"};
  notice.host = "node7";
  notice.started_at = kNoon;
  return notice;
}

inline Notification about(std::string key, std::string id, Status status = Status::firing) {
  Notification notice = hot_gpu(std::move(id));
  notice.key = std::move(key);
  notice.status = status;
  return notice;
}

inline Notification cool_again(std::string id = "n-2") {
  Notification notice = hot_gpu(std::move(id));
  notice.status = Status::resolved;
  notice.ended_at = kNoon + std::chrono::minutes(5);
  return notice;
}

}  // namespace gpuyard::notify
