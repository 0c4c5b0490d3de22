// SPDX-License-Identifier: Apache-2.0
// One thread makes messages, and in each wave a graph of small nodes (32 to 96 bytes). Another
// thread frees them. One node in 50 comes from the same function by another call site and stays for
// ever. Waves come every 6 s; between them a trickle of messages crosses the threads.
//
// Why it is hard: nodes that stay lie among millions of equal size, and only the caller tells them
// apart. All frees are remote. Nodes of a graph die in random order.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server.h"

struct Node {
  Node *left, *right;
  uint32_t id;
  uint16_t extra;  // bytes of payload
  uint16_t kind;
  uint64_t payload[];
};

[[gnu::noinline]] Node* make_node(uint32_t id, uint32_t extra, Node* left, Node* right) {
  Node* node = static_cast<Node*>(operator new(sizeof(Node) + extra));
  node->left = left, node->right = right, node->id = id, node->extra = uint16_t(extra),
  node->kind = uint16_t(id % 97);
  for (uint32_t i = 0; i < extra / 8; ++i) node->payload[i] = mix(id, i);
  return node;
}
uint64_t verify(const Node* node) {
  if (node->kind != node->id % 97) corrupt("node");
  for (uint32_t i = 0; i < node->extra / 8u; ++i)
    if (node->payload[i] != mix(node->id, i)) corrupt("payload");
  return mix(node->id, node->extra);
}

struct Batch {
  std::vector<Node*> nodes;
  std::string topic;
};
struct Queue {
  std::mutex mutex;
  std::condition_variable filled;
  std::deque<Batch*> batches;
  void push(Batch* batch) {
    {
      std::lock_guard lock(mutex);
      batches.push_back(batch);
    }
    filled.notify_one();
  }
  Batch* pop() {
    std::unique_lock lock(mutex);
    filled.wait(lock, [&] { return !batches.empty(); });
    Batch* batch = batches.front();
    batches.pop_front();
    return batch;
  }
};

void consume(Queue& queue, uint64_t& sum, uint64_t& freed) {
  while (Batch* batch = queue.pop()) {
    for (Node* node : batch->nodes) {
      sum += verify(node);
      ++freed;
      operator delete(node);
    }
    delete batch;
  }
}

struct Producer {
  Rng rng;
  Queue& queue;
  std::vector<Node*> graph;    // of this wave
  std::vector<Node*> anchors;  // stay

  uint32_t id = 0;
  uint64_t ops = 0;

  static uint32_t payload(uint32_t dice) {
    return 8 * (dice % 9);
  }  // 24 + 0 .. 64 + header: 32 to 96 bytes
  void step(uint32_t nodes) {
    for (uint32_t i = 0; i < nodes; ++i) {
      Node* left = graph.empty() ? nullptr : graph[rng.below(graph.size())];
      Node* right = anchors.empty() ? nullptr : anchors[rng.below(anchors.size())];
      Node* node;
      ++id;
      if (rng.below(50) == 0) {
        node = make_node(id, payload(id), nullptr, right);
        anchors.push_back(node);
      } else {
        node = make_node(id, payload(id * 7), left, right);
        graph.push_back(node);
      }
      if (right && right->kind != right->id % 97) corrupt("anchor");
      ++ops;
    }
  }
  // Messages: made here, freed there within milliseconds.
  void chatter(uint32_t messages) {
    while (messages > 0) {
      Batch* batch = new Batch;
      batch->topic = "topic/of/this/batch/" + std::to_string(rng.below(1000));
      for (uint32_t n = std::min(messages, rng.range(5, 60)); n > 0; --n, --messages, ++ops)
        batch->nodes.push_back(make_node(++id, payload(rng.below(9)), nullptr, nullptr));
      queue.push(batch);
    }
  }
  // A part of the graph, from all over it, goes to the consumer, who frees it.
  void release(size_t count) {
    Batch* batch = new Batch;
    for (; count > 0 && !graph.empty(); --count) {
      const uint32_t i = rng.below(graph.size());
      batch->nodes.push_back(graph[i]);
      graph[i] = graph.back();
      graph.pop_back();
    }
    queue.push(batch);
  }
};

int main(int argc, char** argv) {
  Args args(argc, argv);
  Pace pace;
  Queue queue;
  uint64_t sum = 0, freed = 0;
  std::thread consumer([&] { consume(queue, sum, freed); });
  Producer producer{Rng(args.seed), queue, {}, {}};
  constexpr double kTick = 0.02;
  constexpr int kPeriod = 300, kGrow = 110, kHold = 40, kShrink = 40;
  const int ticks = int(args.seconds / kTick);
  for (int tick = 0; tick < ticks; ++tick) {
    pace.at(tick * kTick);
    const int within = tick % kPeriod, wave = tick / kPeriod;
    const double size = args.wave_size(wave, 0.7, 0.3);
    if (within < kGrow)
      producer.step(args.count(36000 * size));
    else if (within >= kGrow + kHold && within < kGrow + kHold + kShrink)
      producer.release(producer.graph.size() / (kGrow + kHold + kShrink - within) + 1);
    producer.chatter(args.count(within < kGrow ? 1500 : 250));
  }
  producer.release(producer.graph.size());
  queue.push(nullptr);
  consumer.join();
  for (Node* anchor : producer.anchors) sum += verify(anchor);
  if (freed + producer.anchors.size() != producer.ops) corrupt("count of nodes");
  finish("graph", producer.ops + freed, sum, pace);
  return 0;  // the anchors are left to the kernel
}
