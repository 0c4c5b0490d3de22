// SPDX-License-Identifier: Apache-2.0
// A template instance that both kinds share: Array<char>::reserve. Its callers differ.
#include <new>

#include "../load.h"

namespace {

template <class T>
class Array {
 public:
  KEPT void reserve(size_t n) {
    data_ = static_cast<T*>(stamped(::operator new(n * sizeof(T)), 1, n * sizeof(T)));
  }
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

KEPT void* request_buffer(size_t size) {
  Array<char> buffer;
  buffer.reserve(size);
  return stamped(buffer.data(), 2, size);
}

KEPT void* session_record(size_t size) {
  Array<char> record;
  record.reserve(size);
  return stamped(record.data(), 3, size);
}

}  // namespace

KEPT void* make(Kind kind, size_t size) {
  return opaque(kind == Kind::survivor ? session_record(size) : request_buffer(size));
}

void release(void* object) {
  ::operator delete(object);
}
