#include "daemon/reload.h"

#include <utility>

#include "daemon/serve.h"

namespace gpuyard::daemon {
namespace {

Result<Reload::Fresh> read(const Reload::Reread& reread, const config::Config::Control& control) {
  auto config = reread();
  if (!config) return std::move(config).error();
  config::Config then = *config;
  then.control = control;
  if (auto valid = check(then); !valid) return std::move(valid).error();
  auto alerts = read_alerts(then);
  if (!alerts) return std::move(alerts).error();
  return Reload::Fresh{*std::move(config), *std::move(alerts)};
}

}  // namespace

Reload::Reload(Worker& worker, Reread reread, config::Config::Control control, Hear hear)
    : worker_(worker),
      reread_(std::move(reread)),
      control_(std::move(control)),
      hear_(std::move(hear)) {}

void Reload::begin() {
  if (!reread_) return;
  if (reading_) {
    again_ = true;
    return;
  }
  reading_ = ask_worker(
      worker_, [reread = reread_, control = control_] { return read(reread, control); },
      [weak = std::weak_ptr(self_)](Result<Fresh> fresh) {
        if (const auto self = weak.lock()) (*self)->on_read(std::move(fresh));
      });
  if (!reading_) hear_(Error{Errc::busy, "too much waits for the disk; send SIGHUP again"});
}

void Reload::on_read(Result<Fresh> fresh) {
  reading_ = false;
  hear_(std::move(fresh));
  if (std::exchange(again_, false)) begin();
}

}  // namespace gpuyard::daemon
