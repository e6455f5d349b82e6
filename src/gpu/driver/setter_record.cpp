#include "gpu/driver/setter_record.h"

#include <algorithm>
#include <string_view>

#include "base/record.h"

namespace gpuyard::driver {
namespace {

template <class E>
bool has_number(std::uint8_t number) {
  bool known = false;
  boost::mp11::mp_for_each<boost::describe::describe_enumerators<E>>(
      [&](auto entry) { known = known || static_cast<std::uint8_t>(entry.value) == number; });
  return known;
}

Error not_change_error() {
  return {Errc::invalid, "the record is not a change of a setting"};
}

// A name that is not padded with NUL to its end is no name.
std::string gpu_of(const SetterRecord& record) {
  const auto* const end = std::ranges::find(record.gpu, '\0');
  const bool padded = std::all_of(end, record.gpu.end(), [](char c) { return c == '\0'; });
  std::string gpu(record.gpu.begin(), end);
  const bool printable =
      std::ranges::all_of(gpu, [](char c) { return c > ' ' && static_cast<signed char>(c) > 0; });
  return padded && printable ? gpu : std::string();
}

}  // namespace

Result<SetterRecord> record_of(const CommandRequest& request) {
  SetterRecord record;
  record.id = request.id;
  record.received_ns = request.received.time_since_epoch().count();
  record.puts_back = request.puts_back ? 1 : 0;
  if (request.device.empty() || request.device.size() > record.gpu.size())
    return not_change_error();
  std::ranges::copy(request.device, record.gpu.begin());
  if (const auto* const clear = std::get_if<ClearEcc>(&request.command)) {
    record.action = SetterRecord::Action::clear_ecc;
    record.counter = static_cast<std::uint8_t>(clear->counter);
    return record;
  }
  const auto* const apply = std::get_if<Apply>(&request.command);
  if (apply == nullptr || apply->expected.size() > SetterRecord::kMaxExpected) {
    return not_change_error();
  }
  record.action = SetterRecord::Action::apply;
  record.setting = static_cast<std::uint8_t>(apply->setting.kind);
  record.has_value = apply->setting.value ? 1 : 0;
  const SettingValue value = apply->setting.value.value_or(SettingValue{});
  record.lowest = value.lowest;
  record.highest = value.highest;
  for (const SettingValue& one : apply->expected) {
    record.expected.at(record.expected_count++) = {one.lowest, one.highest};
  }
  return record;
}

Result<CommandRequest> request_of(const SetterRecord& record) {
  CommandRequest request;
  request.id = record.id;
  request.device = gpu_of(record);
  request.received = TimePoint(Duration(record.received_ns));
  request.puts_back = record.puts_back == 1;
  const bool flags = record.puts_back <= 1 && record.has_value <= 1;
  if (request.device.empty() || !flags) return not_change_error();
  if (record.action == SetterRecord::Action::clear_ecc && has_number<EccCounter>(record.counter)) {
    request.command = ClearEcc{static_cast<EccCounter>(record.counter)};
    return request;
  }
  if (record.action != SetterRecord::Action::apply || !has_number<SettingKind>(record.setting) ||
      record.expected_count > SetterRecord::kMaxExpected) {
    return not_change_error();
  }
  Apply apply;
  apply.setting.kind = static_cast<SettingKind>(record.setting);
  if (record.has_value == 1) apply.setting.value = SettingValue{record.lowest, record.highest};
  for (std::size_t i = 0; i < record.expected_count; ++i) {
    apply.expected.push_back({record.expected.at(i)[0], record.expected.at(i)[1]});
  }
  request.command = std::move(apply);
  return request;
}

Result<void> send_record(int socket, const SetterRecord& record, Wait wait) {
  const std::string_view bytes(reinterpret_cast<const char*>(&record), sizeof(record));
  return send_bytes(socket, bytes, {}, wait);
}

Result<SetterRecord> receive_record(int socket, Wait wait) {
  SetterRecord record;
  const auto length =
      receive_bytes(socket, reinterpret_cast<char*>(&record), sizeof(record), nullptr, wait);
  if (!length) return length.error();
  if (*length == sizeof(record) && record.format_version == SetterRecord::kFormatVersion)
    return record;
  return Error{Errc::invalid, "the record is not of this version"};
}

}  // namespace gpuyard::driver
