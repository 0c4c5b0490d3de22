// SPDX-License-Identifier: Apache-2.0
#include "predict/safetensors.h"

#include <cstring>

#include "predict/json_reader.h"

namespace llamalloc {
namespace {

constexpr size_t kLengthBytes = 8;

struct Name {
  char text[64];
  size_t length = 0;

  bool read(JsonReader& json) { return json.string(text, sizeof(text), &length); }
  // By length too: a decoded string may hold a 0.
  bool is(const char* other) const {
    return strlen(other) == length && memcmp(text, other, length) == 0;
  }
};

class HeaderReader {
 public:
  HeaderReader(const char* data, size_t header_bytes, size_t data_bytes, ErrorText& error)
      : json_(data, header_bytes),
        tensor_data_(data + header_bytes),
        data_bytes_(data_bytes),
        error_(error) {}

  bool read(std::span<SafetensorsMetadata> metadata, std::span<SafetensorsTensor> tensors);
  uint64_t last_end() const { return last_end_; }

 private:
  bool malformed() {
    return error_.fail("malformed JSON header (byte %zu)", kLengthBytes + json_.position());
  }
  bool read_metadata(std::span<SafetensorsMetadata> metadata);
  bool read_metadata_value(SafetensorsMetadata* field);
  bool read_tensor(SafetensorsTensor& tensor);
  bool read_member(const Name& key, Name& dtype, SafetensorsTensor& tensor, uint64_t (&offsets)[2]);
  bool read_integers(uint64_t* out, int room, int* count);
  bool check(SafetensorsTensor& tensor, const Name& dtype, const uint64_t (&offsets)[2]);

  JsonReader json_;
  const char* tensor_data_;
  size_t data_bytes_;
  ErrorText& error_;
  int rank_ = -1;
  int offset_count_ = -1;
  uint64_t last_end_ = 0;
  bool metadata_seen_ = false;
};

template <typename Field>
Field* find(std::span<Field> fields, const Name& name, const char* Field::* member) {
  for (Field& field : fields)
    if (name.is(field.*member)) return &field;
  return nullptr;
}

bool HeaderReader::read(std::span<SafetensorsMetadata> metadata,
                        std::span<SafetensorsTensor> tensors) {
  if (!json_.consume('{')) return malformed();
  bool first = true;
  while (!json_.consume('}')) {
    Name name;
    if ((!first && !json_.consume(',')) || !name.read(json_) || !json_.consume(':'))
      return malformed();
    first = false;
    if (name.is("__metadata__")) {
      if (!read_metadata(metadata)) return false;
      continue;
    }
    SafetensorsTensor* tensor = find(tensors, name, &SafetensorsTensor::name);
    if (tensor == nullptr) return error_.fail("unknown tensor `%s`", name.text);
    if (tensor->present) return error_.fail("tensor `%s` twice", tensor->name);
    if (!read_tensor(*tensor)) return false;
  }
  return json_.at_end() || malformed();
}

bool HeaderReader::read_metadata(std::span<SafetensorsMetadata> metadata) {
  if (metadata_seen_) return error_.fail("`__metadata__` twice");
  metadata_seen_ = true;
  if (!json_.consume('{')) return malformed();
  bool first = true;
  while (!json_.consume('}')) {
    Name key;
    if ((!first && !json_.consume(',')) || !key.read(json_) || !json_.consume(':'))
      return malformed();
    first = false;
    if (!read_metadata_value(find(metadata, key, &SafetensorsMetadata::key))) return false;
  }
  return true;
}

bool HeaderReader::read_metadata_value(SafetensorsMetadata* field) {
  if (field == nullptr) return json_.string(nullptr, 0) || malformed();
  if (field->present) return error_.fail("metadata `%s` twice", field->key);
  field->present = true;
  size_t length;
  if (!json_.string(field->value, sizeof(field->value), &length)) return malformed();
  return strlen(field->value) == length || malformed();
}

bool HeaderReader::read_tensor(SafetensorsTensor& tensor) {
  Name dtype;
  uint64_t offsets[2];
  rank_ = offset_count_ = -1;
  if (!json_.consume('{')) return malformed();
  for (int i = 0; i < 3; ++i) {
    Name key;
    if ((i > 0 && !json_.consume(',')) || !key.read(json_) || !json_.consume(':'))
      return malformed();
    if (!read_member(key, dtype, tensor, offsets)) return false;
  }
  if (!json_.consume('}')) return malformed();
  tensor.present = true;
  return check(tensor, dtype, offsets);
}

bool HeaderReader::read_member(const Name& key, Name& dtype, SafetensorsTensor& tensor,
                               uint64_t (&offsets)[2]) {
  if (key.is("dtype") && dtype.length == 0) return dtype.read(json_) || malformed();
  if (key.is("shape") && rank_ < 0) return read_integers(tensor.shape, kMaxRank, &rank_);
  if (key.is("data_offsets") && offset_count_ < 0) return read_integers(offsets, 2, &offset_count_);
  return error_.fail("tensor `%s`: unexpected member `%s`", tensor.name, key.text);
}

bool HeaderReader::read_integers(uint64_t* out, int room, int* count) {
  *count = 0;
  if (!json_.consume('[')) return malformed();
  while (!json_.consume(']')) {
    if (*count == room || (*count > 0 && !json_.consume(','))) return malformed();
    if (!json_.unsigned_integer(&out[(*count)++])) return malformed();
  }
  return true;
}

bool HeaderReader::check(SafetensorsTensor& tensor, const Name& dtype,
                         const uint64_t (&offsets)[2]) {
  if (!dtype.is(tensor.dtype))
    return error_.fail("tensor `%s` has type %s, not %s", tensor.name, dtype.text, tensor.dtype);
  if (rank_ != tensor.rank)
    return error_.fail("tensor `%s` has %d dimensions, not %d", tensor.name, rank_, tensor.rank);
  if (offset_count_ != 2 || offsets[0] > offsets[1])
    return error_.fail("tensor `%s`: bad data_offsets", tensor.name);
  uint64_t bytes = tensor.element_bytes;
  for (int i = 0; i < rank_; ++i)
    if (__builtin_mul_overflow(bytes, tensor.shape[i], &bytes))
      return error_.fail("tensor `%s`: its shape is too large", tensor.name);
  if (bytes != offsets[1] - offsets[0])
    return error_.fail("tensor `%s`: its shape needs %llu bytes, data_offsets give %llu",
                       tensor.name, static_cast<unsigned long long>(bytes),
                       static_cast<unsigned long long>(offsets[1] - offsets[0]));
  if (offsets[1] > last_end_) last_end_ = offsets[1];
  if (offsets[1] > data_bytes_) return true;  // truncated: told once all tensors are known
  tensor.data = tensor_data_ + offsets[0];
  tensor.bytes = bytes;
  if (reinterpret_cast<uintptr_t>(tensor.data) % tensor.element_bytes != 0)
    return error_.fail("tensor `%s` is not aligned to %zu bytes", tensor.name,
                       tensor.element_bytes);
  return true;
}

bool check_disjoint(std::span<SafetensorsTensor> tensors, ErrorText& error) {
  for (const SafetensorsTensor& a : tensors)
    for (const SafetensorsTensor& b : tensors)
      if (&a != &b && b.bytes > 0 && b.data >= a.data && b.data < a.data + a.bytes)
        return error.fail("tensors `%s` and `%s` overlap", a.name, b.name);
  return true;
}

bool check_length(size_t size, size_t header_end, uint64_t last_end, ErrorText& error) {
  const size_t data_bytes = size - header_end;
  if (last_end > data_bytes)
    return error.fail("truncated: header says %llu bytes, file has %zu",
                      static_cast<unsigned long long>(last_end) + header_end, size);
  if (last_end < data_bytes)
    return error.fail("%zu bytes after the last tensor", data_bytes - size_t{last_end});
  return true;
}

// With no overlap and nothing behind the last tensor, lengths that add up leave no gap.
bool check_cover(std::span<SafetensorsTensor> tensors, size_t data_bytes, ErrorText& error) {
  size_t covered = 0;
  for (const SafetensorsTensor& tensor : tensors) covered += tensor.bytes;
  return covered == data_bytes ||
         error.fail("a gap of %zu bytes between tensors", data_bytes - covered);
}

bool check_start(const char* data, size_t size, uint64_t* header_bytes, ErrorText& error) {
  if (size < kLengthBytes + 2) return error.fail("not a safetensors file (%zu bytes long)", size);
  memcpy(header_bytes, data, kLengthBytes);
  if (*header_bytes < 2 || *header_bytes > kMaxHeaderBytes || data[kLengthBytes] != '{')
    return error.fail("not a safetensors file");
  if (*header_bytes > size - kLengthBytes)
    return error.fail("truncated: header says %llu bytes, file has %zu",
                      static_cast<unsigned long long>(*header_bytes + kLengthBytes), size);
  return true;
}

}  // namespace

bool read_safetensors(const char* data, size_t size, std::span<SafetensorsMetadata> metadata,
                      std::span<SafetensorsTensor> tensors, ErrorText& error) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "tensors are used as they lie");
  uint64_t header_bytes = 0;
  if (!check_start(data, size, &header_bytes, error)) return false;
  const size_t header_end = kLengthBytes + header_bytes;
  HeaderReader reader(data + kLengthBytes, header_bytes, size - header_end, error);
  if (!reader.read(metadata, tensors)) return false;
  for (const SafetensorsTensor& tensor : tensors)
    if (!tensor.present) return error.fail("tensor `%s` is missing", tensor.name);
  return check_length(size, header_end, reader.last_end(), error) &&
         check_disjoint(tensors, error) && check_cover(tensors, size - header_end, error);
}

}  // namespace llamalloc
