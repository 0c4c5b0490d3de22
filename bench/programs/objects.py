# SPDX-License-Identifier: Apache-2.0
"""Strings, lists and dictionaries made and dropped; the argument is the number of rounds."""

import json
import sys


def work(turn):
    words = [f"word-{i * 7919 % 10007}-{turn}" for i in range(60_000)]
    counts = {}
    for word in words:
        counts[word[:8]] = (*counts.get(word[:8], ()), len(word))
    text = json.dumps([{"word": word, "at": [i, str(i)]} for i, word in enumerate(words[:20_000])])
    return len(json.loads(text)) + len(sorted(counts, key=counts.__getitem__))


print(sum(work(turn) for turn in range(int(sys.argv[1]))))
