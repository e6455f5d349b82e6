#include "store/lease_rows.h"

#include <concepts>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/json_reader.h"
#include "base/json_writer.h"
#include "store/rows.h"

namespace gpuyard::store {
namespace {

using lease::Lease;
using lease::Process;
using lease::Wish;

// Binds one parameter after the other.
class Writer {
 public:
  explicit Writer(Statement& statement) : statement_(statement) {}

  void text(std::string_view text) { statement_.bind(++at_, text); }
  void number(std::integral auto number) {
    statement_.bind(++at_, static_cast<std::int64_t>(number));
  }
  void moment(TimePoint point) { number(ns(point)); }
  void moment(WallTime wall) { number(ms(wall)); }
  void span(Duration span) { number(span.count()); }
  template <class T, class Put>
  void maybe(const std::optional<T>& value, Put&& put) {
    if (value) {
      put(*value);
    } else {
      statement_.bind_null(++at_);
    }
  }
  template <class T>
  void maybe_moment(const std::optional<T>& value) {
    maybe(value, [this](T moment) { this->moment(moment); });
  }
  void maybe_span(const std::optional<Duration>& value) {
    maybe(value, [this](Duration span) { this->span(span); });
  }

 private:
  Statement& statement_;
  int at_ = 0;
};

// Reads one column after the other, and remembers the first that makes no sense.
class LeaseReader {
 public:
  explicit LeaseReader(const Statement& row) : row_(row) {}

  std::string text() { return std::string(row_.text(at_++)); }
  template <std::integral T>
  T number() {
    const std::int64_t number = row_.integer(at_++);
    // A ticket or a fence has 64 bits, of which the column takes all.
    if (sizeof(T) < sizeof number && !std::in_range<T>(number)) fault("out of range");
    return static_cast<T>(number);
  }
  bool flag() {
    const auto value = number<std::int64_t>();
    if (value != 0 && value != 1) fault("neither 0 nor 1");
    return value == 1;
  }
  TimePoint point() { return point_of(number<std::int64_t>()); }
  WallTime wall() { return wall_of(number<std::int64_t>()); }
  Duration span() { return Duration(number<std::int64_t>()); }
  template <DescribedEnum E>
  E name() {
    const std::string text = this->text();
    const auto known = enum_from_name<E>(text);
    if (!known) fault(fmt::format("'{}' is not known here", text));
    return known.value_or(E{});
  }
  template <class T>
  T list() {
    auto read = json::from_json<T>(text());
    if (read) return *std::move(read);
    fault(read.error().message);
    return {};
  }
  template <class Read>
  auto maybe(Read&& read) -> std::optional<decltype(read())> {
    if (!row_.is_null(at_)) return read();
    ++at_;
    return std::nullopt;
  }
  void fault(std::string_view what) {
    if (fault_.empty()) fault_ = fmt::format("column {} of 'leases': {}", at_, what);
  }
  const std::string& fault() const { return fault_; }

 private:
  const Statement& row_;
  int at_ = 0;
  std::string fault_;
};

using Pairs = std::vector<std::vector<std::int64_t>>;

std::string text_of(const std::vector<Process>& processes) {
  Pairs pairs;
  for (const Process& process : processes) pairs.push_back({process.pid, ns(process.started)});
  return json::to_json(pairs);
}

std::vector<Process> processes_of(LeaseReader& reader) {
  std::vector<Process> processes;
  for (const auto& pair : reader.list<Pairs>()) {
    if (pair.size() != 2 || !std::in_range<std::uint32_t>(pair[0])) {
      reader.fault("no process is like that");
      break;
    }
    processes.push_back({static_cast<std::uint32_t>(pair[0]), point_of(pair[1])});
  }
  return processes;
}

void bind_wish(Writer& put, const Wish& wish) {
  put.number(wish.gpus);
  put.number(wish.min_free_bytes);
  put.text(wish.model);
  put.text(json::to_json(wish.among));
  put.maybe_span(wish.longest);
  put.maybe_span(wish.patience);
  put.text(enum_name(wish.binding));
  put.span(wish.ttl);
  put.text(wish.note);
}

Wish wish_of(LeaseReader& reader) {
  const auto span = [&] { return reader.span(); };
  Wish wish;
  wish.gpus = reader.number<unsigned>();
  wish.min_free_bytes = reader.number<std::int64_t>();
  wish.model = reader.text();
  wish.among = reader.list<std::vector<DeviceId>>();
  wish.longest = reader.maybe(span);
  wish.patience = reader.maybe(span);
  wish.binding = reader.name<lease::Binding>();
  wish.ttl = reader.span();
  wish.note = reader.text();
  return wish;
}

}  // namespace

void bind_lease(Statement& statement, const Lease& lease) {
  Writer put(statement);
  put.text(lease.id);
  put.number(lease.uid);
  put.text(enum_name(lease.state));
  put.maybe(lease.ending, [&](lease::Ending ending) { put.text(enum_name(ending)); });
  put.text(lease.why);
  put.number(lease.ticket);
  put.number(lease.fence);
  put.number(lease.passed);
  put.number(lease.overdue);
  put.text(json::to_json(lease.gpus));
  put.text(text_of(lease.processes));
  put.text(lease.boot_id);
  put.moment(lease.asked);
  put.moment(lease.granted);
  put.maybe_moment(lease.until);
  put.moment(lease.asked_wall);
  put.maybe_moment(lease.granted_wall);
  put.maybe_moment(lease.let_go_wall);
  put.maybe_moment(lease.ended_wall);
  bind_wish(put, lease.wish);
}

Result<Lease> lease_of(const Statement& row) {
  LeaseReader reader(row);
  const auto wall = [&] { return reader.wall(); };
  Lease lease;
  lease.id = reader.text();
  lease.uid = reader.number<std::uint32_t>();
  lease.state = reader.name<lease::State>();
  lease.ending = reader.maybe([&] { return reader.name<lease::Ending>(); });
  lease.why = reader.text();
  lease.ticket = reader.number<lease::Ticket>();
  lease.fence = reader.number<lease::Fence>();
  lease.passed = reader.number<unsigned>();
  lease.overdue = reader.flag();
  lease.gpus = reader.list<std::vector<DeviceId>>();
  lease.processes = processes_of(reader);
  lease.boot_id = reader.text();
  lease.asked = reader.point();
  lease.granted = reader.point();
  lease.until = reader.maybe([&] { return reader.point(); });
  lease.asked_wall = reader.wall();
  lease.granted_wall = reader.maybe(wall);
  lease.let_go_wall = reader.maybe(wall);
  lease.ended_wall = reader.maybe(wall);
  lease.wish = wish_of(reader);
  if (reader.fault().empty()) return lease;
  return Error{Errc::conflict, fmt::format("the lease {}: {}", lease.id, reader.fault())};
}

}  // namespace gpuyard::store
