// SPDX-License-Identifier: Apache-2.0
// For tests: model files made in memory, right by default, with every part open to damage.
//
//   TestModel model;            a valid one: 5 tokens, E = 3, H = 5, weights from a fixed seed
//   model.metadata["version"] = "2";
//   std::string bytes = model.bytes();
#pragma once

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/lifetime_class.h"

namespace llamalloc {

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string data;
};

class TestModel {
 public:
  explicit TestModel(std::vector<std::string> vocabulary = {"<unk>", "@", "main", "foo", "#16"},
                     uint64_t E = 3, uint64_t H = 5) {
    const uint64_t V = vocabulary.size(), C = kLifetimeClasses;
    metadata = {{"format", "llamalloc-model"},
                {"version", "1"},
                {"classes", classes()},
                {"rule", "tail"},
                {"created_by", "llamalloc test"}};
    const std::string lines = joined(vocabulary, "\n");
    add("embedding", {V, E});
    add("lstm_kernel", {E + H, 4 * H});
    add("lstm_bias", {4 * H});
    add("dense_kernel", {H, C});
    add("dense_bias", {C});
    tensors.push_back({"vocabulary", "U8", {lines.size()}, lines});
  }

  static std::string classes() {
    std::vector<std::string> names;
    for (const LifetimeClassRow& row : kLifetimeClassRows) names.push_back(row.name);
    return joined(names, ",");
  }

  TestTensor& tensor(const std::string& name) {
    for (TestTensor& tensor : tensors)
      if (tensor.name == name) return tensor;
    return tensors.at(tensors.size());
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
  }
  void set_float(const std::string& name, size_t index, float value) {
    memcpy(&tensor(name).data[index * sizeof(float)], &value, sizeof(float));
  }

  // The JSON header as a writer would make it, tensors laid out in their order.
  std::string header() const {
    std::vector<std::string> pairs, members;
    for (const auto& [key, value] : metadata) pairs.push_back(quoted(key) + ':' + quoted(value));
    members.push_back(quoted("__metadata__") + ":{" + joined(pairs, ",") + '}');
    size_t offset = 0;
    for (const TestTensor& tensor : tensors) {
      members.push_back(quoted(tensor.name) + ':' + description(tensor, offset));
      offset += tensor.data.size();
    }
    std::string json(1, '{');
    json += joined(members, ",") + '}';
    json.resize((json.size() + 7) / 8 * 8, ' ');
    return json;
  }
  std::string bytes() const { return bytes(header()); }
  std::string bytes(const std::string& json) const {
    const uint64_t length = json.size();
    std::string file(reinterpret_cast<const char*>(&length), 8);
    file += json;
    for (const TestTensor& tensor : tensors) file += tensor.data;
    return file;
  }

  std::map<std::string, std::string> metadata;
  std::vector<TestTensor> tensors;

 private:
  static std::string joined(const std::vector<std::string>& parts, const char* separator) {
    std::string text;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) text += separator;
      text += parts[i];
    }
    return text;
  }
  static std::string quoted(const std::string& text) {
    std::string result(1, '"');
    result += text;
    return result += '"';
  }
  static std::string description(const TestTensor& tensor, size_t offset) {
    std::vector<std::string> shape;
    for (uint64_t n : tensor.shape) shape.push_back(std::to_string(n));
    std::string text("{\"dtype\":");
    text += quoted(tensor.dtype) + ",\"shape\":[" + joined(shape, ",") + "],\"data_offsets\":[";
    return text +=
           std::to_string(offset) + ',' + std::to_string(offset + tensor.data.size()) + "]}";
  }
  void add(const std::string& name, std::vector<uint64_t> shape) {
    uint64_t count = 1;
    for (uint64_t n : shape) count *= n;
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random_() % 2001) / 1000.0f - 1.0f;
    const auto* raw = reinterpret_cast<const char*>(values.data());
    tensors.push_back({name, "F32", std::move(shape), {raw, count * sizeof(float)}});
  }
  std::minstd_rand random_{42};
};

}  // namespace llamalloc
