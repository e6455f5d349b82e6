// A route as both ends of the wire know it: the daemon binds a handler to it, the client calls it.
// Knows no socket and no handler.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <boost/describe.hpp>

#include "base/result.h"
#include "core/auth/token.h"

namespace gpuyard::protocol {

// The errors of most routes, besides those that every route has.
inline constexpr std::array kNotFound = {Errc::not_found};
inline constexpr std::array kUnavailable = {Errc::unavailable};
inline constexpr std::array kNotFoundOrUnavailable = {Errc::not_found, Errc::unavailable};
inline constexpr std::array kConflictOrUnavailable = {Errc::conflict, Errc::unavailable};
inline constexpr std::array kNotFoundBusyOrUnavailable = {Errc::not_found, Errc::busy,
                                                          Errc::unavailable};
inline constexpr std::array kNotFoundConflictOrUnavailable = {Errc::not_found, Errc::conflict,
                                                              Errc::unavailable};

using auth::Scope;

// The part of a route that a token of some GPUs gets.
enum class GpuScope : std::uint8_t {
  none,   // the route is about no GPU: all of it
  some,   // its own GPUs, as if there were no others
  whole,  // nothing: the route is about the machine as a whole, and cannot be divided
};

// The format of an answer that is also there as a table.
enum class TextFormat : std::uint8_t { json, csv };
BOOST_DESCRIBE_ENUM(TextFormat, json, csv)

// The place of an error's text: {"error": {"code", "message"}}, or {"detail": message} where a
// contract fixed that.
enum class ErrorShape { standard, detail };

// The writer of a change's line in the audit.
enum class AuditWriter : std::uint8_t {
  router,   // the Router after each success, unless the handler reports that nothing changed
  control,  // control, for each GPU, with the values before and after
  none,     // none: the change is in the records of leases and jobs, or is a repeated report
};

// A row of the one table of authority: what the route needs of its caller (scope), over what it may
// be called (local), and what becomes of it for a token of some GPUs (gpus). api/principal.h says
// what each caller has.
struct RouteInfo {
  std::string_view method;
  std::string_view pattern;  // "/api/gpu/devices/{id}"; a {name} is a field of the parameters
  std::string_view tag;
  Scope scope = Scope::read;
  GpuScope gpus = GpuScope::whole;
  std::string_view summary;
  // For the description: errors besides those of all routes (400 for bad parameters, 403, 405).
  std::span<const Errc> failures = {};
  int status = 200;  // of success
  // The content type of "format=csv", which a client may also ask for with Accept.
  std::string_view csv = {};
  std::string_view produces = "application/json";
  // A header field that is a parameter; its name in the record is in lower case: last_event_id for
  // "Last-Event-ID".
  std::string_view header_field = {};
  // Another content type of the same answer, for a client whose Accept field prefers it.
  std::string_view also_produces = {};
  ErrorShape errors = ErrorShape::standard;
  int also_answers_with = 0;  // another status than `status` whose body is the answer
  // The scope "lease" is enough for a holder of the GPUs; the handler checks the lease.
  bool for_holders = false;
  bool local = false;  // only over the Unix socket, whose peer the kernel knows
  // Parameters of the query are no error though the route has none: a Prometheus job may have its
  // own for every target.
  bool ignores_query = false;
  // For routes other than GET with the scope control or a higher one. In other routes, the handler
  // reports the changes that need a line: those by an administrator to another user's lease.
  AuditWriter audit = AuditWriter::router;

  bool is_audited() const {
    return method != "GET" && scope >= Scope::control && audit == AuditWriter::router;
  }
};

struct NoBody {};
BOOST_DESCRIBE_STRUCT(NoBody, (), ())

// Params, Answer and Body are records (base/record.h): they give validation, the OpenAPI text and
// both directions of JSON. A path or query parameter the record does not have is an error, and so
// is a field of the body. A body whose fields are all optional may be left out.
template <class Params, class Answer, class Body = NoBody>
struct Route : RouteInfo {};

struct NoParams {};
BOOST_DESCRIBE_STRUCT(NoParams, (), ())

// An answer that is no record: already rendered, with its own content type.
struct Text {
  std::string content_type;
  std::shared_ptr<const std::string> body;
};

}  // namespace gpuyard::protocol
