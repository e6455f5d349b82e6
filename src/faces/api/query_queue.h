// Queries of clients to the disk. They wait in Context::queries, where quota groups take turns.
// Thread: io.
#pragma once

#include <functional>
#include <utility>

#include "base/result.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"
#include "faces/api/responder.h"

namespace gpuyard::api {

// Queries the disk in the caller's turn. `submit` passes the query on with a callback for the
// result, and returns false if the disk's queue is full; `on_result` then gets the result. The
// responder gets the refusal: Errc::busy, if too much waits in one of the two queues.
template <class T, class Answer>
void enqueue_query(FairQueue& queries, const RouteCall& call, const Responder<Answer>& respond,
                   std::function<bool(std::function<void(Result<T>)>)> submit,
                   std::function<void(const Result<T>&)> on_result) {
  const auto begin = [respond, submit = std::move(submit),
                      on_result = std::move(on_result)](const std::function<void()>& on_done) {
    const bool accepted = submit([on_result, on_done](const Result<T>& answer) {
      on_result(answer);
      on_done();
    });
    if (accepted) return;
    respond(Error{Errc::busy, "the disk queue is full; try again"});
    on_done();
  };
  if (!queries.try_enqueue(requester_of(call), begin)) respond(too_many_queries());
}

}  // namespace gpuyard::api
