// SPDX-License-Identifier: Apache-2.0
#include "predict/model_file.h"

#include <bit>
#include <cstring>

#include "base/lifetime_class.h"
#include "predict/safetensors.h"

namespace llamalloc {
namespace {

constexpr char kFormat[] = "llamalloc-model";
constexpr char kVersion[] = "1";

// The tensors and metadata of version 1.
struct Layout {
  SafetensorsMetadata metadata[3] = {{"format"}, {"version"}, {"classes"}};
  SafetensorsTensor tensors[6] = {
      {"vocabulary", "U8", 1, 1}, {"embedding", "F32", 4, 2},    {"lstm_kernel", "F32", 4, 2},
      {"lstm_bias", "F32", 4, 1}, {"dense_kernel", "F32", 4, 2}, {"dense_bias", "F32", 4, 1},
  };

  const SafetensorsMetadata& format() const { return metadata[0]; }
  const SafetensorsMetadata& version() const { return metadata[1]; }
  const SafetensorsMetadata& classes() const { return metadata[2]; }
  const SafetensorsTensor& vocabulary() const { return tensors[0]; }
  const SafetensorsTensor& embedding() const { return tensors[1]; }
  const SafetensorsTensor& lstm_kernel() const { return tensors[2]; }
  const SafetensorsTensor& lstm_bias() const { return tensors[3]; }
  const SafetensorsTensor& dense_kernel() const { return tensors[4]; }
  const SafetensorsTensor& dense_bias() const { return tensors[5]; }
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

bool check_metadata(const Layout& layout, ErrorText& error) {
  if (strcmp(layout.format().value, kFormat) != 0)
    return error.fail("a safetensors file, but not a %s", kFormat);
  if (strcmp(layout.version().value, kVersion) != 0)
    return error.fail("version %s, this library reads %s",
                      layout.version().present ? layout.version().value : "missing", kVersion);
  if (!names_our_classes(layout.classes().value))
    return error.fail("its lifetime classes (%s) differ from this library's; train a new model",
                      layout.classes().value);
  return true;
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

bool check_width(const char* what, uint64_t width, ErrorText& error) {
  if (width >= 1 && width <= kMaxWidth) return true;
  return error.fail("%s width %llu, the limits are 1 and %u", what,
                    static_cast<unsigned long long>(width), kMaxWidth);
}

// E from the embedding's columns and H from the dense kernel's rows; the others must follow.
bool check_shapes(const Layout& layout, LstmConfig* config, ErrorText& error) {
  const uint64_t V = config->vocabulary, C = kLifetimeClasses;
  const uint64_t E = layout.embedding().shape[1], H = layout.dense_kernel().shape[0];
  if (!check_width("embedding", E, error) || !check_width("hidden", H, error)) return false;
  config->embedding = static_cast<uint32_t>(E);
  config->hidden = static_cast<uint32_t>(H);
  config->classes = static_cast<uint32_t>(C);
  return check_shape(layout.embedding(), V, E, error) &&
         check_shape(layout.lstm_kernel(), E + H, 4 * H, error) &&
         check_shape(layout.lstm_bias(), 4 * H, 1, error) &&
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
    if (tensor.element_bytes == sizeof(float) && !check_finite(tensor, error)) return false;
  return true;
}

const float* floats(const SafetensorsTensor& tensor) {
  return reinterpret_cast<const float*>(tensor.data);
}

}  // namespace

bool read_model(const char* data, size_t size, MetadataArena& arena, Model* model,
                ErrorText& error) {
  Layout layout;
  if (!read_safetensors(data, size, layout.metadata, layout.tensors, error)) return false;
  const SafetensorsTensor& vocabulary = layout.vocabulary();
  if (!check_metadata(layout, error) ||
      !model->vocabulary.build(vocabulary.data, vocabulary.bytes, arena, error))
    return false;
  model->config.vocabulary = model->vocabulary.size();
  model->weights = {floats(layout.embedding()), floats(layout.lstm_kernel()),
                    floats(layout.lstm_bias()), floats(layout.dense_kernel()),
                    floats(layout.dense_bias())};
  return check_shapes(layout, &model->config, error) && check_weights(layout, error);
}

bool ModelFile::open(const char* path, MetadataArena& arena, ErrorText& error) {
  using Fault = FileImage::Fault;
  error.prefix("model %s: ", path);
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
