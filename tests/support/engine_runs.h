// Requests on an engine, one after the other.
#ifndef CHIMERE_TESTS_SUPPORT_ENGINE_RUNS_H_
#define CHIMERE_TESTS_SUPPORT_ENGINE_RUNS_H_

#include <gtest/gtest.h>

#include <utility>

#include "engine/engine.h"

namespace chimere::test {

/// The outcome of a request. What an idle engine does is left to be done.
inline engine::Outcome ask(engine::Engine& engine, engine::Request request) {
  engine::Outcome outcome;
  request.on_finish = [&outcome](engine::Outcome o) { outcome = std::move(o); };
  const auto submitted = engine.submit(std::move(request));
  EXPECT_TRUE(submitted.ok()) << submitted.error().message;
  while (!engine.idle()) engine.step();
  return outcome;
}

/// Lets an idle engine do all that it does.
inline void run_idle(engine::Engine& engine) {
  while (engine.step()) {
  }
}

}  // namespace chimere::test

#endif  // CHIMERE_TESTS_SUPPORT_ENGINE_RUNS_H_
