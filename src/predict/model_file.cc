// SPDX-License-Identifier: Apache-2.0
#include "predict/model_file.h"

#include <bit>
#include <cstdio>
#include <cstring>

#include "base/crc32.h"
#include "base/lifetime_class.h"
#include "predict/safetensors.h"

namespace llamalloc {
namespace {

constexpr char kFormat[] = "llamalloc-model";
constexpr char kVersion[] = "3";

// The tensors and metadata of version 3.
struct Layout {
  SafetensorsMetadata metadata[6] = {{"format"},   {"version"}, {"classes"},
                                     {"programs"}, {"gate"},    {"crc32"}};
  SafetensorsTensor tensors[17] = {
      {"vocabulary", "U8", 1, 1},     {"embedding", "F32", 4, 2},   {"depth_scale", "F32", 4, 2},
      {"hidden_kernel", "F32", 4, 2}, {"size_bias", "F32", 4, 2},   {"dense_kernel", "F32", 4, 2},
      {"dense_bias", "F32", 4, 1},    {"exact_keys", "U64", 8, 1},  {"exact_answers", "U8", 1, 1},
      {"exact_samples", "U32", 4, 1}, {"name_keys", "U64", 8, 1},   {"name_answers", "U8", 1, 2},
      {"name_samples", "U32", 4, 1},  {"table_trust", "F32", 4, 1}, {"prior_trust", "F32", 4, 1},
      {"network_trust", "F32", 4, 1}, {"builds", "U64", 8, 1},
  };

  const SafetensorsMetadata& format() const { return metadata[0]; }
  const SafetensorsMetadata& version() const { return metadata[1]; }
  const SafetensorsMetadata& classes() const { return metadata[2]; }
  const SafetensorsTensor& vocabulary() const { return tensors[0]; }
  const SafetensorsTensor& embedding() const { return tensors[1]; }
  const SafetensorsTensor& depth_scale() const { return tensors[2]; }
  const SafetensorsTensor& hidden_kernel() const { return tensors[3]; }
  const SafetensorsTensor& size_bias() const { return tensors[4]; }
  const SafetensorsTensor& dense_kernel() const { return tensors[5]; }
  const SafetensorsTensor& dense_bias() const { return tensors[6]; }
  const SafetensorsMetadata& programs() const { return metadata[3]; }
  const SafetensorsMetadata& gate() const { return metadata[4]; }
  const SafetensorsMetadata& crc() const { return metadata[5]; }
  const SafetensorsTensor& exact(int i) const { return tensors[7 + i]; }  // keys, answers, samples
  const SafetensorsTensor& names(int i) const { return tensors[10 + i]; }
  const SafetensorsTensor& table_trust() const { return tensors[13]; }
  const SafetensorsTensor& prior_trust() const { return tensors[14]; }
  const SafetensorsTensor& network_trust() const { return tensors[15]; }
  const SafetensorsTensor& builds() const { return tensors[16]; }
};

// Whether `text` is the names of the lifetime classes joined by commas.
bool names_our_classes(const char* text) {
  for (int i = 0; i < kLifetimeClasses; ++i) {
    if (i > 0 && *text++ != ',') return false;
    const size_t length = strlen(kLifetimeClassRows[i].name);
    if (strncmp(text, kLifetimeClassRows[i].name, length) != 0) return false;
    text += length;
  }
  return *text == '\0';
}

// `fault`: what is wrong with the file, empty if nothing. The version goes first: tensors of
// another version have other names.
bool check_version(const Layout& layout, const char* fault, ErrorText& error) {
  const SafetensorsMetadata& version = layout.version();
  const bool is_model = strcmp(layout.format().value, kFormat) == 0;
  if (is_model && (version.present || !*fault) && strcmp(version.value, kVersion) != 0)
    return error.fail("version %s, this library reads %s; train again",
                      version.present ? version.value : "missing", kVersion);
  return !*fault || error.fail("%s", fault);
}

bool check_metadata(const Layout& layout, ErrorText& error) {
  if (strcmp(layout.format().value, kFormat) != 0)
    return error.fail("a safetensors file, but not a %s", kFormat);
  if (!names_our_classes(layout.classes().value))
    return error.fail("its lifetime classes (%s) differ from this library's; train a new model",
                      layout.classes().value);
  return true;
}

// Of all that follows the header, which read_safetensors() has taken.
bool check_sum(const SafetensorsMetadata& crc, const char* data, size_t size, ErrorText& error) {
  if (!crc.present) return true;
  uint64_t header;
  memcpy(&header, data, sizeof(header));
  const size_t start = sizeof(header) + header;
  char found[9];
  snprintf(found, sizeof(found), "%08x", crc32(0, data + start, size - start));
  return strcmp(crc.value, found) == 0 ||
         error.fail("its checksum is wrong: the file is damaged; train again");
}

bool check_shape(const SafetensorsTensor& tensor, uint64_t rows, uint64_t columns,
                 ErrorText& error) {
  const uint64_t have = tensor.rank == 2 ? tensor.shape[1] : 1;
  if (tensor.shape[0] == rows && have == columns) return true;
  return error.fail("tensor `%s` is %llu x %llu, not %llu x %llu", tensor.name,
                    static_cast<unsigned long long>(tensor.shape[0]),
                    static_cast<unsigned long long>(have), static_cast<unsigned long long>(rows),
                    static_cast<unsigned long long>(columns));
}

bool check_width(const char* what, uint64_t width, uint32_t most, ErrorText& error) {
  if (width >= 1 && width <= most) return true;
  return error.fail("%s width %llu, the limits are 1 and %u", what,
                    static_cast<unsigned long long>(width), most);
}

// E and D from the scale of depths, H from the dense kernel's rows; the others must follow.
bool check_shapes(const Layout& layout, BagConfig* config, ErrorText& error) {
  const uint64_t V = config->vocabulary, C = kLifetimeClasses;
  const uint64_t D = layout.depth_scale().shape[0], E = layout.depth_scale().shape[1];
  const uint64_t H = layout.dense_kernel().shape[0];
  if (!check_width("embedding", E, kMaxWidth, error) ||
      !check_width("depth", D, kMaxTokenFrames, error) ||
      !check_width("hidden", H, kMaxWidth, error))
    return false;
  config->embedding = static_cast<uint32_t>(E);
  config->depths = static_cast<uint32_t>(D);
  config->hidden = static_cast<uint32_t>(H);
  config->classes = static_cast<uint32_t>(C);
  return check_shape(layout.embedding(), V, E, error) &&
         check_shape(layout.hidden_kernel(), E, H, error) &&
         check_shape(layout.size_bias(), kSizeRows, H, error) &&
         check_shape(layout.dense_kernel(), H, C, error) &&
         check_shape(layout.dense_bias(), C, 1, error);
}

bool check_finite(const SafetensorsTensor& tensor, ErrorText& error) {
  constexpr uint32_t kExponent = 0x7F800000;
  const float* values = reinterpret_cast<const float*>(tensor.data);
  const size_t count = tensor.bytes / sizeof(float);
  for (size_t i = 0; i < count; ++i)
    if ((std::bit_cast<uint32_t>(values[i]) & kExponent) == kExponent)
      return error.fail("tensor `%s`: element %zu is not a finite number", tensor.name, i);
  return true;
}

bool check_weights(const Layout& layout, ErrorText& error) {
  for (const SafetensorsTensor& tensor : layout.tensors)
    if (strcmp(tensor.dtype, "F32") == 0 && !check_finite(tensor, error)) return false;
  return true;
}

const float* floats(const SafetensorsTensor& tensor) {
  return reinterpret_cast<const float*>(tensor.data);
}

const uint64_t* words(const SafetensorsTensor& tensor) {
  return reinterpret_cast<const uint64_t*>(tensor.data);
}
const uint8_t* bytes(const SafetensorsTensor& tensor) {
  return reinterpret_cast<const uint8_t*>(tensor.data);
}

bool check_keys(const SafetensorsTensor& keys, ErrorText& error) {
  if (keys.shape[0] > kMaxNodes)
    return error.fail("tensor `%s` has %llu keys, the limit is %u", keys.name,
                      static_cast<unsigned long long>(keys.shape[0]), kMaxNodes);
  for (size_t i = 1; i < keys.shape[0]; ++i)
    if (words(keys)[i] <= words(keys)[i - 1])
      return error.fail("tensor `%s`: key %zu does not ascend", keys.name, i);
  return true;
}

// Every `stride`-th byte is an answer; where stride is 2, the others are classes.
bool check_answers(const SafetensorsTensor& answers, size_t stride, ErrorText& error) {
  for (size_t i = 0; i < answers.bytes; ++i) {
    const uint8_t byte = bytes(answers)[i];
    if (i % stride == 0 ? NodeTable::is_answer(byte) : byte < kLifetimeClasses) continue;
    return error.fail("tensor `%s`: byte %zu is %u, no answer", answers.name, i, byte);
  }
  return true;
}

bool check_table(const SafetensorsTensor& keys, const SafetensorsTensor& answers,
                 const SafetensorsTensor& samples, ErrorText& error) {
  const uint64_t nodes = keys.shape[0];
  const size_t stride = answers.rank == 2 ? 2 : 1;
  return check_shape(answers, nodes, stride, error) && check_shape(samples, nodes, 1, error) &&
         check_keys(keys, error) && check_answers(answers, stride, error);
}

bool check_trust(const SafetensorsTensor& trust, uint64_t count, ErrorText& error) {
  if (!check_shape(trust, count, 1, error)) return false;
  for (uint64_t i = 0; i < count; ++i)
    if (const float share = floats(trust)[i]; share != -1 && !(share >= 0 && share <= 1))
      return error.fail("tensor `%s`: element %llu is neither a share nor -1", trust.name,
                        static_cast<unsigned long long>(i));
  return true;
}

bool check_evidence(const Layout& layout, ErrorText& error) {
  if (layout.builds().shape[0] > kMaxBuilds) return error.fail("more than %u builds", kMaxBuilds);
  return check_table(layout.exact(0), layout.exact(1), layout.exact(2), error) &&
         check_table(layout.names(0), layout.names(1), layout.names(2), error) &&
         check_trust(layout.table_trust(), 2, error) &&
         check_trust(layout.prior_trust(), kNearnesses, error) &&
         check_trust(layout.network_trust(), kNearnesses, error);
}

void take_evidence(const Layout& layout, ModelEvidence* evidence) {
  evidence->exact =
      NodeTable(words(layout.exact(0)), bytes(layout.exact(1)), layout.exact(0).shape[0], 1);
  evidence->names =
      NodeTable(words(layout.names(0)), bytes(layout.names(1)), layout.names(0).shape[0], 2);
  evidence->priors = bytes(layout.names(1)) + 1;
  evidence->prior_trust = floats(layout.prior_trust());
  evidence->network_trust = floats(layout.network_trust());
  evidence->builds = words(layout.builds());
  evidence->build_count = layout.builds().shape[0];
  memcpy(evidence->programs, layout.programs().value, sizeof(evidence->programs));
  memcpy(evidence->gate, layout.gate().value, sizeof(evidence->gate));
}
static_assert(sizeof(ModelEvidence::programs) == sizeof(SafetensorsMetadata::value));
static_assert(sizeof(ModelEvidence::gate) == sizeof(SafetensorsMetadata::value));

}  // namespace

bool read_model(const char* data, size_t size, MetadataArena& arena, Model* model,
                ErrorText& error) {
  Layout layout;
  char fault[256];
  ErrorText found(fault, sizeof(fault));
  read_safetensors(data, size, layout.metadata, layout.tensors, found);
  const SafetensorsTensor& vocabulary = layout.vocabulary();
  if (!check_version(layout, fault, error) || !check_metadata(layout, error) ||
      !check_sum(layout.crc(), data, size, error) ||
      !model->vocabulary.build(vocabulary.data, vocabulary.bytes, arena, error))
    return false;
  if (model->vocabulary.id({"@", 1, false}) != kSeparatorId)
    return error.fail("vocabulary: line 1 is not @");
  model->config.vocabulary = model->vocabulary.size();
  model->weights = {floats(layout.embedding()),     floats(layout.depth_scale()),
                    floats(layout.hidden_kernel()), floats(layout.size_bias()),
                    floats(layout.dense_kernel()),  floats(layout.dense_bias())};
  if (!check_shapes(layout, &model->config, error) || !check_weights(layout, error) ||
      !check_evidence(layout, error))
    return false;
  take_evidence(layout, &model->evidence);
  return true;
}

bool ModelFile::open(const char* path, MetadataArena& arena, ErrorText& error) {
  using Fault = FileImage::Fault;
  error.add("model %s: ", path);
  switch (image_.open(path, kMaxModelBytes)) {
    case Fault::none:
      break;
    case Fault::system:
      return error.fail("%s", image_.reason());
    case Fault::not_regular:
      return error.fail("not a regular file");
    case Fault::too_large:
      return error.fail("larger than %zu MiB", kMaxModelBytes >> 20);
    case Fault::out_of_memory:
      return error.fail("out of memory");
  }
  if (read_model(image_.data(), image_.size(), arena, &model_, error)) return true;
  image_.close();
  return false;
}

}  // namespace llamalloc
