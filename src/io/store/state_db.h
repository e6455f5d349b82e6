// A file that must survive a power cut: state.db, usage.db. Its one owner on a worker's thread:
// opens it, brings its layout up to date, and puts a corrupt one aside. Rooms add tables by a step
// in state_layout.h.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/local_disk.h"
#include "store/sqlite.h"

namespace gpuyard::store {

// Between a corrupt one's name and when it was put aside.
inline constexpr std::string_view kPutAside = ".corrupt-";

class StateDb {
 public:
  // Runs inside a transaction.
  using Work = std::function<Result<void>(Database&)>;

  // The steps of state_layout.h that lead to what is in it; they outlive all.
  using Layout = std::span<const char* const>;

  // A disk that corrupts one after the other must not fill with them.
  static constexpr std::size_t kMostPutAside = 4;

  // Whether a directory is a place for it.
  using Place = std::function<Result<void>(const std::string& directory)>;

  StateDb(std::string path, Layout layout, Place place = &check_local)
      : path_(std::move(path)), layout_(layout), place_(std::move(place)) {}

  // All works in one transaction: the first error undoes them all, and is the answer. The database
  // is then closed and opened anew at the next call, because what it holds is no longer certain.
  Result<void> commit(std::span<const Work> works, Durability = Durability::full);

  // Where corrupt ones were put, in sentences.
  const std::vector<std::string>& put_aside() const { return put_aside_; }

 private:
  Result<void> open();
  Result<void> open_or_put_aside();
  Result<void> put_aside(const Error& why);

  std::string path_;
  Layout layout_;
  Place place_;
  std::optional<Database> database_;
  std::vector<std::string> put_aside_;
};

}  // namespace gpuyard::store
