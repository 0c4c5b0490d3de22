# SPDX-License-Identifier: Apache-2.0
# A cache in Ruby with random eviction, filled by four threads: strings and arrays of all sizes,
# replaced and dropped at random.
#
#     cache.rb [--peak MiB] [--churn N] [--wait]     prints one line of JSON, as load.cc does
require 'json'
require 'optparse'

PER_ENTRY = 2000 # bytes of malloc that an entry holds, on average
THREADS = 4

options = { peak: 128, churn: 2, wait: false }
OptionParser.new do |parser|
  parser.on('--peak MIB', Integer) { |n| options[:peak] = n }
  parser.on('--churn N', Integer) { |n| options[:churn] = n }
  parser.on('--wait') { options[:wait] = true }
end.parse!

# A record as a web server would keep: a key, a body, a list of numbers.
def entry(numbers)
  size = 64 << numbers.rand(6)
  { key: "session-#{numbers.rand}" * 2, body: 'b' * size, times: Array.new(size / 16) { |n| n } }
end

def fill(part, count, options, seed)
  numbers = Random.new(seed)
  count.times { part << entry(numbers) }
  (options[:churn] * count).times { part[numbers.rand(count)] = entry(numbers) }
  part.shuffle!(random: numbers)
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

count = [4, (options[:peak] << 20) / PER_ENTRY / THREADS].max
parts = Array.new(THREADS) { [] }
start = now
parts.each_with_index.map { |part, i| Thread.new { fill(part, count, options, i) } }.each(&:join)
churned = now
parts.each { |part| part.slice!(count / 4, count) }
GC.start
puts JSON.generate({ live: 0, fill: churned - start, drop: now - churned })
$stdout.flush
$stdin.read if options[:wait]
