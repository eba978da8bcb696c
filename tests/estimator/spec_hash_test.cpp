#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "estimator/spec/calibration.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/sha256.h"
#include "tests/support/samples.h"

namespace planwright {
namespace {

TEST(SpecHash, Sha256GivesThePublishedDigests) {
  // FIPS 180-4 examples (NIST, "Example Algorithms: SHA-256") and lengths around the padding.
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(sha256_hex(std::string(55, 'a')),
            "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
  EXPECT_EQ(sha256_hex(std::string(64, 'a')),
            "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
}

TEST(SpecHash, HashesStayTheSameFromReleaseToRelease) {
  EXPECT_EQ(problem_hash(testing::sample_problem()),
            "f127d6f22c39092b232a2ac8684f903275375ceea676072768438c0e5cf74dbe");
  EXPECT_EQ(candidate_hash(testing::sample_candidate()), "3b471c9beb14");
  EXPECT_EQ(candidate_hash(Candidate{}), "44136fa355b3");  // of "{}"
  EXPECT_EQ(problem_hash(Problem{}),
            "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
}

TEST(SpecHash, ADefaultThatIsSpelledOutChangesNothing) {
  Problem problem = testing::sample_problem();
  const std::string before = problem_hash(problem);
  problem.workload.headroom.fraction = 0.05;
  const std::string with_default = problem_hash(problem);
  EXPECT_NE(with_default, before);
  problem.workload.headroom = Headroom{.fraction = Headroom{}.fraction, .bytes = Bytes{1 << 30}};
  EXPECT_EQ(problem_hash(problem), with_default);

  Candidate candidate;
  candidate.dp = 4;
  Candidate spelled = candidate;
  spelled.tp = 1, spelled.sp = false, spelled.schedule = Schedule::one_f_one_b;
  EXPECT_EQ(candidate_hash(spelled), candidate_hash(candidate));
}

TEST(SpecHash, NamesOfFilesAndWordsAboutSourcesChangeNothing) {
  Problem problem = testing::sample_problem();
  const std::string before = problem_hash(problem);
  problem.model.name = "the same model in another folder";
  problem.cluster.device.source = "the same data sheet, second edition";
  EXPECT_EQ(problem_hash(problem), before);
  Calibration calibration = testing::sample_calibration();
  const std::string id = calibration_id(calibration);
  calibration.coefficients[0].source = "the same, with a page number";
  EXPECT_EQ(calibration_id(calibration), id);
  EXPECT_EQ(id.size(), 12U);
}

TEST(SpecHash, WhatChangesTheProblemChangesItsHash) {
  const std::function<void(Problem&)> kChanges[] = {
      [](Problem& p) { p.model.hidden = 512; },
      [](Problem& p) { p.model.runs[1].count = 3; },
      [](Problem& p) { p.model.runs[0].block.qkv_bias = false; },
      [](Problem& p) { p.cluster.device.memory += Bytes{1}; },
      [](Problem& p) { p.cluster.links[0].latency = Seconds{3e-6}; },
      [](Problem& p) { p.cluster.nodes = 1; },
      [](Problem& p) { p.workload.seq = 1024; },
      [](Problem& p) { p.workload.recipe.master.reset(); },
      [](Problem& p) { p.target = "another"; },
      [](Problem& p) { p.target_version = "1.2.4"; },
      [](Problem& p) { p.traits_revision = 8; },
  };
  std::set<std::string> hashes{problem_hash(testing::sample_problem())};
  for (const auto& change : kChanges) {
    Problem problem = testing::sample_problem();
    change(problem);
    EXPECT_TRUE(hashes.insert(problem_hash(problem)).second) << hashes.size();
  }
}

TEST(SpecHash, CapacityIsTheMemoryLessTheHeadroom) {
  const struct {
    std::int64_t memory;
    Headroom headroom;
    std::int64_t capacity;
  } kCases[] = {
      {1000, {.fraction = 0.05, .bytes = {}}, 950},
      {1001, {.fraction = 0.05, .bytes = {}}, 950},  // the headroom is kept free, to the byte
      {1000, {.fraction = 0.0, .bytes = Bytes{300}}, 700},
      {1000, {.fraction = 0.1, .bytes = Bytes{300}}, 600},
      {1000, {.fraction = 0.5, .bytes = Bytes{501}}, 0},
  };
  for (const auto& c : kCases) {
    Problem problem;
    problem.cluster.device.memory = Bytes{c.memory};
    problem.workload.headroom = c.headroom;
    EXPECT_EQ(capacity(problem).value, c.capacity);
  }
}

TEST(SpecHash, AccumulationCountsTheMicroBatchesOfOneRank) {
  Problem problem;
  problem.workload.global_batch = 48;
  Candidate candidate;
  EXPECT_EQ(accumulation(problem, candidate), 48);
  candidate.dp = 3;
  candidate.micro_batch = 4;
  EXPECT_EQ(accumulation(problem, candidate), 4);
  candidate.micro_batch = 5;
  EXPECT_EQ(accumulation(problem, candidate), 3);
}

}  // namespace
}  // namespace planwright
