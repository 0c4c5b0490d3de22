// SPDX-License-Identifier: Apache-2.0
// What the gate keeps can be read again, and a load that does not come back leaves nothing behind.
#include <algorithm>

#include "learning/test_gate.h"

namespace llamalloc {
namespace {

Load of_size(size_t mib) {
  Load load;
  load.peak = mib * kMiB;
  return load;
}

// Predictions fail at high load: what is placed then dies later than they said.
void fail_at_high_load(Server& server, size_t mib) {
  for (uint32_t i = 0; i < Gate::kWrongSteps; ++i)
    server.feed({.held = mib * kMiB, .live = mib * kMiB, .late = 0.9});
}

// Its own load is much smaller than that of the runs before, so it measured nothing of theirs.
TEST(GateKeptTest, WhatFailsUnderASmallerLoadCanBeReadAgain) {
  Server server = next_run({});
  server.run({}, 40);
  ASSERT_EQ(server.gate.kept().verdict, GateVerdict::helps);
  server.run(of_size(256), kHour);
  ASSERT_TRUE(server.gate.is_on());
  fail_at_high_load(server, 256);
  ASSERT_EQ(server.gate.kept().verdict, GateVerdict::mistaken);
  server.run(of_size(256), 22);
  EXPECT_TRUE(server.gate.kept().is_valid());
}

TEST(GateKeptTest, WhateverHappensItCanBeReadAgain) {
  std::mt19937 random(7);
  const auto any = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int walk = 0; walk < 300; ++walk) {
    Server server = any(1) == 0 ? next_run({}) : Server();
    for (int i = 0; i < 60; ++i) {
      const size_t mib = size_t{64} << any(5);
      Load load = any(2) == 0 ? useless() : of_size(mib);
      load.peak = mib * kMiB;
      load.high = 3 + any(40), load.low = 3 + any(40), load.noise = any(3) * 0.05;
      load.time = any(9) == 0 ? 0.9 : 0;
      server.run(load, 1 + any(300));
      if (any(4) == 0) fail_at_high_load(server, mib);
      ASSERT_TRUE(server.gate.kept().is_valid()) << walk << " " << i;
    }
  }
}

// A database that recovers when it starts, and then never again takes so much. What troughs pin
// then is reason enough, as in a process that has just begun.
TEST(GateKeptTest, AfterALoadThatDoesNotComeBackItBeginsAnew) {
  Server server;
  server.run(of_size(10 * 1024), 20);
  ASSERT_TRUE(server.gate.is_armed());
  server.run(of_size(4 * 1024), kHour);
  EXPECT_NE(server.gate.kept().verdict, GateVerdict::untried);
  EXPECT_NEAR(server.gate.kept().peak, 4 * 1024, 100);
  EXPECT_TRUE(server.gate.is_late() || server.gate.is_on()) << server.sentence();
}

// The file has room for 64 GiB.
TEST(GateKeptTest, WhatItSavesOfTheLargestHeapsIsNotCutOff) {
  for (const size_t gib : {8, 512}) {
    Load load = of_size(gib * 1024);
    load.blind = {0.05, 0.5};
    Server server = next_run(load);
    load.time = 0.1;
    server.run(load, kHour);
    EXPECT_TRUE(server.gate.is_on()) << server.sentence();
    EXPECT_EQ(server.gate.kept().verdict, GateVerdict::helps);
    EXPECT_NEAR(static_cast<double>(server.gate.saved()), 0.4 * static_cast<double>(load.peak),
                0.02 * static_cast<double>(load.peak));
  }
}

}  // namespace
}  // namespace llamalloc
