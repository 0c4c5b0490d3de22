// SPDX-License-Identifier: Apache-2.0
// A log pipeline in C style: malloc, realloc, free, structs. A line is parsed into a record of
// fields, which waits in a window of some seconds for what belongs to the same request, and is then
// added to aggregates and freed. Aggregates, by host and template, stay: an entry of a hash table,
// its key, and a histogram that grows by realloc. Of errors an exemplar is kept, in a ring for each
// host. Bursts of 2.5 to 4.5 s with pauses of 3 to 5 s, at random.
//
// Should pay: records are made by the parser, aggregates and exemplars by functions of their own.
// Histograms go on growing; the parser's fields come from one helper, which exemplars use, too.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "server.h"

struct Field {
  char *name, *value;
};
struct Record {
  Record* next;  // in the window
  Field* fields;
  uint32_t count, host, format, length;
  uint64_t sum;
  char* message;
};
struct Aggregate {
  Aggregate* next;
  char* key;
  uint64_t hash, count;
  uint32_t* histogram;
  uint32_t used, size;
};
struct Exemplar {
  char* message;
  char** values;
  uint32_t count;
  uint64_t sum;
};
struct Ring {
  Exemplar* slot[10];
  uint32_t next;
};

[[gnu::noinline]] char* duplicate(const char* p, size_t n) {
  char* out = static_cast<char*>(malloc(n + 1));
  if (!out) abort();
  memcpy(out, p, n);
  out[n] = 0;
  return out;
}

// "host=... template=... k=v k=v | message" -> a record
Record* parse(const char* line, size_t length, uint32_t host, uint32_t format) {
  Record* record = static_cast<Record*>(malloc(sizeof *record));
  record->next = nullptr, record->count = 0, record->host = host, record->format = format;
  record->fields = static_cast<Field*>(malloc(4 * sizeof(Field)));
  uint32_t room = 4;
  const char *p = line, *end = line + length;
  while (p < end && *p != '|') {
    const char* equals = static_cast<const char*>(memchr(p, '=', size_t(end - p)));
    const char* stop = static_cast<const char*>(memchr(p, ' ', size_t(end - p)));
    if (!equals || !stop || stop < equals) corrupt("line");
    if (record->count == room) {
      room *= 2;
      record->fields = static_cast<Field*>(realloc(record->fields, room * sizeof(Field)));
    }
    Field& field = record->fields[record->count++];
    field.name = duplicate(p, size_t(equals - p));
    field.value = duplicate(equals + 1, size_t(stop - equals - 1));
    p = stop + 1;
  }
  record->length = uint32_t(end - p);
  record->message = duplicate(p, record->length);
  record->sum = mix_bytes(2, p, record->length);
  return record;
}

void release(Record* record) {
  if (mix_bytes(2, record->message, record->length) != record->sum) corrupt("message");
  for (uint32_t i = 0; i < record->count; ++i)
    free(record->fields[i].name), free(record->fields[i].value);
  free(record->fields);
  free(record->message);
  free(record);
}

struct Aggregator {
  Aggregate** table;
  uint32_t buckets, entries = 0;
  Ring* rings;
  uint64_t check = 0, kept = 0;

  Aggregate* entry(const Record* record) {
    char key[96];
    const int n = snprintf(key, sizeof key, "%s/%s/template-%u", record->fields[0].value,
                           record->fields[1].value, record->format);
    const uint64_t hash = mix_bytes(3, key, size_t(n));
    for (Aggregate* a = table[hash % buckets]; a; a = a->next)
      if (a->hash == hash && !strcmp(a->key, key)) return a;
    Aggregate* made = static_cast<Aggregate*>(calloc(1, sizeof *made));
    made->key = duplicate(key, size_t(n));
    made->hash = hash;
    made->next = table[hash % buckets];
    table[hash % buckets] = made;
    ++entries;
    return made;
  }
  void add(const Record* record) {
    Aggregate* a = entry(record);
    const uint32_t bucket = uint32_t((record->sum % 4) * (record->sum % 23));  // of its duration
    if (bucket >= a->size) {
      const uint32_t size = bucket + 4;
      a->histogram = static_cast<uint32_t*>(realloc(a->histogram, size * sizeof(uint32_t)));
      memset(a->histogram + a->size, 0, (size - a->size) * sizeof(uint32_t));
      a->size = size;
    }
    ++a->histogram[bucket], ++a->count;
    check = mix(check, a->count + bucket);
  }
  void keep(const Record* record) {
    Ring& ring = rings[record->host];
    Exemplar*& slot = ring.slot[ring.next++ % 10];
    if (slot) drop(slot);
    slot = static_cast<Exemplar*>(malloc(sizeof *slot));
    slot->message = duplicate(record->message, record->length);
    slot->sum = record->sum;
    slot->count = record->count;
    slot->values = static_cast<char**>(malloc(record->count * sizeof(char*)));
    for (uint32_t i = 0; i < record->count; ++i)
      slot->values[i] = duplicate(record->fields[i].value, strlen(record->fields[i].value));
    ++kept;
  }
  void drop(Exemplar* exemplar) {
    if (mix_bytes(2, exemplar->message, strlen(exemplar->message)) != exemplar->sum)
      corrupt("exemplar");
    ++check;
    for (uint32_t i = 0; i < exemplar->count; ++i) free(exemplar->values[i]);
    free(exemplar->values);
    free(exemplar->message);
    free(exemplar);
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Rng rng(args.seed), shape(args.seed + 77);
  Pace pace;
  std::string noise;
  for (int i = 0; i < 50000; ++i) noise += char('A' + rng.below(50));
  const uint32_t hosts = args.count(4000);
  Aggregator aggregator;
  aggregator.buckets = args.count(120000);
  aggregator.table = static_cast<Aggregate**>(calloc(aggregator.buckets, sizeof(Aggregate*)));
  aggregator.rings = static_cast<Ring*>(calloc(hosts, sizeof(Ring)));
  constexpr double kTick = 0.02;
  const int ticks = int(args.seconds / kTick);
  std::vector<Record*> window(ticks + 1, nullptr);  // lists, by when they are due
  uint64_t ops = 0;
  int burst_until = 130 + int(shape.below(60)), pause_until = burst_until + 200;
  double size = 1;
  char line[1024];
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    for (Record* record = window[tick]; record;) {
      Record* next = record->next;
      aggregator.add(record);
      if (record->sum % 128 == 1) aggregator.keep(record);
      release(record);
      record = next, ++ops;
    }
    if (tick >= pause_until) {
      burst_until = tick + 125 + int(shape.below(100));
      pause_until = burst_until + 150 + int(shape.below(100));
      size = 0.75 + 0.25 * shape.unit();
    }
    for (uint32_t n = args.count(tick < burst_until ? 4000 * size : 120); n > 0; --n) {
      const uint32_t host = uint32_t(rng.unit() * rng.unit() * hosts), format = rng.below(30);
      int length =
          snprintf(line, sizeof line, "host=machine-%u.datacenter-%u.example unit=service-%u ",
                   host, host % 7, format % 5);
      for (uint32_t k = 2 + format % 5; k > 0; --k)
        length += snprintf(line + length, sizeof line - size_t(length), "attribute-%u=%llx ",
                           k * format, (unsigned long long)rng.next());
      line[length++] = '|';
      const uint32_t message = rng.range(60, 320);
      memcpy(line + length, noise.data() + rng.below(40000), message);
      Record* record = parse(line, size_t(length) + message, host, format);
      const int until = std::min(ticks, tick + 50 + int(rng.below(75)));
      record->next = window[until];
      window[until] = record;
    }
  }
  for (Record* record = window[ticks]; record;) {  // the end: nobody waits for what is missing
    Record* next = record->next;
    release(record);
    record = next;
  }
  uint64_t check = aggregator.check;
  for (uint32_t i = 0; i < aggregator.buckets; ++i)
    for (Aggregate* a = aggregator.table[i]; a; a = a->next) {
      uint64_t total = 0;
      for (uint32_t k = 0; k < a->size; ++k) total += a->histogram[k];
      if (total != a->count) corrupt("histogram");
      check = mix(mix_bytes(check, a->key, strlen(a->key)), total);
    }
  finish("logpipe", ops + aggregator.kept, mix(check, aggregator.entries), pace);
  return 0;  // what stays is left to the kernel
}
