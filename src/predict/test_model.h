// SPDX-License-Identifier: Apache-2.0
// For tests: model files made in memory, right by default, with every part open to damage.
//
//   TestModel model;            a valid one: 5 tokens, E = 3, H = 5, D = 4, weights from a fixed
//   seed model.metadata["version"] = "4"; std::string bytes = model.bytes();
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
                     uint64_t E = 3, uint64_t H = 5, uint64_t D = 4) {
    const uint64_t V = vocabulary.size(), C = kLifetimeClasses;
    metadata = {{"format", "llamalloc-model"},
                {"version", "3"},
                {"classes", classes()},
                {"rule", "tail"},
                {"created_by", "llamalloc test"}};
    const std::string lines = joined(vocabulary, "\n");
    add("embedding", {V, E});
    add("depth_scale", {D, E});
    add("hidden_kernel", {E, H});
    add("size_bias", {64, H});
    add("dense_kernel", {H, C});
    add("dense_bias", {C});
    tensors.push_back({"vocabulary", "U8", {lines.size()}, lines});
    set_table("exact", {}, "");
    set_table("name", {}, "");
    set_floats("table_trust", {1, 1});
    set_floats("prior_trust", {1, 1, 1, 1});
    set_floats("network_trust", {1, 1, 1, 1});
    set_words("builds", {});
  }

  // Sorted keys; of `name` two bytes each: answer and prior.
  void set_table(const std::string& table, const std::vector<uint64_t>& keys,
                 const std::string& answers) {
    set_words(table + "_keys", keys);
    std::vector<uint64_t> shape{keys.size()};
    if (table == "name") shape.push_back(2);
    set(table + "_answers", "U8", shape, answers);
    set(table + "_samples", "U32", {keys.size()}, std::string(4 * keys.size(), '\1'));
  }
  void set_words(const std::string& name, const std::vector<uint64_t>& words) {
    set(name, "U64", {words.size()},
        {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t)});
  }
  void set_floats(const std::string& name, const std::vector<float>& values) {
    set(name, "F32", {values.size()},
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  void set(const std::string& name, const std::string& dtype, std::vector<uint64_t> shape,
           std::string data) {
    remove(name);
    const size_t width = dtype == "U64" ? 8 : dtype == "U8" ? 1 : 4;
    // Widest elements first, so that all are aligned.
    auto at = tensors.begin();
    while (at != tensors.end() && width_of(*at) >= width) ++at;
    tensors.insert(at, {name, dtype, std::move(shape), std::move(data)});
  }
  static size_t width_of(const TestTensor& tensor) {
    return tensor.dtype == "U64" ? 8 : tensor.dtype == "U8" ? 1 : 4;
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
