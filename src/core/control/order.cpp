#include "control/order.h"

#include <fmt/format.h>

#include "base/record.h"

namespace gpuyard::control {
namespace {

struct KindOf {
  std::optional<SettingKind> operator()(const Put& put) const { return put.setting.kind; }
  std::optional<SettingKind> operator()(const ClearEcc&) const { return std::nullopt; }
  std::optional<SettingKind> operator()(const Reset&) const { return std::nullopt; }
  std::optional<SettingKind> operator()(const auto& job) const { return job.kind; }
};

struct TextOf {
  std::string operator()(const Put& put) const {
    return fmt::format("set {} to {}", enum_name(put.setting.kind), text_of(put.setting));
  }
  std::string operator()(const Restore& restore) const {
    return fmt::format("restore {}", restore.kind ? enum_name(*restore.kind) : "everything");
  }
  std::string operator()(const ClearEcc& clear) const {
    const bool recent = clear.counter == EccCounter::since_load;
    return fmt::format("clear {} ECC counters", recent ? "volatile" : "aggregate");
  }
  std::string operator()(const Reset&) const { return "reset"; }
  std::string operator()(const Expire& job) const { return of("end what expired of", job.kind); }
  std::string operator()(const Settle& job) const { return of("look after", job.kind); }
  std::string operator()(const Suspend& job) const { return of("put back", job.kind); }
  std::string operator()(const Reinstate& job) const { return of("roll back", job.kind); }

  static std::string of(std::string_view what, SettingKind kind) {
    return fmt::format("{} {}", what, enum_name(kind));
  }
};

}  // namespace

std::optional<SettingKind> kind_of(const Job& job) {
  return std::visit(KindOf{}, job);
}

std::string text_of(const Job& job) {
  return std::visit(TextOf{}, job);
}

}  // namespace gpuyard::control
