// SPDX-License-Identifier: Apache-2.0
#include "predict/model_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>
#include <string>

#include "base/crc32.h"
#include "predict/test_golden.h"
#include "predict/test_model.h"

namespace llamalloc {
namespace {

class ModelFileTest : public testing::Test {
 protected:
  // What the reader says about a file of these bytes; empty: it took it.
  std::string read(const std::string& bytes) {
    MetadataArena arena(system_pages);
    std::vector<uint64_t> aligned(bytes.size() / 8 + 1);
    memcpy(aligned.data(), bytes.data(), bytes.size());
    char message[1024];
    ErrorText error(message, sizeof(message));
    model_ = {};
    const char* data = reinterpret_cast<const char*>(aligned.data());
    const bool good = read_model(data, bytes.size(), arena, &model_, error);
    EXPECT_NE(good, error.failed());
    EXPECT_EQ(good, message[0] == '\0') << message;
    return message;
  }
  std::string read(const TestModel& model) { return read(model.bytes()); }
  // With `from` replaced by `to` in the JSON header, padded to its old alignment.
  std::string read_with(const std::string& from, const std::string& to) {
    std::string header = file_.header();
    const size_t at = header.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    header.replace(at, from.size(), to);
    while (header.size() % 8 != 0) header += ' ';
    return read(file_.bytes(header));
  }

  void set_version(const std::string& version) { file_.metadata["version"] = version; }

  TestModel file_;
  Model model_;
};

TEST_F(ModelFileTest, ReadsAModel) {
  ASSERT_EQ(read(file_), "");
  EXPECT_EQ(model_.config.vocabulary, 5u);
  EXPECT_EQ(model_.config.embedding, 3u);
  EXPECT_EQ(model_.config.depths, 4u);
  EXPECT_EQ(model_.config.hidden, 5u);
  EXPECT_EQ(model_.config.classes, static_cast<uint32_t>(kLifetimeClasses));
}

TEST_F(ModelFileTest, TakesEscapesSpaceAndForeignMetadata) {
  EXPECT_EQ(read_with("\"size_bias\"", " \"\\u0073ize_bias\"\n"), "");
  EXPECT_EQ(read_with("\"rule\"", "\"notes\":\"" + std::string(100'000, 'n') + "\",\"rule\""), "");
}

TEST_F(ModelFileTest, ChecksTheSumOfItsTensors) {
  const std::string good = file_.bytes();
  const size_t start = 8 + file_.header().size();
  char sum[9];
  snprintf(sum, sizeof(sum), "%08x", crc32(0, good.data() + start, good.size() - start));
  file_.metadata["crc32"] = sum;
  EXPECT_EQ(read(file_), "");
  std::string damaged = file_.bytes();
  damaged[damaged.size() - 1] ^= 1;
  const std::string told = "its checksum is wrong: the file is damaged; train again";
  EXPECT_EQ(read(damaged), told);
  for (const std::string wrong : {"", "0", "00000000", "no sum at all"}) {
    file_.metadata["crc32"] = wrong;
    EXPECT_EQ(read(file_), told) << wrong;
  }
}

TEST_F(ModelFileTest, NamesWhatIsNoModel) {
  EXPECT_EQ(read(""), "not a safetensors file (0 bytes long)");
  EXPECT_EQ(read("hello, this is some text"), "not a safetensors file");
  EXPECT_EQ(read(std::string(1000, '\0')), "not a safetensors file");
  EXPECT_EQ(read(file_.bytes("[1, 2, 3]")), "not a safetensors file");
  EXPECT_EQ(read(std::string(1000, '\xFF')), "not a safetensors file");
  TestModel other;
  other.metadata.clear();
  EXPECT_EQ(read(other), "a safetensors file, but not a llamalloc-model");
}

TEST_F(ModelFileTest, NamesForeignVersionsAndClasses) {
  set_version("1");
  EXPECT_EQ(read(file_), "version 1, this library reads 3; train again");
  set_version("1\\n0");
  EXPECT_EQ(read(file_), "version 1?0, this library reads 3; train again");
  file_.metadata.erase("version");
  EXPECT_EQ(read(file_), "version missing, this library reads 3; train again");
  set_version("3");
  file_.metadata["classes"] = std::string("never,mixed");
  EXPECT_EQ(read(file_),
            "its lifetime classes (never,mixed) differ from this library's; train a new model");
  for (const std::string& wrong : {TestModel::classes() + ",", TestModel::classes().substr(1)}) {
    file_.metadata["classes"] = wrong;
    EXPECT_NE(read(file_), "") << wrong;
  }
}

// Its tensors have other names: that would be no help.
TEST_F(ModelFileTest, SaysToTrainAgainWhereTensorsAreOfAnotherVersion) {
  set_version("2");
  file_.tensor("size_bias").name = "lstm_bias";
  EXPECT_EQ(read(file_), "version 2, this library reads 3; train again");
}

TEST_F(ModelFileTest, RefusesEveryTruncation) {
  const std::string bytes = file_.bytes();
  const std::string total = std::to_string(bytes.size());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const std::string message = read(bytes.substr(0, length));
    ASSERT_NE(message, "") << length;
    if (length > 10) {
      ASSERT_TRUE(message.starts_with("truncated: header says ")) << message;
    }
  }
  EXPECT_EQ(
      read(bytes.substr(0, bytes.size() - 1)),
      "truncated: header says " + total + " bytes, file has " + std::to_string(bytes.size() - 1));
  EXPECT_EQ(read(bytes + "xy"), "2 bytes after the last tensor");
}

TEST_F(ModelFileTest, RefusesMissingUnknownAndRepeatedTensors) {
  for (const char* name :
       {"vocabulary", "embedding", "depth_scale", "hidden_kernel", "size_bias", "dense_bias"}) {
    TestModel model;
    model.remove(name);
    EXPECT_EQ(read(model), std::string("tensor `") + name + "` is missing");
  }
  TestModel model;
  model.tensors.push_back({"extra\\n", "F32", {1}, "1234"});
  EXPECT_EQ(read(model), "unknown tensor `extra?`");
  model.tensors.back() = model.tensor("size_bias");
  EXPECT_EQ(read(model), "tensor `size_bias` twice");
  EXPECT_EQ(read_with("\"size_bias\"", "\"size_bias\\u0000\""), "unknown tensor `size_bias`");
}

TEST_F(ModelFileTest, RefusesRepeatedMetadata) {
  EXPECT_EQ(read_with("\"version\"", "\"format\":\"llamalloc-model\",\"version\""),
            "metadata `format` twice");
  EXPECT_EQ(read_with("\"embedding\"", "\"__metadata__\":{},\"embedding\""),
            "`__metadata__` twice");
}

TEST_F(ModelFileTest, RefusesWrongTypesAndShapes) {
  file_.tensor("dense_bias").dtype = "F64";
  EXPECT_EQ(read(file_), "tensor `dense_bias` has type F64, not F32");
  file_ = TestModel();
  file_.tensor("embedding").shape = {3, 5};
  EXPECT_EQ(read(file_), "tensor `embedding` is 3 x 5, not 5 x 3");
  file_ = TestModel();
  file_.tensor("embedding").shape = {15};
  EXPECT_EQ(read(file_), "tensor `embedding` has 1 dimensions, not 2");
  file_ = TestModel();
  file_.tensor("dense_bias").shape = {8};
  EXPECT_EQ(read(file_), "tensor `dense_bias`: its shape needs 32 bytes, data_offsets give 36");
  const std::vector<std::string> least = {"<unk>", "@"};
  EXPECT_EQ(read(TestModel(least, 0, 5)), "embedding width 0, the limits are 1 and 512");
  EXPECT_EQ(read(TestModel(least, 3, 513)), "hidden width 513, the limits are 1 and 512");
  EXPECT_EQ(read(TestModel(least, 3, 5, 33)), "depth width 33, the limits are 1 and 32");
  EXPECT_EQ(read(TestModel(least, 512, 512, 32)), "");
}

TEST_F(ModelFileTest, RefusesShapesThatDisagree) {
  const std::pair<const char*, std::vector<uint64_t>> wrong[] = {
      {"embedding", {6, 3}},     {"embedding", {5, 4}},  {"hidden_kernel", {4, 5}},
      {"hidden_kernel", {3, 6}}, {"size_bias", {63, 5}}, {"size_bias", {64, 6}},
      {"dense_kernel", {5, 10}}, {"dense_bias", {10}},
  };
  for (const auto& [name, shape] : wrong) {
    TestModel model;
    TestTensor& tensor = model.tensor(name);
    tensor.shape = shape;
    tensor.data.resize((shape.size() == 2 ? shape[0] * shape[1] : shape[0]) * sizeof(float));
    EXPECT_TRUE(read(model).starts_with(std::string("tensor `") + name + "` is ")) << read(model);
  }
}

TEST_F(ModelFileTest, RefusesHugeNumbers) {
  EXPECT_EQ(read_with("[5,3]", "[4611686018427387904,3]"),
            "tensor `embedding`: its shape is too large");
  EXPECT_EQ(read_with("[5,3]", "[18446744073709551615,18446744073709551615]"),
            "tensor `embedding`: its shape is too large");
  EXPECT_EQ(read_with("[5,3]", "[4611686018427387919,1]"),
            "tensor `embedding`: its shape is too large");
  EXPECT_TRUE(read_with("[5,3]", "[99999999999999999999,3]").starts_with("malformed JSON header"));
  EXPECT_EQ(read_with("[0,60]", "[18446744073709551556,18446744073709551615]").substr(0, 50),
            "tensor `embedding`: its shape needs 60 bytes, data");
}

TEST_F(ModelFileTest, RefusesOverlapsGapsAndMisalignment) {
  EXPECT_EQ(read_with("[0,60]", "[60,0]"), "tensor `embedding`: bad data_offsets");
  EXPECT_EQ(read_with("[0,60]", "[0]"), "tensor `embedding`: bad data_offsets");
  EXPECT_EQ(read_with("[0,60]", "[4,64]"), "tensors `embedding` and `depth_scale` overlap");
  EXPECT_EQ(read_with("[0,60]", "[1,61]"), "tensor `embedding` is not aligned to 4 bytes");
  // 4 bytes behind a tensor belong to nobody.
  file_.tensor("depth_scale").data.resize(48 + 4);
  EXPECT_EQ(read_with("[60,112]", "[60,108]"), "a gap of 4 bytes between tensors");
}

TEST_F(ModelFileTest, RefusesMalformedHeaders) {
  const std::pair<const char*, const char*> edits[] = {
      {"\"shape\"", "\"shap\""},
      {"\"shape\":", "\"shape\""},
      {"\"dtype\":\"F32\",", ""},
      {"[5,3]", "[5,3,]"},
      {"[5,3]", "[5 3]"},
      {"[5,3]", "[5,-3]"},
      {"[5,3]", "[5,3.0]"},
      {"[5,3]", "[05,3]"},
      {"[5,3]", "[1,1,1,5,3]"},
      {"[5,3]", "[[5,3]]"},
      {"\"F32\"", "32"},
      {"\"F32\"", "\"F32\\q\""},
      {"}}", "}"},
      {"}}", "}}}"},
      {"}}", "},}"},
      {"\"rule\"", "rule"},
      {"\"tail\"", "1"},
      {"\"tail\"", "{\"a\":\"b\"}"},
      {"\"version\"", "\"classes\""},
      {"{\"__metadata__\"", "{,\"__metadata__\""},
      {"\"embedding\"", "\"__metadata__\""},
  };
  for (const auto& [from, to] : edits) EXPECT_NE(read_with(from, to), "") << from << " " << to;
}

TEST_F(ModelFileTest, RefusesWeightsThatAreNotFinite) {
  for (const float value : {NAN, INFINITY, -INFINITY}) {
    TestModel model;
    model.set_float("dense_kernel", 7, value);
    EXPECT_EQ(read(model), "tensor `dense_kernel`: element 7 is not a finite number");
  }
}

TEST_F(ModelFileTest, RefusesBadVocabularies) {
  EXPECT_EQ(read(TestModel({"<unk>", "@", "b", "@"})), "vocabulary: lines 1 and 3 are equal");
  EXPECT_EQ(read(TestModel({"a", "<unk>"})), "vocabulary: line 0 is not <unk>");
  EXPECT_EQ(read(TestModel({"<unk>", "a", "@"})), "vocabulary: line 1 is not @");
  TestModel model;
  model.tensor("vocabulary").data[model.tensor("vocabulary").data.find("\nfoo")] = '.';
  EXPECT_EQ(read(model), "tensor `embedding` is 5 x 3, not 4 x 3");
}

TEST_F(ModelFileTest, ChecksItsTables) {
  file_.set_table("exact", {3, 9, 11}, {8, '\x80', 0x7f});
  file_.set_table("name", {1, 2}, {'\x80', 0, 3, 8});
  EXPECT_EQ(read(file_), "");
  TestModel bad = file_;
  bad.set_table("exact", {3, 3}, {0, 0});
  EXPECT_EQ(read(bad), "tensor `exact_keys`: key 1 does not ascend");
  bad = file_;
  bad.set_table("exact", {3, 9}, {0, 9});
  EXPECT_EQ(read(bad), "tensor `exact_answers`: byte 1 is 9, no answer");
  bad = file_;
  bad.set_table("name", {3}, {0, 0x7f});
  EXPECT_EQ(read(bad), "tensor `name_answers`: byte 1 is 127, no answer");
  bad = file_;
  bad.set("name_samples", "U32", {1}, std::string(4, '\0'));
  EXPECT_EQ(read(bad), "tensor `name_samples` is 1 x 1, not 2 x 1");
  bad = file_;
  bad.set_floats("network_trust", {0, 1, 0.5, 1.5});
  EXPECT_EQ(read(bad), "tensor `network_trust`: element 3 is neither a share nor -1");
  bad = file_;
  bad.set_words("builds", std::vector<uint64_t>(65, 1));
  EXPECT_EQ(read(bad), "more than 64 builds");
}

// Damage of every kind: no crash (the sanitizers watch), and a message whenever it is refused.
TEST_F(ModelFileTest, SurvivesRandomDamage) {
  const std::string good = file_.bytes();
  std::minstd_rand random(7);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    for (int edits = 1 + random() % 4; edits > 0; --edits)
      bytes[random() % (random() % 2 ? 1200 : bytes.size())] = static_cast<char>(random());
    refused += !read(bytes).empty();
  }
  EXPECT_GT(refused, 10'000);
  for (int round = 0; round < 2'000; ++round) {
    std::string bytes(random() % 200, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_NE(read(bytes), "");
  }
}

TEST_F(ModelFileTest, OpensByPathAndNamesThePath) {
  MetadataArena arena(system_pages);
  char message[256];
  const std::string path = testing::TempDir() + "model_file_test." + std::to_string(getpid());
  std::ofstream(path, std::ios::binary) << file_.bytes();
  ModelFile file;
  ErrorText none(message, sizeof(message));
  EXPECT_TRUE(file.open(path.c_str(), arena, none)) << message;
  EXPECT_EQ(file.model().config.hidden, 5u);
  file.close();

  std::ofstream(path, std::ios::binary) << file_.bytes().substr(0, 100);
  ErrorText truncated(message, sizeof(message));
  EXPECT_FALSE(file.open(path.c_str(), arena, truncated));
  EXPECT_TRUE(std::string(message).starts_with("model " + path + ": truncated: header says "))
      << message;
  EXPECT_EQ(file.bytes(), 0u);
  unlink(path.c_str());

  ErrorText missing(message, sizeof(message));
  EXPECT_FALSE(file.open("/no/such.model", arena, missing));
  EXPECT_STREQ(message, "model /no/such.model: No such file or directory");
}

struct GoldenCase {
  std::vector<std::string> tokens;
  std::vector<uint32_t> ids;
  std::vector<double> probabilities;
};

GoldenCase read_case(GoldenReader& golden) {
  GoldenCase c;
  golden.expect('{');
  golden.key("tokens");
  c.tokens = golden.strings();
  golden.expect(',');
  golden.key("ids");
  c.ids = golden.list([&] { return static_cast<uint32_t>(golden.integer()); });
  golden.expect(',');
  golden.key("probabilities");
  c.probabilities = golden.list([&] { return golden.number(); });
  golden.expect('}');
  return c;
}

struct GoldenLookup {
  std::vector<uint64_t> codes;
  std::vector<std::string> frames;
  uint64_t size;
  std::string kind, lifetime;
  uint64_t network;
};

GoldenLookup read_lookup(GoldenReader& golden) {
  GoldenLookup c;
  golden.expect('{');
  golden.key("codes");
  c.codes = golden.list([&] { return golden.integer(); });
  golden.expect(',');
  golden.key("frames");
  c.frames = golden.strings();
  golden.expect(',');
  golden.key("size");
  c.size = golden.integer();
  golden.expect(',');
  golden.key("kind");
  c.kind = golden.string();
  golden.expect(',');
  golden.key("class");
  c.lifetime = golden.string();
  golden.expect(',');
  golden.key("network");
  c.network = golden.integer();
  golden.expect('}');
  return c;
}

void expect_found(const ModelEvidence& evidence, const GoldenLookup& c) {
  constexpr const char* kKinds[] = {"none", "exact", "name", "prior", "network"};
  std::vector<const char*> frames;
  for (const std::string& frame : c.frames) frames.push_back(frame.c_str());
  auto answer = evidence.find_exact(c.codes.data(), static_cast<int>(c.codes.size()), c.size);
  if (answer.kind == EvidenceKind::none) {
    NamesAsText stack(frames.data(), static_cast<int>(frames.size()));
    answer = evidence.find_named(stack, c.size);
    EXPECT_EQ(evidence.asks_network(answer), c.network != 0) << c.kind << c.size;
  }
  EXPECT_EQ(kKinds[static_cast<int>(answer.kind)], c.kind) << c.size;
  EXPECT_EQ(row(answer.lifetime).name, c.lifetime) << c.kind << c.size;
}

// The trainer's file, ids and probabilities: what both languages must agree on.
TEST(GoldenModel, GivesTheTrainersProbabilities) {
  MetadataArena arena(system_pages);
  char message[256];
  ErrorText error(message, sizeof(message));
  ModelFile file;
  ASSERT_TRUE(file.open(golden_path("model_v3.safetensors").c_str(), arena, error)) << message;
  BagOfFrames network;
  ASSERT_TRUE(network.init(file.model().config, file.model().weights, arena));
  GoldenReader golden("model_v3.json");
  golden.expect('{');
  golden.key("cases");
  const auto cases = golden.list([&] { return read_case(golden); });
  ASSERT_GE(cases.size(), 5u);
  for (const GoldenCase& c : cases) {
    std::vector<uint32_t> ids;
    for (const std::string& token : c.tokens)
      ids.push_back(
          file.model().vocabulary.id({token.data(), static_cast<uint32_t>(token.size()), false}));
    EXPECT_EQ(ids, c.ids);
    ids.pop_back();
    const uint32_t row = size_row(std::stoull(c.tokens.back().substr(1)));
    ASSERT_EQ(c.probabilities.size(), size_t{kLifetimeClasses});
    float probability[kLifetimeClasses];
    network.run(ids.data(), static_cast<uint32_t>(ids.size()), row, probability);
    for (int i = 0; i < kLifetimeClasses; ++i)
      EXPECT_NEAR(probability[i], c.probabilities[i], 1e-5) << c.tokens[0];
  }
  golden.expect(',');
  golden.key("lookups");
  const auto lookups = golden.list([&] { return read_lookup(golden); });
  ASSERT_GE(lookups.size(), 10u);
  for (const GoldenLookup& c : lookups) expect_found(file.model().evidence, c);
}

TEST(GoldenModel, SaysWhatItsProgramsProved) {
  MetadataArena arena(system_pages);
  char message[256];
  ErrorText error(message, sizeof(message));
  ModelFile file;
  ASSERT_TRUE(file.open(golden_path("model_v3.safetensors").c_str(), arena, error)) << message;
  EXPECT_STREQ(file.model().evidence.gate, "1,0,500,3,50,350,420,1650,0,4294967295,0,0,0");
}

TEST(GoldenModel, IsOfItsProgramAndBuild) {
  using Origin = ModelEvidence::Origin;
  const uint64_t builds[] = {5, 7};
  ModelEvidence evidence;
  EXPECT_EQ(evidence.origin("any", 1), Origin::this_build);
  evidence.builds = builds;
  evidence.build_count = 2;
  snprintf(evidence.programs, sizeof(evidence.programs), "redis-server,mariadbd");
  EXPECT_EQ(evidence.origin("renamed", 7), Origin::this_build);
  EXPECT_EQ(evidence.origin("mariadbd", 8), Origin::other_build);
  EXPECT_EQ(evidence.origin("redis-server", 0), Origin::other_build);
  EXPECT_EQ(evidence.origin("redis", 8), Origin::other_program);
  EXPECT_EQ(evidence.origin("server", 8), Origin::other_program);
}

}  // namespace
}  // namespace llamalloc
